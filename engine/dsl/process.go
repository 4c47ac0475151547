package dsl

import "flunq.io/flunq/engine/yaml"

func (p *parser) container(n *yaml.Node, s scope) {
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

func (p *parser) lifetime(n *yaml.Node, s scope) {
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

func (p *parser) script(n *yaml.Node, s scope) {
	if !p.object(n, "run.script", keys("language", "code", "source", "stdin", "arguments", "environment").need("language")) {
		return
	}
	p.word(n.Get("language"), "language", "", "js", "javascript", "python")
	code, source := n.Get("code"), n.Get("source")
	switch {
	case code == nil && source == nil:
		p.Mistake(n.Pos, "add `code: …`", "run.script has neither code nor source")
	case code != nil && source != nil:
		p.Mistake(source.Pos, "keep one", "run.script has both code and source")
	}
	p.program(code, "code", s)
	if source != nil {
		p.externalResource(source, "source", s)
	}
	p.textOrExpression(n.Get("stdin"), "stdin", s)
	p.data(n.Get("environment"), "environment", s)
	if arguments := n.Get("arguments"); arguments != nil && arguments.Shape == yaml.Object {
		p.value(arguments, s)
		return
	}
	p.arguments(n.Get("arguments"), "arguments", s)
}

func (p *parser) shell(n *yaml.Node, s scope) {
	if !p.object(n, "run.shell", keys("command", "stdin", "arguments", "environment").need("command")) {
		return
	}
	p.program(n.Get("command"), "command", s)
	p.textOrExpression(n.Get("stdin"), "stdin", s)
	p.arguments(n.Get("arguments"), "arguments", s)
	p.data(n.Get("environment"), "environment", s)
}

// program checks text in another language, where ${ has no meaning unless the whole text
// is an expression.
func (p *parser) program(n *yaml.Node, what string, s scope) {
	if src, ok := p.text(n, what); ok {
		if inner := whole(src); inner.is {
			p.compile(n, inner, s)
		}
	}
}

// arguments checks a list of strings.
func (p *parser) arguments(n *yaml.Node, what string, s scope) {
	for _, item := range p.list(n, what) {
		p.textOrExpression(item, what, s)
	}
}

// data checks a map of any data.
func (p *parser) data(n *yaml.Node, what string, s scope) {
	if n != nil {
		p.mapOf(n, what)
		p.value(n, s)
	}
}
