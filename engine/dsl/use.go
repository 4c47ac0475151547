package dsl

import (
	"slices"
	"strconv"

	"flunq.io/flunq/engine/yaml"
)

// section is a part of use: components by name, in document order.
type section struct {
	names []string
	nodes map[string]*yaml.Node
}

func (s section) find(name string) (*yaml.Node, bool) {
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
func (p *parser) section(n *yaml.Node, what string) section {
	s := section{nodes: map[string]*yaml.Node{}}
	for _, f := range p.mapOf(n, what) {
		s.names = append(s.names, f.Key)
		s.nodes[f.Key] = f.Value
	}
	return s
}

// secret records the first use of a secret.
func (p *parser) secret(at yaml.Pos, name string) {
	known := func(s SecretUse) bool { return s.Name == name }
	if name != "" && !slices.ContainsFunc(p.def.Secrets, known) {
		p.def.Secrets = append(p.def.Secrets, SecretUse{at, name})
	}
}

// use parses all shared components, including unused ones.
func (p *parser) use(n *yaml.Node) {
	if !p.object(n, "use", keys("authentications", "catalogs", "errors", "extensions", "functions", "retries", "secrets", "timeouts")) {
		return
	}
	shared := p.shared
	p.def.Use.Secrets = p.texts(n.Get("secrets"), "use.secrets")
	if declared := n.Get("secrets"); declared != nil {
		for _, item := range declared.Items {
			p.secret(item.Pos, item.Text())
		}
	}
	shared.catalogs = p.section(n.Get("catalogs"), "use.catalogs")
	for _, name := range shared.catalogs.names {
		p.catalog(shared.catalogs.nodes[name])
	}
	shared.authentications = p.section(n.Get("authentications"), "use.authentications")
	for _, name := range shared.authentications.names {
		p.policy(name)
	}
	shared.errors = p.section(n.Get("errors"), "use.errors")
	for _, name := range shared.errors.names {
		p.sharedError(name)
	}
	shared.timeouts = p.section(n.Get("timeouts"), "use.timeouts")
	for _, name := range shared.timeouts.names {
		p.timeoutOf(shared.timeouts.nodes[name], scope{}.during())
	}
	shared.retries = p.section(n.Get("retries"), "use.retries")
	for _, name := range shared.retries.names {
		p.sharedRetry(name, "error")
	}
	p.functions(n.Get("functions"))
	p.extensions(n.Get("extensions"))
	if p.def.Extensions {
		p.cannotRun(n.KeyPos("extensions"), "use.extensions", instead("use.extensions"))
	}
}

func (p *parser) catalog(n *yaml.Node) {
	if p.object(n, "a catalog", keys("endpoint").need("endpoint")) {
		p.endpoint(n.Get("endpoint"), "endpoint", scope{}.during())
	}
}

// functions allocates all functions before parsing them, since they may call each other.
func (p *parser) functions(n *yaml.Node) {
	fields := p.mapOf(n, "use.functions")
	p.def.Use.Functions = make(map[string]*Task, len(fields))
	for _, f := range fields {
		p.shared.functions = append(p.shared.functions, f.Key)
		p.def.Use.Functions[f.Key] = &Task{}
	}
	for _, f := range fields {
		p.task(p.def.Use.Functions[f.Key], f, place{ref: pointer("/use/functions", f.Key)})
	}
}

func (p *parser) extensions(n *yaml.Node) {
	for i, item := range p.list(n, "use.extensions") {
		p.def.Extensions = true
		if item.Shape != yaml.Object || len(item.Fields) != 1 {
			p.Mistake(item.Pos, "write it as `- name: {extend: …}`", "an extension has exactly one name")
			continue
		}
		f := item.Fields[0]
		ref := pointer(pointer("/use/extensions", strconv.Itoa(i)), f.Key)
		p.extension(f.Value, ref)
	}
}

func (p *parser) extension(n *yaml.Node, ref string) {
	if !p.object(n, "an extension", keys("extend", "when", "before", "after").need("extend")) {
		return
	}
	p.word(n.Get("extend"), "extend", "",
		"call", "composite", "emit", "for", "listen", "raise", "run", "set", "switch", "try", "wait", "all")
	p.condition(n.Get("when"), "when", scope{}.exported())
	if m := n.Get("before"); m != nil {
		p.tasks(m, "before", ref+"/before", scope{"input", "output"})
	}
	if m := n.Get("after"); m != nil {
		p.tasks(m, "after", ref+"/after", scope{"input", "output"})
	}
}
