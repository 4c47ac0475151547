package dsl

import (
	"strconv"

	"flunq.io/flunq/engine/yaml"
)

// use parses "use": all shared components, even unused ones.
func (p *document) use(n *yaml.Node) {
	if !p.object(n, "use", keys("authentications", "catalogs", "errors", "extensions", "functions", "retries", "secrets", "timeouts")) {
		return
	}
	p.def.Use.Secrets = p.textList(n.Get("secrets"), "use.secrets")
	if declared := n.Get("secrets"); declared != nil {
		for _, item := range declared.Items {
			p.secret(item.Pos, item.Text())
		}
	}
	for _, f := range p.mapOf(n.Get("authentications"), "use.authentications") {
		p.connections.policies[f.Key] = p.connections.policy(f.Value, scope{}.during())
	}
	for _, f := range p.mapOf(n.Get("catalogs"), "use.catalogs") {
		p.catalogs = append(p.catalogs, f.Key)
		if p.object(f.Value, "a catalog", keys("endpoint").need("endpoint")) {
			p.connections.endpoint(f.Value.Get("endpoint"), "endpoint", scope{}.during())
		}
	}
	for _, f := range p.mapOf(n.Get("errors"), "use.errors") {
		p.faults.templates[f.Key] = p.faults.errorTemplate(f.Value, scope{}.during())
	}
	p.faults.timeouts = p.section(n.Get("timeouts"), "use.timeouts")
	for _, name := range p.faults.timeouts.names {
		p.faults.timeoutOf(p.faults.timeouts.nodes[name], scope{}.during())
	}
	p.faults.retries = p.section(n.Get("retries"), "use.retries")
	p.functions(n.Get("functions"))
	p.extensions(n.Get("extensions"), n.KeyPos("extensions"))
}

// functions allocates all functions before parsing them, since they may call each other.
func (p *document) functions(n *yaml.Node) {
	fields := p.mapOf(n, "use.functions")
	p.def.Use.Functions = make(map[string]*Task, len(fields))
	for _, f := range fields {
		p.def.Use.Functions[f.Key] = &Task{}
	}
	for _, f := range fields {
		p.task(p.def.Use.Functions[f.Key], f, place{ref: pointer("/use/functions", f.Key)})
	}
}

func (p *document) extensions(n *yaml.Node, at yaml.Pos) {
	for i, item := range p.list(n, "use.extensions") {
		if i == 0 {
			p.cannotStart(at, "use.extensions", "/use/extensions")
		}
		if item.Shape != yaml.Object || len(item.Fields) != 1 {
			p.Mistake(item.Pos, "write it as `- name: {extend: …}`", "an extension has exactly one name")
			continue
		}
		f := item.Fields[0]
		if !p.object(f.Value, "an extension", keys("extend", "when", "before", "after").need("extend")) {
			continue
		}
		p.word(f.Value.Get("extend"), "extend", "",
			"call", "composite", "emit", "for", "listen", "raise", "run", "set", "switch", "try", "wait", "all")
		p.condition(f.Value.Get("when"), "when", scope{}.exported())
		ref := pointer(pointer("/use/extensions", strconv.Itoa(i)), f.Key)
		for _, list := range []string{"before", "after"} {
			p.taskList(f.Value.Get(list), list, place{ref: ref + "/" + list, local: scope{"input", "output"}})
		}
	}
}
