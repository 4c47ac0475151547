package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// Missed is an event from outside, or one that a workflow emitted, that no execution
// received.
type Missed struct {
	Event event.Event
	At    time.Time
	After time.Duration // since the start of the run
	Why   string        // "the filter of answer does not match: data.order is 7, want 8", "1ms before answer began to listen"

	// For is the task that began to listen after the event, and then never received one:
	// it timed out or still waits. Otherwise nil.
	For *dsl.Task

	might string // tasks that might have received it at another time; "" if there are none
	but   bool   // String says "but" before Why
}

// String says when the event arrived and why no execution received it.
func (m Missed) String() string {
	but := ""
	if m.but {
		but = "but "
	}
	return fmt.Sprintf("%s arrived at +%s, %s%s", m.Event.Type, history.Duration(m.After), but, m.Why)
}

// WaitingHint suggests how to avoid an endless wait. The likely cause is an event that arrived but was
// not taken.
func WaitingHint(missed []Missed) string {
	if len(missed) == 0 {
		return "send it with an events entry in --mocks, or give the task a timeout"
	}
	const limit = 10
	var text strings.Builder
	for _, m := range missed[:min(limit, len(missed))] {
		text.WriteString(m.String() + "\n")
	}
	if more := len(missed) - limit; more > 0 {
		fmt.Fprintf(&text, "and %s not taken\n", history.Count(more, "more event"))
	}
	return text.String() + "make the task listen when its event arrives, or give it a timeout"
}

// missedEvents collects the events that no execution received. Only a run without a Plan
// collects them.
type missedEvents struct {
	*shared

	waiting []Missed        // events since the clock last moved
	taken   map[string]bool // ids, as histories have them, of the events received since then
	all     []Missed
}

// maxMissed is the maximum number of events that are explained.
const maxMissed = 50

// recordArrival records an event that is in the stream now.
func (missed *missedEvents) recordArrival(e event.Event) {
	if missed.cfg.Plan == nil && len(missed.all) < maxMissed {
		missed.waiting = append(missed.waiting, Missed{Event: e, At: missed.clock.now, After: missed.clock.now.Sub(missed.cfg.Start)})
	}
}

// recordHistory records the events in a history: those that it received and those that a task
// emitted.
func (missed *missedEvents) recordHistory(e event.Event) {
	switch {
	case missed.cfg.Plan != nil:
	case e.Type == event.EventReceived:
		if len(missed.waiting) > 0 {
			missed.taken[e.ID] = true
		}
	case e.Type == event.TaskCompleted:
		if emitted, ok := missed.emitted(e); ok {
			missed.recordArrival(emitted)
		}
	}
}

// emitted returns the event that a completed task has emitted. It returns false if no workflow
// listens for its type: most events are for other programs.
func (missed *missedEvents) emitted(e event.Event) (event.Event, bool) {
	t := missed.task(e)
	if t == nil || t.Kind != dsl.Emit {
		return event.Event{}, false
	}
	var c event.Completed
	var attributes struct {
		ID     string     `json:"id"`
		Source string     `json:"source"`
		Type   event.Type `json:"type"`
	}
	if json.Unmarshal(e.Data, &c) != nil || !c.Success || json.Unmarshal(c.Output, &attributes) != nil {
		return event.Event{}, false
	}
	if event.IsInput(c.Output) { // it is for one execution, perhaps later
		return event.Event{}, false
	}
	if attributes.Type == "" || len(missed.listeners(string(attributes.Type))) == 0 {
		return event.Event{}, false
	}
	return event.Event{ID: attributes.ID, Source: attributes.Source, Type: attributes.Type, Time: e.Time, Data: c.Output}, true
}

// task returns the task of a history's event, nil if the event has none.
func (missed *missedEvents) task(e event.Event) *dsl.Task {
	if def := missed.definition(e.Workflow); def != nil {
		return def.Task(event.ParseRun(e.Task).Ref)
	}
	return nil
}

// listeners returns the tasks of all documents that listen for a type of event.
func (missed *missedEvents) listeners(typ string) (out []*dsl.Task) {
	for _, def := range missed.definitions(missed.cfg.Tenant) {
		for _, t := range def.Tasks() {
			if decide.MayListenFor(t, typ) {
				out = append(out, t)
			}
		}
	}
	return out
}

// explainMissed explains the events that no execution has received. It is called before the clock
// moves, when nothing else can happen at the current time.
func (missed *missedEvents) explainMissed(ctx context.Context) error {
	for _, m := range missed.waiting {
		if missed.taken[m.Event.Source+" "+m.Event.ID] {
			continue
		}
		if err := missed.explain(ctx, &m); err != nil {
			return err
		}
		missed.all = append(missed.all, m)
		if missed.cfg.Missed != nil {
			missed.cfg.Missed(m)
		}
	}
	missed.waiting = nil
	clear(missed.taken)
	return nil
}

// explain finds out why no execution has received an event, as far as that is known now.
func (missed *missedEvents) explain(ctx context.Context, m *Missed) error {
	listeners := missed.listeners(string(m.Event.Type))
	if len(listeners) == 0 {
		m.but, m.Why = true, "no task listens for this type"
		if types := missed.awaited(); len(types) > 0 {
			m.Why += "; the workflow listens for " + strings.Join(types, ", ")
		}
		return nil
	}
	var reasons []string
	for _, id := range missed.executions(ctx) {
		state, err := missed.stateOf(ctx, id)
		if err != nil {
			return err
		}
		if state == nil {
			continue // it never began
		}
		for _, h := range state.state.ListenMatches(state.env, m.Event) {
			switch {
			case h.Takes:
				reasons = append(reasons, "just before "+h.Task.Name+" began to listen")
			case h.Why != "":
				m.but = true
				reasons = append(reasons, "the filter of "+h.Task.Name+" does not match: "+h.Why)
			}
		}
	}
	if len(reasons) > 0 {
		slices.Sort(reasons)
		m.Why = store.NewSealer(missed.cfg.Secrets).Redact(strings.Join(slices.Compact(reasons), "; "))
		return nil
	}
	var names []string
	for _, t := range listeners {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	verb := "does"
	if len(names) > 1 {
		verb = "do"
	}
	m.might, m.but = strings.Join(names, ", "), true
	m.Why = m.might + " " + verb + " not listen at this moment"
	return nil
}

// awaited returns some of the event types that the documents listen for.
func (missed *missedEvents) awaited() (types []string) {
	const limit = 5
	for _, def := range missed.definitions(missed.cfg.Tenant) {
		for _, t := range def.Tasks() {
			if t.Listen == nil {
				continue
			}
			for _, typ := range decide.ListensFor(t) {
				if !slices.Contains(types, typ) && len(types) < limit {
					types = append(types, typ)
				}
			}
		}
	}
	return types
}

// allMissed returns all missed events, with explanations that use the whole run.
func (missed *missedEvents) allMissed(ctx context.Context) ([]Missed, error) {
	if err := missed.explainMissed(ctx); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(missed.all, func(m Missed) bool { return m.might != "" }) {
		return missed.all, nil
	}
	var spans []listenSpan
	for _, id := range missed.executions(ctx) {
		found, err := missed.listened(ctx, id)
		if err != nil {
			return nil, err
		}
		spans = append(spans, found...)
	}
	for i := range missed.all {
		if m := &missed.all[i]; m.might != "" {
			m.explainBySpans(spans)
		}
	}
	return missed.all, nil
}

// listenSpan is the time during which a listen task listened. end is zero if it still
// does.
type listenSpan struct {
	run        string
	task       *dsl.Task
	began, end time.Time
	well       bool // it completed successfully
}

// listenSpans returns when the listen tasks of a history listened. steady reports that the
// execution was neither suspended nor retried.
func listenSpans(def *dsl.Definition, events []event.Event) (spans []listenSpan, steady bool) {
	steady = true
	for _, e := range events {
		switch e.Type { //nolint:exhaustive // the others do not matter here
		case event.TaskRequested:
			if t := def.Task(event.ParseRun(e.Task).Ref); t != nil && t.Listen != nil {
				spans = append(spans, listenSpan{run: e.Task, task: t, began: e.Time})
			}
		case event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			var c event.Completed
			well := e.Type == event.TaskCompleted && json.Unmarshal(e.Data, &c) == nil && c.Success
			for i := range spans {
				if s := &spans[i]; s.end.IsZero() && (s.run == e.Task || e.Type != event.TaskCompleted) {
					s.end, s.well = e.Time, well
				}
			}
		case event.ExecutionSuspended, event.ExecutionRetried:
			steady = false
		}
	}
	return spans, steady
}

// listened returns when the listen tasks of an execution listened.
func (missed *missedEvents) listened(ctx context.Context, id string) ([]listenSpan, error) {
	_, events, err := missed.history(ctx, id)
	if len(events) == 0 {
		return nil, errUnless(err, store.ErrNotFound)
	}
	def := missed.definition(events[0].Workflow)
	if def == nil {
		return nil, err
	}
	spans, _ := listenSpans(def, events)
	return spans, err
}

// explainBySpans explains a missed event by the nearest start or end of a matching listen task.
func (m *Missed) explainBySpans(spans []listenSpan) {
	const never = time.Duration(1<<63 - 1)
	early, late := never, never
	var soon, gone *dsl.Task
	received := false // whether the task that began next received an event
	for _, s := range spans {
		if !decide.MayListenFor(s.task, string(m.Event.Type)) {
			continue
		}
		if d := s.began.Sub(m.At); d >= 0 && d < early {
			early, soon, received = d, s.task, s.well
		}
		if d := m.At.Sub(s.end); !s.end.IsZero() && d >= 0 && d < late {
			late, gone = d, s.task
		}
	}
	if soon != nil && !received {
		m.For = soon
	}
	switch {
	case soon != nil && early == 0:
		m.but, m.Why = false, "just before "+soon.Name+" began to listen"
	case soon != nil:
		m.but, m.Why = false, history.Duration(early)+" before "+soon.Name+" began to listen"
	case gone != nil && late == 0:
		m.but, m.Why = false, "just after "+gone.Name+" had stopped listening"
	case gone != nil:
		m.but, m.Why = false, history.Duration(late)+" after "+gone.Name+" had stopped listening"
	default:
		m.Why = m.might + " never began to listen"
	}
}
