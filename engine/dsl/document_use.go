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
	p.tasks.catalogs = p.section(n.Get("catalogs"), "use.catalogs")
	for _, name := range p.tasks.catalogs.names {
		p.catalog(p.tasks.catalogs.nodes[name])
	}
	p.connections.authentications = p.section(n.Get("authentications"), "use.authentications")
	for _, name := range p.connections.authentications.names {
		p.connections.policy(name)
	}
	p.faults.errors = p.section(n.Get("errors"), "use.errors")
	for _, name := range p.faults.errors.names {
		p.faults.sharedError(name)
	}
	p.faults.timeouts = p.section(n.Get("timeouts"), "use.timeouts")
	for _, name := range p.faults.timeouts.names {
		p.faults.timeoutOf(p.faults.timeouts.nodes[name], scope{}.during())
	}
	p.faults.retries = p.section(n.Get("retries"), "use.retries")
	for _, name := range p.faults.retries.names {
		p.faults.sharedRetry(name, "error")
	}
	p.functions(n.Get("functions"))
	p.extensions(n.Get("extensions"))
	if p.def.Extensions {
		p.cannotStart(n.KeyPos("extensions"), "use.extensions", instead("use.extensions"))
	}
}

func (p *document) catalog(n *yaml.Node) {
	if p.object(n, "a catalog", keys("endpoint").need("endpoint")) {
		p.connections.endpoint(n.Get("endpoint"), "endpoint", scope{}.during())
	}
}

// functions allocates all functions before parsing them, since they may call each other.
func (p *document) functions(n *yaml.Node) {
	fields := p.mapOf(n, "use.functions")
	p.def.Use.Functions = make(map[string]*Task, len(fields))
	for _, f := range fields {
		p.tasks.functions = append(p.tasks.functions, f.Key)
		p.def.Use.Functions[f.Key] = &Task{}
	}
	for _, f := range fields {
		p.tasks.task(p.def.Use.Functions[f.Key], f, place{ref: pointer("/use/functions", f.Key)})
	}
}

func (p *document) extensions(n *yaml.Node) {
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

func (p *document) extension(n *yaml.Node, ref string) {
	if !p.object(n, "an extension", keys("extend", "when", "before", "after").need("extend")) {
		return
	}
	p.word(n.Get("extend"), "extend", "",
		"call", "composite", "emit", "for", "listen", "raise", "run", "set", "switch", "try", "wait", "all")
	p.condition(n.Get("when"), "when", scope{}.exported())
	if m := n.Get("before"); m != nil {
		p.tasks.taskList(m, "before", place{ref: ref + "/before", local: scope{"input", "output"}})
	}
	if m := n.Get("after"); m != nil {
		p.tasks.taskList(m, "after", place{ref: ref + "/after", local: scope{"input", "output"}})
	}
}
