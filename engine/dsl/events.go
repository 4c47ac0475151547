package dsl

import (
	"regexp"
	"strings"
	"time"

	"flunq.io/flunq/engine/expr"
)

// emit parses the event to emit.
func (p *parser) emit(t *Task, n *node, s scope) {
	t.Emit = expr.Literal(map[string]any{})
	if !p.object(n, "emit", keys("event").need("event").under("event", "with").under("event: with", eventKeys().known...)) {
		return
	}
	event := n.get("event")
	if event == nil || !p.object(event, "emit.event", keys("with").need("with").others().under("with", eventKeys().known...)) {
		return
	}
	with := event.get("with")
	if with == nil || !p.object(with, "emit.event.with", eventKeys().need("type").others()) {
		return
	}
	p.attributes(with, s)
	t.Emit = p.value(with, s)
	if at := with.get("time"); at != nil && at.shape == text && !whole(at.text()).is {
		if _, err := time.Parse(time.RFC3339Nano, at.text()); err != nil {
			p.mistake(at.Pos, "write it as 2026-01-31T08:00:00Z", "time: %s is not an RFC 3339 timestamp", quote(at.text()))
		}
	}
}

func eventKeys() members {
	return keys("id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data")
}

// attributes checks the standard attributes of an event.
func (p *parser) attributes(n *node, s scope) {
	for _, name := range []string{"id", "type", "time", "subject", "datacontenttype"} {
		p.text(n.get(name), name)
	}
	for _, name := range []string{"source", "dataschema"} {
		p.uri(n.get(name), name, s)
	}
}

// listen parses a listen task.
func (p *parser) listen(t *Task, n *node, local scope) {
	t.Listen = &ListenTask{Read: "data"}
	own := n.get("listen")
	if p.object(own, "listen", keys("to", "read").need("to").under("to", "all", "any", "one", "until")) {
		t.Listen.Read = p.word(own.get("read"), "listen.read", "data", "data", "envelope", "raw")
		if to := own.get("to"); to != nil {
			t.Listen.To = p.consumption(to, "listen.to", local.during(), false)
		}
	}
	if each := n.get("foreach"); each != nil {
		t.Listen.Foreach = p.foreach(each, t, t.Ref+"/foreach/do", local)
	}
}

// foreach parses what to do with each event.
func (p *parser) foreach(n *node, t *Task, ref string, local scope) *Foreach {
	f := &Foreach{Item: "item", At: "index"}
	if !p.object(n, "foreach", keys("item", "at", "do", "output", "export")) {
		return f
	}
	lack := func(construct string) { t.Unsupported = construct }
	f.Item = p.variable(n.get("item"), "foreach.item", "item")
	f.At = p.variable(n.get("at"), "foreach.at", "index")
	inner := local.with(f.Item, f.At)
	if do := n.get("do"); do != nil {
		f.Do = p.taskList(do, "foreach.do", place{ref: ref, local: inner})
	}
	f.Output = p.output(n.get("output"), "foreach.output", inner.during(), lack)
	f.Export = p.export(n.get("export"), "foreach.export", inner.exported(), lack)
	return f
}

// consumption parses which events to consume. If ended is true, it is itself the until of
// another consumption, and cannot have one.
func (p *parser) consumption(n *node, what string, s scope, ended bool) (c Consumption) {
	known := keys("all", "any", "one", "until")
	if ended {
		known = keys("all", "any", "one")
		if until := n.get("until"); until != nil {
			p.mistake(until.Pos, "remove it", "%s: the end of a consumption has no until of its own", what)
			known = keys("all", "any", "one", "until")
		}
	}
	if !p.object(n, what, known) {
		return c
	}
	found := 0
	for _, mode := range []string{"all", "any", "one"} {
		m := n.get(mode)
		if m == nil {
			continue
		}
		found++
		c.Mode = mode
		c.Filters = p.filters(m, mode, s)
	}
	if found != 1 && !p.misspelt(n, "one", known.known) && !p.misspelt(n, "any", known.known) && !p.misspelt(n, "all", known.known) {
		p.mistake(n.Pos, "write it as one: {with: {type: …}}", "%s wants exactly one of all, any, one", what)
	}
	until := n.get("until")
	switch {
	case until == nil || ended:
	case c.Mode != "any" && c.Mode != "":
		p.mistake(until.Pos, "remove it, or use any", "%s: until has no meaning with %s", what, c.Mode)
	case until.shape == object:
		end := p.consumption(until, what+".until", s, true)
		c.UntilEvent = &end
	default:
		c.Until = p.expression(until, what+".until", s)
	}
	return c
}

func (p *parser) filters(n *node, mode string, s scope) []EventFilter {
	if mode == "one" {
		if n.shape == list {
			p.mistake(n.Pos, "write it as one: {with: …}, or use any", "one: want a single filter, this is a list")
			return nil
		}
		return []EventFilter{p.filter(n, s)}
	}
	var out []EventFilter
	for _, item := range p.list(n, mode) {
		out = append(out, p.filter(item, s))
	}
	return out
}

// filter parses an event filter.
func (p *parser) filter(n *node, s scope) (f EventFilter) {
	if !p.object(n, "an event filter", keys("with", "correlate").need("with").under("with", eventKeys().known...)) {
		return f
	}
	if with := n.get("with"); with != nil && p.object(with, "with", eventKeys().others()) {
		if len(with.fields) == 0 {
			p.mistake(with.Pos, "add `type: …`", "with is empty: it would match every event")
		}
		p.attributes(with, s)
		for _, a := range with.fields {
			f.With = append(f.With, expr.Field{Key: a.key, Value: p.value(a.value, s)})
		}
	}
	for _, key := range p.mapOf(n.get("correlate"), "correlate") {
		f.Correlate = append(f.Correlate, p.correlation(key, s))
	}
	return f
}

func (p *parser) correlation(f field, s scope) Correlation {
	c := Correlation{Key: f.key}
	if !p.object(f.value, "correlate."+short(f.key), keys("from", "expect").need("from").others()) {
		return c
	}
	c.From = p.expression(f.value.get("from"), "from", s)
	expect := f.value.get("expect")
	src, ok := p.text(expect, "expect")
	if !ok {
		return c
	}
	// ".id" is meant as a path; other bare text is the expected value.
	if strings.HasPrefix(strings.TrimSpace(src), ".") {
		c.Expect = computed(p.expression(expect, "expect", s))
		return c
	}
	c.Expect = p.value(expect, s)
	return c
}

var cronField = regexp.MustCompile(`^[0-9A-Za-z*/,?#-]+$`)

// schedule validates the workflow's schedule.
func (p *parser) schedule(n *node) {
	p.def.Schedule = expr.Literal(n.data)
	if !p.object(n, "schedule", keys("every", "cron", "after", "on", "read")) {
		return
	}
	s := workflowInput()
	p.duration(n.get("every"), "every", s)
	p.duration(n.get("after"), "after", s)
	if cron := n.get("cron"); cron != nil {
		p.cron(cron)
	}
	if on := n.get("on"); on != nil {
		p.consumption(on, "on", s, false)
	}
	if read := n.get("read"); read != nil {
		p.word(read, "read", "data", "data", "envelope", "raw")
		if n.get("on") == nil {
			p.mistake(read.Pos, "remove it, or add `on: …`", "read has no meaning without on")
		}
	}
}

func (p *parser) cron(n *node) {
	s, ok := p.text(n, "cron")
	if !ok {
		return
	}
	parts := strings.Fields(s)
	fine := len(parts) == 5
	for _, part := range parts {
		fine = fine && cronField.MatchString(part)
	}
	if !fine {
		p.mistake(n.Pos, "write five fields: '0 8 * * 1' is Mondays at 8:00 (minute, hour, day, month, weekday)",
			"cron: %s has not the five fields of a cron expression", quote(s))
	}
}
