package dsl

import (
	"regexp"
	"slices"
	"strconv"

	"flunq.io/flunq/engine/expr"
)

var variableName = regexp.MustCompile(`^\$?[A-Za-z_][A-Za-z0-9_]*$`)

// variable parses the name of a variable, with or without its $.
func (p *parser) variable(n *node, what, fallback string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !variableName.MatchString(s) {
		p.mistake(n.Pos, "use letters, digits and _ only", "%s: %s cannot be the name of a variable", what, quote(s))
		return fallback
	}
	if s[0] == '$' {
		return s[1:]
	}
	return s
}

// loop parses a for task.
func (p *parser) loop(t *Task, n *node, local scope) {
	t.For = &ForTask{Each: "item", At: "index"}
	own := n.get("for")
	if p.object(own, "for", keys("each", "in", "at").need("in")) {
		t.For.Each = p.variable(own.get("each"), "for.each", "item")
		t.For.At = p.variable(own.get("at"), "for.at", "index")
		if at := own.get("at"); t.For.At == t.For.Each {
			if at == nil {
				at = own.get("each")
			}
			p.mistake(at.Pos, "give one of them another name", "for.each and for.at are both %s: the item would be lost", quote(t.For.At))
		}
		t.For.In = p.collection(own.get("in"), local.during())
	}
	inner := local.with(t.For.Each, t.For.At)
	t.For.While = p.condition(n.get("while"), "while", inner.during())
	if n.get("do") == nil {
		p.mistake(t.Pos, "add `do: …`", "task %s: for has no do", quote(t.Name))
	}
	t.Do = p.taskList(n.get("do"), "do", place{ref: t.Ref + "/do", local: inner, looped: true})
}

// collection parses the value of for.in: an expression, or a list of maps.
func (p *parser) collection(n *node, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if n.shape != list {
		if n.shape != text {
			p.wrong(n, "for.in", "an expression or a list of maps")
			return nil
		}
		return computed(p.expression(n, "for.in", s))
	}
	for _, item := range n.items {
		if item.shape != object {
			p.mistake(item.Pos, "write the whole list as an expression: in: '${ […] }'",
				"for.in: a list that is written out is of maps, this is %s", item.shape)
			break
		}
	}
	return p.value(n, s)
}

// fork parses a fork task.
func (p *parser) fork(t *Task, n *node, local scope) {
	t.Fork = &ForkTask{}
	if !p.object(n, "fork", keys("branches", "compete").need("branches")) {
		return
	}
	t.Fork.Compete = p.flag(n.get("compete"), "compete")
	t.Fork.Branches = p.taskList(n.get("branches"), "branches", place{ref: t.Ref + "/fork/branches", local: local, branch: true})
	var exporting []*Task
	for _, branch := range t.Fork.Branches {
		if exports(branch) {
			exporting = append(exporting, branch)
		}
	}
	if len(exporting) > 1 && !t.Fork.Compete {
		p.warn(exporting[1].Pos, "export once, after the fork",
			"branches %s and %s both export: what they say is merged in the order of the branches here, other runtimes differ",
			quote(exporting[0].Name), quote(exporting[1].Name))
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
func (p *parser) run(t *Task, n *node, s scope) {
	t.Run = &RunTask{Return: "stdout"}
	kinds := []string{"container", "script", "shell", "workflow"}
	if !p.object(n, "run", keys(append([]string{"await", "return"}, kinds...)...)) {
		return
	}
	if await := n.get("await"); await != nil {
		t.Run.NoWait = !p.flag(await, "await")
	}
	t.Run.Return = p.word(n.get("return"), "return", "stdout", "stdout", "stderr", "code", "all", "none")
	found := 0
	for _, kind := range kinds {
		if m := n.get(kind); m != nil {
			found++
			p.process(t, m, kind, s)
			if t.Unsupported != "" {
				p.cannotRun(n.keyOf(kind), t.Unsupported, instead(kind))
			}
		}
	}
	if found != 1 {
		p.mistake(n.Pos, "add one of container, script, shell, workflow", "run wants exactly one thing to run, this has %s", strconv.Itoa(found))
	}
}

func (p *parser) process(t *Task, n *node, kind string, s scope) {
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

func (p *parser) subWorkflow(t *Task, n *node, s scope) {
	if !p.object(n, "run.workflow", keys("namespace", "name", "version", "input").need("namespace", "name", "version")) {
		return
	}
	w := &SubWorkflow{
		Namespace: p.textOrExpression(n.get("namespace"), "namespace", s),
		Name:      p.textOrExpression(n.get("name"), "name", s),
		Version:   p.textOrExpression(n.get("version"), "version", s),
	}
	if input := n.get("input"); input != nil {
		p.mapOf(input, "input")
		w.Input = p.value(input, s)
	}
	t.Run.Workflow = w
}

// textOrExpression parses a string value that may be an expression. It returns nil for a
// nil node.
func (p *parser) textOrExpression(n *node, what string, s scope) *expr.Value {
	if _, ok := p.text(n, what); !ok {
		return nil
	}
	return p.value(n, s)
}
