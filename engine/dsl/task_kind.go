package dsl

import (
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

func (p *tasks) set(t *Task, n *yaml.Node, s scope) {
	switch {
	case n.Shape == yaml.Object && len(n.Fields) == 0:
		p.Mistake(n.Pos, "write what to set: {name: value}", "set is empty")
	case n.Shape != yaml.Object && n.Shape != yaml.Text:
		p.wrong(n, "set", "a map of data, or an expression")
	}
	t.Set = p.value(n, s)
}

// loop parses a for task.
func (p *tasks) loop(t *Task, n *yaml.Node, local scope) {
	t.For = &ForTask{Each: "item", At: "index"}
	own := n.Get("for")
	if p.object(own, "for", keys("each", "in", "at").need("in")) {
		t.For.Each = p.variable(own.Get("each"), "for.each", "item")
		t.For.At = p.variable(own.Get("at"), "for.at", "index")
		if at := own.Get("at"); t.For.At == t.For.Each {
			if at == nil {
				at = own.Get("each")
			}
			p.Mistake(at.Pos, "give one of them another name", "for.each and for.at are both %s: the item would be lost", yaml.Quote(t.For.At))
		}
		t.For.In = p.collection(own.Get("in"), local.during())
	}
	inner := local.with(t.For.Each, t.For.At)
	t.For.While = p.condition(n.Get("while"), "while", inner.during())
	if n.Get("do") == nil {
		p.Mistake(t.Pos, "add `do: …`", "task %s: for has no do", yaml.Quote(t.Name))
	}
	t.Do = p.taskList(n.Get("do"), "do", place{ref: t.Ref + "/do", local: inner, looped: true})
}

// collection parses the value of for.in: an expression, or a list of maps.
func (p *tasks) collection(n *yaml.Node, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if n.Shape != yaml.List {
		if n.Shape != yaml.Text {
			p.wrong(n, "for.in", "an expression or a list of maps")
			return nil
		}
		return computed(p.expression(n, "for.in", s))
	}
	for _, item := range n.Items {
		if item.Shape != yaml.Object {
			p.Mistake(item.Pos, "write the whole list as an expression: in: '${ […] }'",
				"for.in: the items of a literal list must be maps, this is %s", item.Shape)
			break
		}
	}
	return p.value(n, s)
}

// fork parses a fork task.
func (p *tasks) fork(t *Task, n *yaml.Node, local scope) {
	t.Fork = &ForkTask{}
	if !p.object(n, "fork", keys("branches", "compete").need("branches")) {
		return
	}
	t.Fork.Compete = p.flag(n.Get("compete"), "compete")
	t.Fork.Branches = p.taskList(n.Get("branches"), "branches", place{ref: t.Ref + "/fork/branches", local: local, branch: true})
	var exporting []*Task
	for _, branch := range t.Fork.Branches {
		if exports(branch) {
			exporting = append(exporting, branch)
		}
	}
	if len(exporting) > 1 && !t.Fork.Compete {
		p.Warn(ruleBranchExports, exporting[1].Pos, "export once, after the fork",
			"branches %s and %s both export: flunq merges their exports in the order of the branches, other runtimes differ",
			yaml.Quote(exporting[0].Name), yaml.Quote(exporting[1].Name))
	}
}

// exports reports whether a task, or one inside it, changes $context.
func exports(t *Task) bool {
	return t.Export.As != nil || slices.ContainsFunc(slices.Concat(t.Lists()...), exports)
}

// cases parses a switch task.
func (p *tasks) cases(t *Task, n *yaml.Node, at place) {
	items := p.list(n, "switch")
	if n.Shape == yaml.List && len(items) == 0 {
		p.Mistake(n.Pos, "add a case: `- name: {when: …, then: …}`", "switch has no cases")
	}
	var fallback *SwitchCase
	for _, item := range items {
		if item.Shape != yaml.Object || len(item.Fields) != 1 {
			p.Mistake(item.Pos, "write it as `- name: {when: …, then: …}`", "a case has exactly one name, with when and then below it")
			continue
		}
		f := item.Fields[0]
		if !p.object(f.Value, "case "+yaml.Quote(f.Key), keys("when", "then").need("then")) {
			continue
		}
		then := f.Value.Get("then")
		c := SwitchCase{Name: f.Key, Pos: f.Pos, When: p.condition(f.Value.Get("when"), "when", at.local.during()), Then: p.then(then, at)}
		if at.looped && c.Then == Exit {
			p.Warn(ruleExitInLoop, then.Pos, "to leave the loop, use `while:`", "exit in a for ends the iteration, not the loop")
		}
		if i := slices.IndexFunc(t.Switch, func(other SwitchCase) bool { return other.Name == c.Name }); i >= 0 {
			p.Warn(ruleCaseName, f.Pos, "give it another name", "this switch already has a case %s, on line %d", yaml.Quote(c.Name), t.Switch[i].Pos.Line)
		}
		t.Switch = append(t.Switch, c)
		switch {
		case f.Value.Get("when") != nil:
		case fallback != nil:
			p.Mistake(f.Pos, "add `when: …`", "a second case without when: the default is on line %d", fallback.Pos.Line)
		default:
			fallback = &c
		}
	}
}

// try parses a try task.
func (p *tasks) try(t *Task, n *yaml.Node, at place) {
	t.Try = &TryTask{Try: p.taskList(n.Get("try"), "try", place{ref: t.Ref + "/try", local: at.local})}
	catch := n.Get("catch")
	if catch == nil {
		if !misspelt(n, "catch", append(commonKeys(), "try", "catch")) {
			p.Mistake(t.Pos, "add `catch: …`", "task %s: try has no catch", yaml.Quote(t.Name))
		}
		return
	}
	c := &t.Try.Catch
	c.As = "error"
	if !p.object(catch, "catch", keys("errors", "as", "when", "exceptWhen", "retry", "do", "then").
		under("errors", "with").under("errors: with", "type", "status").under("retry", "delay", "backoff", "limit")) {
		return
	}
	c.With = p.faults.errorFilter(catch.Get("errors"))
	c.As = p.variable(catch.Get("as"), "catch.as", "error")
	inner := at.local.catching(c.As)
	c.When = p.condition(catch.Get("when"), "catch.when", inner.during())
	c.ExceptWhen = p.condition(catch.Get("exceptWhen"), "catch.exceptWhen", inner.during())
	c.Retry = p.faults.retry(catch.Get("retry"), c.As, at.local)
	if do := catch.Get("do"); do != nil {
		c.Do = p.taskList(do, "catch.do", place{ref: t.Ref + "/catch/do", local: inner})
	}
	c.Then = p.then(catch.Get("then"), at)
}

// listen parses a listen task.
func (p *tasks) listen(t *Task, n *yaml.Node, local scope) {
	t.Listen = &ListenTask{Read: "data"}
	own := n.Get("listen")
	if p.object(own, "listen", keys("to", "read").need("to").under("to", "all", "any", "one", "until")) {
		t.Listen.Read = p.word(own.Get("read"), "listen.read", "data", "data", "envelope", "raw")
		if to := own.Get("to"); to != nil {
			t.Listen.To = p.events.consumption(to, "listen.to", local.during(), false)
		}
	}
	if each := n.Get("foreach"); each != nil {
		t.Listen.Foreach = p.foreach(each, t, t.Ref+"/foreach/do", local)
	}
}

// foreach parses what to do with each event.
func (p *tasks) foreach(n *yaml.Node, t *Task, ref string, local scope) *Foreach {
	f := &Foreach{Item: "item", At: "index"}
	if !p.object(n, "foreach", keys("item", "at", "do", "output", "export")) {
		return f
	}
	unsupported := func(construct string) { t.Unsupported = construct }
	f.Item = p.variable(n.Get("item"), "foreach.item", "item")
	f.At = p.variable(n.Get("at"), "foreach.at", "index")
	inner := local.with(f.Item, f.At)
	if do := n.Get("do"); do != nil {
		f.Do = p.taskList(do, "foreach.do", place{ref: ref, local: inner})
	}
	f.Output = p.dataFlow.output(n.Get("output"), "foreach.output", inner.during(), unsupported)
	f.Export = p.dataFlow.export(n.Get("export"), "foreach.export", inner.exported(), unsupported)
	return f
}

// call parses a call task.
func (p *tasks) call(t *Task, n *yaml.Node, s scope) {
	t.Call = &CallTask{}
	callee, ok := p.text(n.Get("call"), "call")
	if !ok {
		return
	}
	with := n.Get("with")
	if !slices.Contains(protocols(), callee) {
		p.callFunction(t, n, callee, s)
		return
	}
	t.Call.Protocol = callee
	if with == nil {
		if !misspelt(n, "with", append(commonKeys(), "call", "with")) {
			p.Mistake(n.Pos, "add `with: …`", "task %s: call: %s has no with", yaml.Quote(t.Name), callee)
		}
		return
	}
	switch callee {
	case "http":
		t.Call.HTTP = p.calls.http(with, s)
		return
	case "openapi":
		t.Call.OpenAPI = p.calls.openAPI(with, s)
		return
	case "grpc":
		p.calls.grpc(with, s)
	case "asyncapi":
		p.calls.asyncAPI(with, s, func(each *yaml.Node) {
			p.foreach(each, t, t.Ref+"/with/subscription/foreach/do", s)
		})
	case "a2a":
		p.calls.a2a(with, s)
	case "mcp":
		p.calls.mcp(with, s)
	default:
		panic("dsl: no parser for call: " + callee)
	}
	t.Unsupported = "call: " + callee
	p.cannotRun(n.Get("call").Pos, t.Unsupported, instead(callee))
}

var cataloged = lazyregexp.New(`^[^\s:@]+:[^\s:@]+@([^\s:@]+)$`)

// callFunction parses a call of a function from use.functions or a catalog.
func (p *tasks) callFunction(t *Task, n *yaml.Node, callee string, s scope) {
	t.Call.Protocol = "function"
	if with := n.Get("with"); with != nil {
		p.mapOf(with, "with")
		t.Call.With = p.value(with, s)
	}
	if f, ok := p.def.Use.Functions[callee]; ok {
		t.Call.Function = f
		return
	}
	at := n.Get("call").Pos
	if strings.Contains(callee, "://") {
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+yaml.Short(callee),
			"define the function in use.functions; to send a request, write call: http, with: {method: get, endpoint: "+excerpt.Of(callee, 200)+"}")
		return
	}
	if m := cataloged().FindStringSubmatch(callee); m != nil {
		if !slices.Contains(p.catalogs, m[1]) && m[1] != "default" {
			p.Mistake(at, reference(m[1], "use.catalogs", p.catalogs), "unknown catalog %s", yaml.Quote(m[1]))
		}
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+yaml.Short(callee), instead("catalog"))
		return
	}
	known := append(protocols(), slices.Sorted(maps.Keys(p.def.Use.Functions))...)
	suggestion := p.guess(callee, known)
	if closest(callee, known) == "" && suggestion != "" {
		suggestion += "; or define it in use.functions"
	}
	p.Mistake(at, suggestion, "unknown call %s", yaml.Quote(callee))
}
