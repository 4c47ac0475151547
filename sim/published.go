package sim

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// published follows the streams. Their order is the true one: the time of an event is
// that of the step that published it.
type published struct {
	broken reportFunc
	slack  time.Duration
	twice  bool // a fault may have published an event twice

	seen     map[stated]bool
	back     map[string]bool      // timers that were cancelled and not set again
	emitted  map[string]bool      // events that tasks have emitted, by tenant, source and id
	again    map[stated]bool      // tasks with a timer that a fault set twice
	reopened map[string]bool      // executions that were retried, and so end twice
	poison   *poisonMessages      // poison messages, which may have been replayed
	last     map[string]string    // id of the last event of each history that has ended
	over     map[string]bool      // executions that have ended for good
	ends     map[string]time.Time // the earliest time at which they may have ended
	keys     keyed
}

// stated identifies an event by its execution and its id.
type stated struct{ execution, id string }

// checkPublished checks the published events: no timer fires after its execution ended or after
// it was replaced, no event is published twice, and every end is published.
func (w *simulation) checkPublished(t *Trial, broken reportFunc) {
	p := published{
		broken: broken, slack: w.slack(), seen: map[stated]bool{}, back: map[string]bool{}, emitted: map[string]bool{}, again: map[stated]bool{}, last: map[string]string{}, over: map[string]bool{}, ends: map[string]time.Time{}, keys: keyed{}, poison: &w.poison, reopened: w.operators.reopened,
		twice: w.duplicated(),
	}
	for _, end := range t.Ends {
		if n := len(end.History); n > 0 && end.Status.Ended() {
			p.last[end.ID] = end.History[n-1].ID
		}
	}
	for e := range w.publications() {
		if tenant := w.tenantOf(e.Execution); tenant != e.Tenant {
			broken(ruleApart, e.Execution, "%s %s stands in the stream of %s", e.Type, e.ID, e.Tenant)
		}
		if p.first(e) {
			p.take(e)
		}
	}
	p.keys.left(p.ends, broken)
	w.announced(t.Ends, p.emitted, broken)
	unpublished(t.Ends, p.seen, broken)
	w.related(t.Ends, p.seen, broken)
	for _, end := range t.Ends {
		w.heard(end, broken)
	}
}

// duplicated reports whether a fault has published an event a second time.
func (w *simulation) duplicated() bool {
	return slices.ContainsFunc(w.struck, func(s Struck) bool { return s.Kind == Duplicate })
}

// first reports whether an event is published for the first time.
func (p *published) first(e publication) bool {
	id := stated{e.Execution, e.ID}
	if p.seen[id] && !p.twice && e.single() && !p.poison.about(e.ID) && !p.reopened[strings.TrimSuffix(e.ID, "/parent")] {
		p.broken("an event is published once", e.Execution, "%s %s is there twice", e.Type, e.ID)
	}
	again := p.seen[id]
	if again && e.Type == event.TimerScheduled { // the first one consumed the record that the timer was cancelled
		p.again[stated{e.Execution, e.Task}] = true
	}
	p.seen[id] = true
	return !again
}

func (p *published) take(e publication) {
	p.takenBack(e)
	if e.Source != "" && !strings.HasPrefix(string(e.Type), event.Prefix) {
		p.emitted[e.Tenant+" "+e.Source+" "+e.ID] = true
	}
	if e.Type == event.TimerFired && p.over[e.Execution] && !p.again[stated{e.Execution, e.Task}] {
		p.broken("no timer outlives its execution", e.Execution, "one of %s fired at %v, after the end", e.Task, e.Time)
	}
	switch last, known := p.last[e.Execution]; {
	case e.Type == event.ExecutionRetried:
		delete(p.over, e.Execution)
	case ended(e.Event) && (!known || last == e.ID): // a retry may precede the end that it undoes
		p.over[e.Execution] = true
	}
	if ended(e.Event) {
		p.ends[e.Execution] = e.Time.Add(-p.slack)
	}
	if !p.twice { // a repeated request counts as the last one
		p.keys.take(e.entry, e.Event, p.slack, p.broken)
	}
}

// takenBack reports timers that fire after they were cancelled. A cancellation removes a
// timer at once, or keeps it from being set.
func (p *published) takenBack(e publication) {
	if e.Execution == "" || p.twice || e.Type != event.TimerScheduled && e.Type != event.TimerCancelled && e.Type != event.TimerFired {
		return
	}
	t, ok := timerIn(e.Data)
	if !ok || t.Keyed() && t.TaskID == "" {
		return
	}
	key := e.Execution + " " + slot(t) + " " + t.FireAt.String()
	switch {
	case e.Type == event.TimerCancelled:
		p.back[key] = true
	case e.Type == event.TimerScheduled:
		delete(p.back, key)
	case p.back[key]:
		p.broken("a timer that was taken back does not fire", e.Execution, "the %s timer of %s for %v did", t.Kind, RunName(t.TaskID), t.FireAt)
	}
}

// timerIn decodes the timer that an event is about.
func timerIn(data json.RawMessage) (t event.Timer, ok bool) {
	if t, ok = event.ScanTimer(string(data)); ok {
		return t, true
	}
	return t, json.Unmarshal(data, &t) == nil
}

// unpublished reports executions whose end was not published.
func unpublished(ends []End, seen map[stated]bool, broken reportFunc) {
	for _, end := range ends {
		if n := len(end.History); n > 0 && end.Status.Ended() && !seen[stated{end.ID, end.History[n-1].ID}] {
			broken("how an execution ends is published", end.ID, "%s is not", end.History[n-1].Type)
		}
	}
}

// single reports whether the engine publishes such an event only once: not if it was
// retried or replayed.
func (p publication) single() bool {
	ours := strings.HasPrefix(string(p.Type), event.Prefix)
	return (p.Type == event.TimerFired || p.Type == event.TaskCompleted || p.Type == event.TaskRequested || !ours && strings.HasPrefix(p.ID, p.Execution+"/do/")) && !p.again
}

// publication is a stream entry's event.
type publication struct {
	event.Event // Data only for timer events; Tenant is that of the stream

	entry string // its id in the stream
	again bool   // it was delayed or replayed
}

// publications returns all events of executions that were ever published, in stream
// order. It includes trimmed entries, since the first of two duplicates may be gone.
func (w *simulation) publications() iter.Seq[publication] {
	return func(yield func(publication) bool) {
		for _, p := range w.past {
			if !yield(p) {
				return
			}
		}
		for i, more := 0, true; i < len(w.tenants) && more; i++ {
			w.memory.Each(w.streams[i], func(entry string, fields []string) bool {
				p := publicationOf(entry, fields)
				p.Tenant, p.Execution = w.tenants[i], w.label(w.tenants[i], p.Execution)
				more = p.Execution == "" || yield(p)
				return more
			})
		}
	}
}

// trimmed keeps an entry that leaves its stream.
func (w *simulation) trimmed(key, entry string, fields []string) {
	at := slices.Index(w.streams, key)
	if at < 0 {
		return
	}
	if p := publicationOf(entry, fields); p.Execution != "" {
		p.Tenant, p.Execution = w.tenants[at], w.label(w.tenants[at], p.Execution)
		w.past = append(w.past, p)
	}
}

func publicationOf(entry string, fields []string) (p publication) {
	p.entry = entry
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1]; fields[i] {
		case "id":
			p.ID = value
		case "source":
			p.Source = value
		case "type":
			p.Type = event.Type(value)
		case "executionid":
			p.Execution = value
		case "taskid":
			p.Task = value
		case "time":
			p.Time, _ = time.Parse(time.RFC3339Nano, value) // the engine's own times are always readable
		case "data":
			if strings.HasPrefix(string(p.Type), event.Prefix+"timer.") {
				p.Data = json.RawMessage(value)
			}
		case event.AttemptAttribute, event.ReplayAttribute:
			p.again = p.again || value != ""
		}
	}
	return p
}

// ended reports whether an event is the end of an execution.
func ended(e event.Event) bool {
	return e.Type == event.WorkflowCompleted || e.Type == event.WorkflowFailed || e.Type == event.WorkflowCancelled
}

// announced checks that the events that tasks have emitted were published, and that ids
// given by the engine are unique.
func (w *simulation) announced(ends []End, published map[string]bool, broken reportFunc) {
	if !w.emits() {
		return
	}
	mark, tasks := []byte(`"task_type":"emit"`), map[string]string{}
	for _, end := range ends {
		for _, e := range end.History {
			var c event.Completed
			if e.Type != event.TaskCompleted || !bytes.Contains(e.Data, mark) || decide.DecodeData(e, &c) != nil || !c.Success || c.Status != "" {
				continue
			}
			var sent struct {
				ID     string `json:"id"`
				Source string `json:"source"`
				Type   string `json:"type"`
			}
			if json.Unmarshal(c.Output, &sent) != nil || sent.ID == "" {
				continue
			}
			id := w.tenantOf(end.ID) + " " + sent.Source + " " + sent.ID
			if !published[id] {
				broken("what a task sends is published", end.ID, "%s %s of %s is not", sent.Type, sent.ID, e.Task)
			}
			if by := tasks[id]; by != "" && strings.HasPrefix(sent.ID, w.idOf(end.ID)+event.ParseRun(e.Task).Ref) {
				broken("an event that a task sends has an id of its own", end.ID, "%s and %s both sent %s %s", by, RunName(e.Task), sent.Type, sent.ID)
			}
			tasks[id] = RunName(e.Task) + " of " + end.ID
		}
	}
}

// emits reports whether any task emits events.
func (w *simulation) emits() bool {
	for _, def := range append([]*dsl.Definition{w.cfg.Definition}, w.cfg.With...) {
		for _, t := range def.Tasks() {
			if t.Kind == dsl.Emit {
				return true
			}
		}
	}
	return false
}
