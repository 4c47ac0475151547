package dsl

import (
	"slices"
	"strconv"
)

// section is a part of use: components by name, in document order.
type section struct {
	names []string
	nodes map[string]*node
}

func (s section) find(name string) (*node, bool) {
	n, ok := s.nodes[name]
	return n, ok
}

// shared holds the components that use defines, and those parsed so far.
type shared struct {
	authentications, errors, retries, timeouts, catalogs section

	policies  map[string]*Authentication
	templates map[string]*ErrorTemplate
	repeats   map[[2]string]*RetryPolicy // by its name and the name of the error's variable
	functions []string
}

func newShared() *shared {
	return &shared{
		policies:  map[string]*Authentication{},
		templates: map[string]*ErrorTemplate{},
		repeats:   map[[2]string]*RetryPolicy{},
	}
}

// section checks that a part of use is a map.
func (p *parser) section(n *node, what string) section {
	s := section{nodes: map[string]*node{}}
	for _, f := range p.mapOf(n, what) {
		s.names = append(s.names, f.key)
		s.nodes[f.key] = f.value
	}
	return s
}

// secret records the first use of a secret.
func (p *parser) secret(at Pos, name string) {
	known := func(s SecretUse) bool { return s.Name == name }
	if name != "" && !slices.ContainsFunc(p.def.Secrets, known) {
		p.def.Secrets = append(p.def.Secrets, SecretUse{at, name})
	}
}

// use parses all shared components, including unused ones.
func (p *parser) use(n *node) {
	if !p.object(n, "use", keys("authentications", "catalogs", "errors", "extensions", "functions", "retries", "secrets", "timeouts")) {
		return
	}
	shared := p.shared
	p.def.Use.Secrets = p.texts(n.get("secrets"), "use.secrets")
	if declared := n.get("secrets"); declared != nil {
		for _, item := range declared.items {
			p.secret(item.Pos, item.text())
		}
	}
	shared.catalogs = p.section(n.get("catalogs"), "use.catalogs")
	for _, name := range shared.catalogs.names {
		p.catalog(shared.catalogs.nodes[name])
	}
	shared.authentications = p.section(n.get("authentications"), "use.authentications")
	for _, name := range shared.authentications.names {
		p.policy(name)
	}
	shared.errors = p.section(n.get("errors"), "use.errors")
	for _, name := range shared.errors.names {
		p.sharedError(name)
	}
	shared.timeouts = p.section(n.get("timeouts"), "use.timeouts")
	for _, name := range shared.timeouts.names {
		p.timeoutOf(shared.timeouts.nodes[name], scope{}.during())
	}
	shared.retries = p.section(n.get("retries"), "use.retries")
	for _, name := range shared.retries.names {
		p.sharedRetry(name, "error")
	}
	p.functions(n.get("functions"))
	p.extensions(n.get("extensions"))
	if p.def.Extensions {
		p.cannotRun(n.keyOf("extensions"), "use.extensions", instead("use.extensions"))
	}
}

func (p *parser) catalog(n *node) {
	if p.object(n, "a catalog", keys("endpoint").need("endpoint")) {
		p.endpoint(n.get("endpoint"), "endpoint", scope{}.during())
	}
}

// functions allocates all functions before parsing them, since they may call each other.
func (p *parser) functions(n *node) {
	fields := p.mapOf(n, "use.functions")
	p.def.Use.Functions = make(map[string]*Task, len(fields))
	for _, f := range fields {
		p.shared.functions = append(p.shared.functions, f.key)
		p.def.Use.Functions[f.key] = &Task{}
	}
	for _, f := range fields {
		p.task(p.def.Use.Functions[f.key], f, place{ref: pointer("/use/functions", f.key)})
	}
}

func (p *parser) extensions(n *node) {
	for i, item := range p.list(n, "use.extensions") {
		p.def.Extensions = true
		if item.shape != object || len(item.fields) != 1 {
			p.mistake(item.Pos, "write it as `- name: {extend: …}`", "an extension has exactly one name")
			continue
		}
		f := item.fields[0]
		ref := pointer(pointer("/use/extensions", strconv.Itoa(i)), f.key)
		p.extension(f.value, ref)
	}
}

func (p *parser) extension(n *node, ref string) {
	if !p.object(n, "an extension", keys("extend", "when", "before", "after").need("extend")) {
		return
	}
	p.word(n.get("extend"), "extend", "",
		"call", "composite", "emit", "for", "listen", "raise", "run", "set", "switch", "try", "wait", "all")
	p.condition(n.get("when"), "when", scope{}.exported())
	if m := n.get("before"); m != nil {
		p.tasks(m, "before", ref+"/before", scope{"input", "output"})
	}
	if m := n.get("after"); m != nil {
		p.tasks(m, "after", ref+"/after", scope{"input", "output"})
	}
}
