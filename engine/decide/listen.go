package decide

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// listenState is the progress of a listen task.
type listenState struct {
	Consumed []Data `json:"consumed"` // accepted events in the form that read selects, in order
	Matched  []int  `json:"matched"`  // indexes of the filters that have accepted an event
	Stop     []int  `json:"stop"`     // indexes of the filters of until that have accepted an event
	Outputs  []Data `json:"outputs"`  // outputs of foreach, in order
	Handled  int    `json:"handled"`  // number of events that foreach has finished
	Busy     bool   `json:"busy"`     // foreach is processing an event
	Stopped  bool   `json:"deaf"`     // no more events are accepted
}

// seenLimit is the number of external events whose ids an execution keeps to detect repeated
// deliveries.
const seenLimit = 256

// beginListen subscribes the execution to the events of a listen task.
func (m *machine) beginListen(n *Node) error {
	n.Listen = &listenState{}
	types, err := m.listenTypes(n)
	if err != nil {
		return err
	}
	m.d.listen(types)
	return nil
}

// subscribed returns the event types that a task must be subscribed to, if it is listening.
func (ev *evaluator) subscribed(n *Node) []string {
	if n.Listen == nil || n.Listen.Stopped {
		return nil
	}
	types, err := ev.listenTypes(n)
	if err != nil {
		return nil // it has never subscribed
	}
	return types
}

// listenTypes returns the event types that a task listens for; "*" alone if a filter
// accepts any type.
func (ev *evaluator) listenTypes(n *Node) ([]string, error) {
	if len(n.task.Listen.To.Filters) == 0 {
		return []string{"*"}, nil
	}
	var types []string
	for _, f := range filtersOf(n.task) {
		typ, err := ev.typeOf(n, f)
		if err != nil {
			return nil, err
		}
		if typ == "*" {
			return []string{typ}, nil
		}
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return types, nil
}

// typeOf returns the event type that a filter accepts, or "*" unless it is a single literal
// type.
func (ev *evaluator) typeOf(n *Node, f dsl.EventFilter) (string, error) {
	typ := typeValue(f)
	if typ == nil {
		return "*", nil
	}
	v, err := typ.Eval(ev.scope(n, n.Input.V))
	if err != nil {
		return "", err
	}
	if s := canonical.Text(v); plainType(s) {
		return s, nil
	}
	return "*", nil
}

// typeValue returns what a filter requires of the type of an event, or nil.
func typeValue(f dsl.EventFilter) *expr.Value {
	for _, attribute := range f.With {
		if attribute.Key == "type" {
			return attribute.Value
		}
	}
	return nil
}

// constantType returns what a filter requires of the type if it is a constant of the document.
func constantType(f dsl.EventFilter) (text string, ok bool) {
	typ := typeValue(f)
	if typ == nil {
		return "", false
	}
	v, ok := typ.Constant()
	return canonical.Text(v), ok
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._/:-]+$`)

// plainType reports whether a type is literal, not a regular expression. The dots of a
// reverse domain name do not make it a regular expression.
func plainType(s string) bool { return plain.MatchString(s) }

// unlisten ends the subscription of a task, except for types that another task needs.
func (m *machine) unlisten(n *Node) {
	types := m.subscribed(n)
	n.Listen.Stopped = true
	for _, other := range m.open {
		needed := m.subscribed(other)
		types = slices.DeleteFunc(types, func(t string) bool { return slices.Contains(needed, t) })
	}
	m.d.unlisten(types)
}

// Received converts an external event to the EventReceived that Apply accepts.
func Received(e event.Event, execution string) event.Event {
	return event.Event{
		ID: e.Source + " " + e.ID, Source: Source, Type: event.EventReceived, Time: e.Time,
		Tenant: e.Tenant, Execution: execution, Data: canonical.Encode(envelope(e)),
	}
}

// Arrived is the inverse of Received: it returns the external event of an EventReceived.
func Arrived(e event.Event) event.Event {
	v, _ := canonical.Decode(e.Data)
	envelope, _ := v.(map[string]any)
	out := eventOf(envelope)
	out.Tenant, out.Time = e.Tenant, e.Time
	return out
}

// envelope returns an event as expressions see it: an object of its attributes.
func envelope(e event.Event) map[string]any {
	out := map[string]any{"specversion": event.SpecVersion, "id": e.ID, "source": e.Source, "type": string(e.Type)}
	if !e.Time.IsZero() {
		out["time"] = dateTime(e.Time)["iso8601"]
	}
	for name, value := range e.Ext {
		out[name] = value
	}
	if len(e.Data) > 0 {
		data, err := canonical.DecodeForeign(e.Data)
		if err != nil {
			data = string(e.Data)
		}
		out["data"] = data
	}
	return out
}

// eventOf is the inverse of envelope.
func eventOf(envelope map[string]any) event.Event {
	e := event.Event{Ext: map[string]string{}}
	for name, value := range envelope {
		text := canonical.Text(value)
		switch name {
		case "id":
			e.ID = text
		case "source":
			e.Source = text
		case "type":
			e.Type = event.Type(text)
		case "time":
			e.Time, _ = time.Parse(time.RFC3339Nano, text) // zero if it is none
		case "data":
			e.Data = canonical.Encode(value)
		case "specversion":
		default:
			e.Ext[name] = text
		}
	}
	return e
}

// onReceived passes an external event to the tasks that listen for it.
func (m *machine) onReceived(e event.Event) (func(), error) {
	if slices.Contains(m.Seen, e.ID) {
		return nil, nil
	}
	v, err := canonical.Decode(e.Data)
	if err != nil {
		return nil, err
	}
	envelope, ok := v.(map[string]any)
	if !ok {
		return nil, nil
	}
	var steps []pendingStep
	for _, n := range m.Open() {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		if apply := m.listenStep(n, envelope); apply != nil {
			steps = append(steps, pendingStep{n, apply})
		}
	}
	if steps == nil {
		return nil, nil
	}
	return func() {
		m.Seen = append(m.Seen, e.ID)
		if len(m.Seen) > seenLimit {
			m.Seen = m.Seen[1:]
		}
		m.steps = append(m.steps, steps...)
	}, nil
}

// listenStep returns the function that applies an event to a listen task, or nil if the task
// does not accept the event.
func (m *machine) listenStep(n *Node, envelope map[string]any) func() {
	to := n.task.Listen.To
	if to.UntilEvent != nil {
		i, keys, err := m.match(n, to.UntilEvent, n.Listen.Stop, envelope)
		if err != nil {
			return func() { m.fail(n, problemOf(err)) }
		}
		if i >= 0 {
			return func() { m.stop(n, i, keys) }
		}
	}
	i, keys, err := m.match(n, &to, n.Listen.Matched, envelope)
	if err != nil {
		return func() { m.fail(n, problemOf(err)) }
	}
	if i < 0 {
		return nil
	}
	return func() { m.consume(n, i, keys, envelope) }
}

// stop counts an event for until. It is not part of the output.
func (m *machine) stop(n *Node, filter int, keys map[string]Data) {
	m.remember(keys)
	until := n.task.Listen.To.UntilEvent
	n.Listen.Stop = append(n.Listen.Stop, filter)
	if until.Mode != "all" || len(n.Listen.Stop) == len(until.Filters) {
		m.stopListening(n)
	}
}

// consume adds an event to those that a listen task has consumed.
func (m *machine) consume(n *Node, filter int, keys map[string]Data, envelope map[string]any) {
	m.remember(keys)
	l, to := n.Listen, n.task.Listen.To
	l.Matched = append(l.Matched, filter)
	l.Consumed = append(l.Consumed, Data{read(n.task.Listen.Read, envelope)})
	done := false
	switch {
	case to.Mode == "one":
		done = true
	case to.Mode == "all":
		done = len(l.Matched) == len(to.Filters)
	case to.Until == nil && to.UntilEvent == nil:
		done = true
	}
	if n.task.Listen.Foreach != nil {
		if done {
			m.unlisten(n)
		}
		m.enqueue(n, func() { m.work(n) })
		return
	}
	if done || m.untilHolds(n, l.Consumed) {
		m.stopListening(n)
	}
}

// untilHolds evaluates the until condition on the outputs so far.
func (m *machine) untilHolds(n *Node, outputs []Data) bool {
	until := n.task.Listen.To.Until
	if until == nil {
		return false
	}
	ok, err := until.Test(m.scope(n, values(outputs)))
	if err != nil {
		m.fail(n, problemOf(err))
		return false
	}
	return ok
}

// stopListening ends the subscription. The task completes once foreach has processed the
// remaining events.
func (m *machine) stopListening(n *Node) {
	m.unlisten(n)
	if n.task.Listen.Foreach != nil {
		m.enqueue(n, func() { m.work(n) })
		return
	}
	m.complete(n, values(n.Listen.Consumed), "")
}

// work starts foreach with the next event, if foreach is idle and an event is waiting.
func (m *machine) work(n *Node) {
	l, f := n.Listen, n.task.Listen.Foreach
	if l.Busy || n.closed {
		return
	}
	if l.Handled >= len(l.Consumed) {
		if l.Stopped {
			m.complete(n, values(l.Outputs), "")
		}
		return
	}
	item := l.Consumed[l.Handled]
	l.Busy = true
	n.Vars = map[string]Data{f.Item: item, f.At: {l.Handled}}
	if len(f.Do) == 0 {
		m.nextEvent(n, item.V)
		return
	}
	m.enter(n, n.Input.V)
}

// handled records the output of one iteration of foreach. It reports false if that has failed.
func (m *machine) handled(n *Node, out any) bool {
	l, f := n.Listen, n.task.Listen.Foreach
	result, err := m.finish(n, n, f.Output, f.Export, out, " of foreach")
	if err != nil {
		m.fail(n, problemOf(err))
		return false
	}
	l.Busy = false
	l.Handled++
	l.Outputs = append(l.Outputs, Data{result})
	n.Vars = nil
	return true
}

// nextEvent continues foreach after one iteration.
func (m *machine) nextEvent(n *Node, out any) {
	if !m.handled(n, out) {
		return
	}
	l := n.Listen
	if !l.Stopped && m.untilHolds(n, l.Outputs) {
		m.unlisten(n)
		l.Consumed = l.Consumed[:l.Handled]
	}
	m.enqueue(n, func() { m.work(n) })
}

func (m *machine) remember(keys map[string]Data) {
	for name, value := range keys {
		if m.Keys == nil {
			m.Keys = map[string]Data{}
		}
		m.Keys[name] = value
	}
}

func values(in []Data) []any {
	out := make([]any, len(in))
	for i, d := range in {
		out[i] = d.V
	}
	return out
}

// read returns the part of an event that a listen task selects. The raw data is a string: the text of JSON
// or of a text, base64 of other bytes.
func read(as string, envelope map[string]any) any {
	data := envelope["data"]
	switch {
	case as == "envelope":
		return envelope
	case as == "raw" && data != nil:
		return canonical.Text(data)
	default:
		return data
	}
}

// wanted describes the events that a listen task waits for, by the types that are constants
// of the document.
func wanted(to dsl.Consumption) string {
	if to.UntilEvent != nil {
		end := *to.UntilEvent
		to.UntilEvent = nil
		return wanted(to) + " until " + wanted(end)
	}
	switch {
	case len(to.Filters) == 0 && to.Mode == "all":
		return "no event"
	case len(to.Filters) == 0:
		return "any event"
	}
	var types []string
	for _, f := range to.Filters {
		typ, ok := constantType(f)
		if !ok {
			typ = "an event of any type"
		}
		types = append(types, typ)
	}
	joint := map[string]string{"all": " and ", "any": " or "}[to.Mode]
	return strings.Join(types, joint)
}
