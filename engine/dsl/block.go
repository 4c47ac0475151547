package dsl

import (
	"regexp"
	"slices"
	"strconv"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

var variableName = regexp.MustCompile(`^\$?[A-Za-z_][A-Za-z0-9_]*$`)

// variable parses the name of a variable, with or without its $.
func (p *parser) variable(n *yaml.Node, what, fallback string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !variableName.MatchString(s) {
		p.Mistake(n.Pos, "use letters, digits and _ only", "%s: %s cannot be the name of a variable", what, yaml.Quote(s))
		return fallback
	}
	if s[0] == '$' {
		return s[1:]
	}
	return s
}

// loop parses a for task.
func (p *parser) loop(t *Task, n *yaml.Node, local scope) {
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
func (p *parser) collection(n *yaml.Node, s scope) *expr.Value {
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
				"for.in: a list that is written out is of maps, this is %s", item.Shape)
			break
		}
	}
	return p.value(n, s)
}

// fork parses a fork task.
func (p *parser) fork(t *Task, n *yaml.Node, local scope) {
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
		p.Warn(exporting[1].Pos, "export once, after the fork",
			"branches %s and %s both export: what they say is merged in the order of the branches here, other runtimes differ",
			yaml.Quote(exporting[0].Name), yaml.Quote(exporting[1].Name))
	}
}

// exports reports whether a task, or one inside it, changes $context.
func exports(t *Task) bool {
	if t.Export.As != nil {
		return true
	}
	lists := []TaskList{t.Do}
	if t.Fork != nil {
		lists = append(lists, t.Fork.Branches)
	}
	if t.Try != nil {
		lists = append(lists, t.Try.Try, t.Try.Catch.Do)
	}
	if t.Listen != nil && t.Listen.Foreach != nil {
		lists = append(lists, t.Listen.Foreach.Do)
	}
	return slices.ContainsFunc(slices.Concat(lists...), exports)
}

// run parses a run task.
func (p *parser) run(t *Task, n *yaml.Node, s scope) {
	t.Run = &RunTask{Return: "stdout"}
	kinds := []string{"container", "script", "shell", "workflow"}
	if !p.object(n, "run", keys(append([]string{"await", "return"}, kinds...)...)) {
		return
	}
	if await := n.Get("await"); await != nil {
		t.Run.NoWait = !p.flag(await, "await")
	}
	t.Run.Return = p.word(n.Get("return"), "return", "stdout", "stdout", "stderr", "code", "all", "none")
	found := 0
	for _, kind := range kinds {
		if m := n.Get(kind); m != nil {
			found++
			p.process(t, m, kind, s)
			if t.Unsupported != "" {
				p.cannotRun(n.KeyPos(kind), t.Unsupported, instead(kind))
			}
		}
	}
	if found != 1 {
		p.Mistake(n.Pos, "add one of container, script, shell, workflow", "run wants exactly one thing to run, this has %s", strconv.Itoa(found))
	}
}

func (p *parser) process(t *Task, n *yaml.Node, kind string, s scope) {
	if kind == "workflow" {
		p.subWorkflow(t, n, s)
		return
	}
	t.Unsupported = "run: " + kind
	switch kind {
	case "container":
		p.container(n, s)
	case "script":
		p.script(n, s)
	default:
		p.shell(n, s)
	}
}

func (p *parser) subWorkflow(t *Task, n *yaml.Node, s scope) {
	if !p.object(n, "run.workflow", keys("namespace", "name", "version", "input").need("namespace", "name", "version")) {
		return
	}
	w := &SubWorkflow{
		Namespace: p.textOrExpression(n.Get("namespace"), "namespace", s),
		Name:      p.textOrExpression(n.Get("name"), "name", s),
		Version:   p.textOrExpression(n.Get("version"), "version", s),
	}
	if input := n.Get("input"); input != nil {
		p.mapOf(input, "input")
		w.Input = p.value(input, s)
	}
	t.Run.Workflow = w
}

// textOrExpression parses a string value that may be an expression. It returns nil for a
// nil node.
func (p *parser) textOrExpression(n *yaml.Node, what string, s scope) *expr.Value {
	if _, ok := p.text(n, what); !ok {
		return nil
	}
	return p.value(n, s)
}
