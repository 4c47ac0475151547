package sim

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

// streamCheck checks the events in stream order. Their times do not give the order, since an
// event has the time of the step that published it.
type streamCheck struct {
	report invariant.Report
	slack  time.Duration
	twice  bool // a fault may have published an event twice

	seen      map[eventKey]bool
	cancelled map[string]bool      // timers that were cancelled and not set again
	emitted   map[string]bool      // events that tasks have emitted, by tenant, source and id
	setTwice  map[eventKey]bool    // tasks with a timer that a fault set twice
	reopened  map[string]bool      // executions that were retried, and therefore end twice
	poison    *poisonMessages      // poison messages, which may have been replayed
	last      map[string]string    // id of the last event of each history that has ended
	over      map[string]bool      // executions that have ended for good
	ends      map[string]time.Time // the earliest time at which they may have ended
	keys      keyedTimers
	unsure    map[string]bool // executions with an input that an operator may have cancelled, or that a retry preceded
}

// eventKey identifies an event by its execution and its id.
type eventKey struct{ execution, id string }

// checkPublished checks the published events: no timer fires after its execution ended or after
// it was replaced, no event is published twice, and every end is published.
func (chk *checker) checkPublished(t *Trial) {
	p := streamCheck{
		report: chk.report, slack: chk.slack(), twice: chk.duplicated(), poison: &chk.poison, reopened: chk.operators.reopened,
		seen: map[eventKey]bool{}, cancelled: map[string]bool{}, emitted: map[string]bool{}, setTwice: map[eventKey]bool{},
		last: map[string]string{}, over: map[string]bool{}, ends: map[string]time.Time{}, keys: keyedTimers{}, unsure: map[string]bool{},
	}
	for _, end := range t.Ends {
		if n := len(end.History); n > 0 && end.Status.Ended() {
			p.last[end.ID] = end.History[n-1].ID
		}
		p.unsure[end.ID] = chk.operators.reopened[chk.idOf(end.ID)] ||
			slices.ContainsFunc(chk.operators.changed, func(by changed) bool { return by.execution == end.ID && by.task == "" })
	}
	for e := range chk.publications() {
		if tenant := chk.tenantOf(e.Execution); tenant != e.Tenant {
			chk.report(ruleTenants, e.Execution, "%s %s is in the stream of %s", e.Type, e.ID, e.Tenant)
		}
		if p.isFirst(e) {
			p.take(e)
		}
	}
	p.keys.left(p.ends, chk.report)
	chk.checkEmitted(t.Ends, p.emitted)
	chk.checkChildren(t, p.seen)
	for _, end := range t.Ends {
		if n := len(end.History); n > 0 && end.Status.Ended() && !p.seen[eventKey{end.ID, end.History[n-1].ID}] {
			chk.report("the end of every execution is published", end.ID, "%s was not published", end.History[n-1].Type)
		}
		chk.checkReceived(end)
	}
}

// isFirst reports whether an event is published for the first time.
func (c *streamCheck) isFirst(e publication) bool {
	id := eventKey{e.Execution, e.ID}
	if c.seen[id] && !c.twice && e.publishedOnce() && !c.poison.includes(e.ID) && !c.reopened[strings.TrimSuffix(e.ID, "/parent")] {
		c.report("an event is published once", e.Execution, "%s %s was published twice", e.Type, e.ID)
	}
	again := c.seen[id]
	if again && e.Type == event.TimerScheduled { // the first one consumed the record that the timer was cancelled
		c.setTwice[eventKey{e.Execution, e.Task}] = true
	}
	c.seen[id] = true
	return !again
}

func (c *streamCheck) take(e publication) {
	timer, aboutTimer := timerIn(e.Event)
	if aboutTimer {
		c.checkCancelled(e, timer)
	}
	if e.Source != "" && !strings.HasPrefix(string(e.Type), event.Prefix) {
		c.emitted[e.Tenant+" "+e.Source+" "+e.ID] = true
	}
	if e.Type == event.TimerFired && c.over[e.Execution] && !c.setTwice[eventKey{e.Execution, e.Task}] {
		c.report("no timer outlives its execution", e.Execution, "a timer of %s fired at %v, after the end", e.Task, e.Time)
	}
	switch last, known := c.last[e.Execution]; {
	case e.Type == event.ExecutionRetried:
		delete(c.over, e.Execution)
	case ended(e.Event) && (!known || last == e.ID): // a retry may precede the end that it undoes
		c.over[e.Execution] = true
	}
	if ended(e.Event) && !c.unsure[e.Execution] {
		c.ends[e.Execution] = e.Time.Add(-c.slack)
	}
	if aboutTimer && !c.twice { // a repeated request counts as the last one
		c.keys.take(e, timer, c.slack, c.report)
	}
}

// checkCancelled reports timers that fire after they were cancelled. A cancellation removes a
// timer immediately, or prevents it from being set.
func (c *streamCheck) checkCancelled(e publication, t event.Timer) {
	if e.Execution == "" || c.twice || t.Keyed() && t.TaskID == "" {
		return
	}
	key := e.Execution + " " + invariant.Slot(t) + " " + t.FireAt.String()
	switch {
	case e.Type == event.TimerCancelled:
		c.cancelled[key] = true
	case e.Type == event.TimerScheduled:
		delete(c.cancelled, key)
	case c.cancelled[key]:
		c.report("a cancelled timer does not fire", e.Execution, "the %s timer of %s for %v did", t.Kind, invariant.RunName(t.TaskID), t.FireAt)
	}
}

// timerIn returns the timer that an event is about; ok is false if it is not about one.
func timerIn(e event.Event) (t event.Timer, ok bool) {
	switch e.Type {
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		ok = decide.DecodeData(e, &t) == nil
	default:
	}
	return t, ok
}

// publishedOnce reports whether the engine publishes such an event only once: not if it was
// retried or replayed.
func (p publication) publishedOnce() bool {
	ours := strings.HasPrefix(string(p.Type), event.Prefix)
	return (p.Type == event.TimerFired || p.Type == event.TaskCompleted || p.Type == event.TaskRequested || !ours && strings.HasPrefix(p.ID, p.Execution+"/do/")) && !p.redelivered
}

// publication is a stream entry's event.
type publication struct {
	event.Event // Data only for timer events; Tenant is that of the stream

	entry       string // its id in the stream
	redelivered bool   // it was delayed or replayed
}

// publications returns all events of executions that were ever published, in stream
// order. It includes trimmed entries, since the first of two duplicates may be gone.
func (chk *checker) publications() iter.Seq[publication] {
	return func(yield func(publication) bool) {
		for _, p := range chk.past {
			if !yield(p) {
				return
			}
		}
		for i, more := 0, true; i < len(chk.tenants) && more; i++ {
			chk.memory.Each(chk.streams[i], func(entry string, fields []string) bool {
				p := publicationOf(entry, fields)
				p.Tenant, p.Execution = chk.tenants[i], chk.label(chk.tenants[i], p.Execution)
				more = p.Execution == "" || yield(p)
				return more
			})
		}
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
			p.redelivered = p.redelivered || value != ""
		}
	}
	return p
}

// ended reports whether an event is the end of an execution.
func ended(e event.Event) bool {
	return e.Type == event.WorkflowCompleted || e.Type == event.WorkflowFailed || e.Type == event.WorkflowCancelled
}

// checkEmitted checks that the events that tasks have emitted were published, and that ids
// given by the engine are unique.
func (chk *checker) checkEmitted(ends []End, published map[string]bool) {
	isEmit := func(t *dsl.Task) bool { return t.Kind == dsl.Emit }
	if !slices.ContainsFunc(chk.cfg.Definitions(), func(def *dsl.Definition) bool { return HasTask(def, isEmit) }) {
		return
	}
	tasks := map[string]string{}
	for _, end := range ends {
		for _, e := range end.History {
			var c event.Completed
			if e.Type != event.TaskCompleted || decide.DecodeData(e, &c) != nil || c.TaskType != string(dsl.Emit) || !c.Success || c.Status != "" {
				continue
			}
			var sent struct {
				ID     string `json:"id"`
				Source string `json:"source"`
				Type   string `json:"type"`
			}
			if json.Unmarshal(c.Output, &sent) != nil || sent.ID == "" || event.IsInput(c.Output) {
				continue
			}
			id := chk.tenantOf(end.ID) + " " + sent.Source + " " + sent.ID
			if !published[id] {
				chk.report("every emitted event is published", end.ID, "%s %s of %s was not", sent.Type, sent.ID, e.Task)
			}
			if by := tasks[id]; by != "" && strings.HasPrefix(sent.ID, chk.idOf(end.ID)+event.ParseRun(e.Task).Ref) {
				chk.report("every emitted event has an id of its own", end.ID, "%s and %s both emitted %s %s", by, invariant.RunName(e.Task), sent.Type, sent.ID)
			}
			tasks[id] = invariant.RunName(e.Task) + " of " + end.ID
		}
	}
}

// keyedTimers follows the timers that have a key, by execution, task and key: only
// the last request for a key counts.
type keyedTimers map[string][]timerRequest

// timerRequest is a request to set a timer, or to cancel it.
type timerRequest struct {
	event.Timer

	at      time.Time // when its event was written
	cancels bool
}

// take records what a stream entry says about a timer. It reports a timer that fires
// although a later request replaced it more than slack ago.
func (k keyedTimers) take(e publication, t event.Timer, slack time.Duration, report invariant.Report) {
	if !t.Keyed() {
		return
	}
	t.Execution = e.Execution // unique even if tenants have executions with the same ids
	id := fmt.Sprintf("%s %s %s", t.Execution, t.TaskID, t.Key)
	text, _, _ := strings.Cut(e.entry, "-")
	ms, _ := strconv.ParseInt(text, 10, 64) // written by Redis
	at := time.UnixMilli(ms).UTC()
	if e.Type != event.TimerFired {
		k[id] = append(k[id], timerRequest{t, at, e.Type == event.TimerCancelled})
		return
	}
	requests := k[id]
	for len(requests) > 0 && !requests[len(requests)-1].FireAt.Equal(t.FireAt) {
		last := requests[len(requests)-1]
		if at.Sub(last.at) > slack {
			report("the last timer request for a key counts", e.Execution, "the timer of %s for %v fired, although a later request replaced it at %v", t.Key, t.FireAt, last.at)
			return
		}
		requests = requests[:len(requests)-1]
	}
	k[id] = nil
}

// left reports timers that have never fired although their execution was still running
// when they were due.
func (k keyedTimers) left(over map[string]time.Time, report invariant.Report) {
	for _, id := range slices.Sorted(maps.Keys(k)) {
		n := len(k[id])
		if n == 0 || k[id][n-1].cancels {
			continue
		}
		last := k[id][n-1]
		if end := over[last.Execution]; !end.IsZero() && end.After(later(last.at, last.Due())) {
			report("a timer with a key is not lost", last.Execution, "that of %s for %v never fired", last.Key, last.FireAt)
		}
	}
}
