package dsl

import (
	"flunq.io/flunq/engine/yaml"
)

// processes parses the process of a run task: a container, a script, a shell command or another
// workflow.
type processes struct{ *connections }

// run parses a run task.
func (p *processes) run(t *Task, n *yaml.Node, s scope) {
	t.Run = &RunTask{}
	kinds := []string{"container", "script", "shell", "workflow"}
	if !p.object(n, "run", keys(append([]string{"await", "return"}, kinds...)...)) {
		return
	}
	if await := n.Get("await"); await != nil {
		t.Run.NoWait = !p.flag(await, "await")
	}
	p.word(n.Get("return"), "return", "stdout", "stdout", "stderr", "code", "all", "none")
	kind := p.exactlyOne(n, "run", kinds...)
	switch m := n.Get(kind); kind {
	case "container":
		p.container(m, s)
	case "script":
		p.script(m, s)
	case "shell":
		p.shell(m, s)
	case "workflow":
		p.subWorkflow(t, m, s)
		return
	default:
		return
	}
	t.Unsupported = "run: " + kind
	p.cannotRun(n.KeyPos(kind), t.Unsupported, instead(kind))
}

func (p *processes) subWorkflow(t *Task, n *yaml.Node, s scope) {
	if !p.object(n, "run.workflow", keys("namespace", "name", "version", "input").need("namespace", "name", "version")) {
		return
	}
	w := &SubWorkflow{
		Namespace: p.textOrExpression(n.Get("namespace"), "namespace", s),
		Name:      p.textOrExpression(n.Get("name"), "name", s),
		Version:   p.textOrExpression(n.Get("version"), "version", s),
	}
	if input := n.Get("input"); input != nil {
		p.mapOf(input, "run.workflow.input")
		w.Input = p.value(input, s)
	}
	t.Run.Workflow = w
}

func (p *processes) container(n *yaml.Node, s scope) {
	if !p.object(n, "run.container", keys("image", "name", "command", "ports", "volumes", "environment", "stdin", "arguments",
		"lifetime", "pullPolicy").need("image")) {
		return
	}
	p.textOrExpression(n.Get("image"), "image", s)
	p.textOrExpression(n.Get("name"), "name", s)
	p.textOrExpression(n.Get("stdin"), "stdin", s)
	p.program(n.Get("command"), "command", s)
	for _, name := range []string{"ports", "volumes", "environment"} {
		p.data(n.Get(name), name, s)
	}
	p.arguments(n.Get("arguments"), "arguments", s)
	p.word(n.Get("pullPolicy"), "pullPolicy", "", "ifNotPresent", "always", "never")
	if lifetime := n.Get("lifetime"); lifetime != nil {
		p.lifetime(lifetime, s)
	}
}

func (p *processes) lifetime(n *yaml.Node, s scope) {
	if !p.object(n, "lifetime", keys("cleanup", "after").need("cleanup")) {
		return
	}
	cleanup := p.word(n.Get("cleanup"), "cleanup", "", "always", "never", "eventually")
	after := n.Get("after")
	p.duration(after, "after", s)
	switch {
	case cleanup == "eventually" && after == nil:
		p.Mistake(n.Pos, "add `after: …`", "cleanup: eventually has no after")
	case cleanup != "eventually" && cleanup != "" && after != nil:
		p.Mistake(after.Pos, "remove it, or write cleanup: eventually", "after has no meaning with cleanup: %s", cleanup)
	}
}

func (p *processes) script(n *yaml.Node, s scope) {
	if !p.object(n, "run.script", keys("language", "code", "source", "stdin", "arguments", "environment").need("language")) {
		return
	}
	p.word(n.Get("language"), "language", "", "js", "javascript", "python")
	p.exactlyOne(n, "run.script", "code", "source")
	p.program(n.Get("code"), "code", s)
	p.externalResource(n.Get("source"), "source", s)
	p.textOrExpression(n.Get("stdin"), "stdin", s)
	p.data(n.Get("environment"), "environment", s)
	if arguments := n.Get("arguments"); arguments != nil && arguments.Shape == yaml.Object {
		p.value(arguments, s)
		return
	}
	p.arguments(n.Get("arguments"), "arguments", s)
}

func (p *processes) shell(n *yaml.Node, s scope) {
	if !p.object(n, "run.shell", keys("command", "stdin", "arguments", "environment").need("command")) {
		return
	}
	p.program(n.Get("command"), "command", s)
	p.textOrExpression(n.Get("stdin"), "stdin", s)
	p.arguments(n.Get("arguments"), "arguments", s)
	p.data(n.Get("environment"), "environment", s)
}
