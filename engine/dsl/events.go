package dsl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// events parses the events that a workflow emits, those that it consumes, and the
// schedule that starts it.
type events struct{ *expressions }

// emit parses the event to emit.
func (p *events) emit(n *yaml.Node, s scope) *expr.Value {
	none := expr.Literal(map[string]any{})
	if !p.object(n, "emit", keys("event").need("event").under("event", "with").under("event: with", eventKeys().known...)) {
		return none
	}
	emitted := n.Get("event")
	if emitted == nil || !p.object(emitted, "emit.event", keys("with").need("with").others().under("with", eventKeys().known...)) {
		return none
	}
	with := emitted.Get("with")
	if with == nil || !p.object(with, "emit.event.with", eventKeys().need("type").others()) {
		return none
	}
	p.attributes(with, s)
	for _, f := range with.Fields {
		p.extension(f)
	}
	envelope := p.value(with, s)
	if at := with.Get("time"); at != nil && at.Shape == yaml.Text && !whole(at.Text()).is {
		if _, err := time.Parse(time.RFC3339Nano, at.Text()); err != nil {
			p.Mistake(at.Pos, "write it as 2026-01-31T08:00:00Z", "time: %s is not an RFC 3339 timestamp", yaml.Quote(at.Text()))
		}
	}
	return envelope
}

// extension warns of an attribute that is no part of the emitted event. Stored documents may have
// some, so it is not a mistake.
func (p *events) extension(f yaml.Field) {
	switch {
	case slices.Contains(eventKeys().known, f.Key), f.Key == "specversion" && f.Value.Text() == event.SpecVersion:
	case slices.Contains(event.OwnAttributes(), f.Key):
		p.Warn(ruleAttribute, f.Pos, "remove it, or give it another name", "flunq reserves the attribute %s: this value is dropped", f.Key)
	case slices.Contains(event.InputAttributes(), f.Key):
		if f.Value.Shape == yaml.Text && !whole(f.Value.Text()).is {
			if err := checkInput(f.Key, f.Value.Text()); err != nil {
				p.Warn(ruleAttribute, f.Value.Pos, "", "the task will fault: %s: %v", f.Key, err)
			}
		}
	case spelling.Word(f.Key, event.InputAttributes()) != "":
		p.Warn(ruleAttribute, f.Pos, "did you mean "+yaml.Quote(spelling.Word(f.Key, event.InputAttributes()))+"?", "%s is not an attribute of an input: all executions that listen receive the event", f.Key)
	case !event.AttributeName(f.Key):
		p.Warn(ruleAttribute, f.Pos, "use only a to z and 0 to 9, or put it into data", "CloudEvents allows no attribute with the name %s", yaml.Quote(f.Key))
	}
}

// checkInput returns why an emit task faults that sets an attribute of an input to text.
func checkInput(name, text string) (err error) {
	switch name {
	case event.InputAfterAttribute:
		_, err = ParseDuration(text)
	case event.InputAtAttribute:
		if _, err = time.Parse(time.RFC3339Nano, text); err != nil {
			err = fmt.Errorf("%s is not an RFC 3339 timestamp", yaml.Quote(text))
		}
	case event.InputKeyAttribute, event.InputCancelAttribute:
		err = event.CheckInputKey(text)
	case event.InputRejectAttribute:
		_, _, err = ParseRejection(text)
	}
	return err
}

func eventKeys() members {
	return keys("id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data")
}

// attributes checks the standard attributes of an event.
func (p *events) attributes(n *yaml.Node, s scope) {
	for _, name := range []string{"id", "type", "time", "subject", "datacontenttype"} {
		switch s, ok := p.text(n.Get(name), name); {
		case ok && s == "" && (name == "id" || name == "type"):
			p.Warn(ruleAttribute, n.Get(name).Pos, "", "no event has an empty %s", name)
		case ok && name == "type" && strings.HasPrefix(s, event.Prefix):
			p.Warn(ruleAttribute, n.Get(name).Pos, "use a name of your own, such as com.example.order.paid",
				"types that begin with %s are the engine's own: no workflow emits or receives such events", event.Prefix)
		}
	}
	for _, name := range []string{"source", "dataschema"} {
		p.uri(n.Get(name), name, s)
	}
}

// consumption parses which events to consume. With ended, the consumption is itself the until of
// another one and cannot have its own.
func (p *events) consumption(n *yaml.Node, what string, s scope, ended bool) (c Consumption) {
	known := []string{"all", "any", "one"}
	if !ended {
		known = append(known, "until")
	}
	if !p.object(n, what, keys(known...)) {
		return c
	}
	if c.Mode = p.exactlyOne(n, what, "all", "any", "one"); c.Mode != "" {
		c.Filters = p.filters(n.Get(c.Mode), c.Mode, s)
	}
	until := n.Get("until")
	switch {
	case until == nil || ended:
	case c.Mode != "any" && c.Mode != "":
		p.Mistake(until.Pos, "remove it, or use any", "%s: until has no meaning with %s", what, c.Mode)
	case until.Shape == yaml.Object:
		end := p.consumption(until, what+".until", s, true)
		c.UntilEvent = &end
	default:
		c.Until = p.expression(until, what+".until", s)
	}
	return c
}

func (p *events) filters(n *yaml.Node, mode string, s scope) []EventFilter {
	if mode == "one" {
		if n.Shape == yaml.List {
			p.Mistake(n.Pos, "write it as one: {with: …}, or use any", "one: want a single filter, this is a list")
			return nil
		}
		return []EventFilter{p.filter(n, s)}
	}
	items := p.list(n, mode)
	if mode == "all" && n.Shape == yaml.List && len(items) == 0 {
		p.Warn(ruleEndless, n.Pos, "add a filter: `- with: {type: …}`; any: [] accepts every event", "all is empty: it accepts no event, and never ends")
	}
	var out []EventFilter
	for _, item := range items {
		out = append(out, p.filter(item, s))
	}
	return out
}

// pattern warns of an attribute that looks like a regular expression, but is none.
func (p *events) pattern(a yaml.Field) {
	if src := a.Value.Text(); a.Key != "data" && !strings.Contains(src, "${") {
		if _, err := regexp.Compile("^(?:" + src + ")$"); err != nil {
			p.Warn(ruleAttribute, a.Value.Pos, "", "%s: %s is no regular expression: only an event with exactly this %s matches", a.Key, yaml.Quote(src), a.Key)
		}
	}
}

// filter parses an event filter.
func (p *events) filter(n *yaml.Node, s scope) (f EventFilter) {
	if !p.object(n, "an event filter", keys("with", "correlate").need("with").under("with", eventKeys().known...)) {
		return f
	}
	if with := n.Get("with"); with != nil && p.object(with, "with", eventKeys().others()) {
		if len(with.Fields) == 0 {
			p.Mistake(with.Pos, "add `type: …`", "with is empty: it would match every event")
		}
		p.attributes(with, s)
		for _, a := range with.Fields {
			p.pattern(a)
			f.With = append(f.With, expr.Field{Key: a.Key, Value: p.value(a.Value, s)})
		}
	}
	for _, key := range p.mapOf(n.Get("correlate"), "correlate") {
		f.Correlate = append(f.Correlate, p.correlation(key, s))
	}
	return f
}

func (p *events) correlation(f yaml.Field, s scope) Correlation {
	c := Correlation{Key: f.Key}
	if !p.object(f.Value, "correlate."+yaml.Short(f.Key), keys("from", "expect").need("from").others()) {
		return c
	}
	c.From = p.expression(f.Value.Get("from"), "from", s)
	expect := f.Value.Get("expect")
	src, ok := p.text(expect, "expect")
	if !ok {
		return c
	}
	// ".id" is meant as a path; other bare strings are the expected value.
	if strings.HasPrefix(strings.TrimSpace(src), ".") {
		c.Expect = computed(p.expression(expect, "expect", s))
		return c
	}
	c.Expect = p.value(expect, s)
	return c
}

// schedule validates the workflow's schedule.
func (p *events) schedule(n *yaml.Node) {
	if !p.object(n, "schedule", keys("every", "cron", "after", "on", "read")) {
		return
	}
	s := workflowInput()
	p.duration(n.Get("every"), "every", s)
	p.duration(n.Get("after"), "after", s)
	if cron := n.Get("cron"); cron != nil {
		p.cron(cron)
	}
	if on := n.Get("on"); on != nil {
		p.consumption(on, "on", s, false)
	}
	if read := n.Get("read"); read != nil {
		p.word(read, "read", "data", "data", "envelope", "raw")
		if n.Get("on") == nil {
			p.Mistake(read.Pos, "remove it, or add `on: …`", "read has no meaning without on")
		}
	}
}

var cronField = lazyregexp.New(`^[0-9A-Za-z*/,?#-]+$`)

func (p *events) cron(n *yaml.Node) {
	s, ok := p.text(n, "cron")
	if !ok {
		return
	}
	parts := strings.Fields(s)
	fine := len(parts) == 5
	for _, part := range parts {
		fine = fine && cronField().MatchString(part)
	}
	if !fine {
		p.Mistake(n.Pos, "write five fields: '0 8 * * 1' is Mondays at 8:00 (minute, hour, day, month, weekday)",
			"cron: %s does not have the five fields of a cron expression", yaml.Quote(s))
	}
}
