package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// run is a run of a task, or an execution.
type run struct {
	execution string
	task      event.Run // zero: an execution
	def       *dsl.Task // nil: an execution or an unknown task
	doc       *document
	name      string
	kind      string
	detail    string

	parent   *run
	children []*run

	began, ended stamp
	status       state
	reason       string // the reason of the status, if any
	input        *datum
	context      *datum
	output       *datum
	problem      *event.Problem
	then         string
	calls        []*call
	timers       []*timer
	events       []runEvent

	row  int  // number on the page, from 1; 0: omitted
	open bool // not ended
}

// stamp is a moment: a time and a line of the recording.
type stamp struct {
	at  time.Time
	seq int
}

// state is the result of a run and its CSS class.
type state string

// The states.
const (
	stateOpen      state = "open"
	stateDone      state = "done"
	stateFailed    state = "failed"
	stateSkipped   state = "skipped"
	stateCancelled state = "cancelled"
)

// timer is a wait, a pause before a retry, or a timeout.
type timer struct {
	kind     event.TimerKind
	key      string
	from, to stamp
	due      time.Time
	fired    bool
	over     bool // fired or cancelled
}

// runEvent is an event at one moment of a run.
type runEvent struct {
	at   stamp
	kind string // event, timeout, suspended, resumed or retried
	text string
}

// eventEntry is an event of a history in the list of events.
type eventEntry struct {
	stamp

	n    int // from 1
	typ  event.Type
	run  *run // nil: unknown
	task string
	text string
	data *datum
}

// takeEvent adds an event of a history.
func (r *Recording) takeEvent(recorded event.Recorded) error {
	e, err := recorded.Event()
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	r.see(e.Time)
	r.history++
	h := &eventEntry{stamp: stamp{e.Time, r.seq}, n: r.history, typ: e.Type, task: e.Task, data: r.datum(e.Data)}
	r.note(h, e)
	r.follow(e)
	if h.run == nil {
		h.run = r.byKey[key(e.Execution, e.Task)]
	}
	h.text = described(e, h.run)
	r.events = append(r.events, h)
	return nil
}

func key(execution, task string) string { return execution + " " + task }

// note updates the runs by an event.
func (r *Recording) note(h *eventEntry, e event.Event) {
	at := h.stamp
	switch e.Type {
	case event.ExecutionStarted:
		h.run = r.start(e, at)
	case event.TaskRequested:
		h.run = r.begin(e, at)
		r.tasks++
	case event.TaskCompleted:
		h.run = r.complete(e, at)
	case event.TimerScheduled, event.TimerFired, event.TimerCancelled:
		r.clock(e, at)
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		r.close(e, at)
	case event.EventReceived:
		r.mark(e, runEvent{at, "event", "event received"})
	case event.ExecutionSuspended:
		r.mark(e, runEvent{at, "suspended", "suspended"})
	case event.ExecutionResumed:
		r.mark(e, runEvent{at, "resumed", "resumed"})
	case event.ExecutionRetried:
		r.mark(e, runEvent{at, "retried", "retried"})
		r.reopen(e)
	default:
	}
}

// start adds an execution.
func (r *Recording) start(e event.Event, at stamp) *run {
	var started event.Started
	_ = json.Unmarshal(e.Data, &started) // empty if it cannot be parsed
	x := &run{
		execution: e.Execution, doc: r.documentOf(e, started), name: started.Name, kind: "workflow", began: at,
		status: stateOpen, open: true, input: r.datum(started.Input), detail: e.Execution,
	}
	if x.parent = r.byKey[key(started.Parent, started.ParentTask)]; started.Parent == "" {
		x.parent = nil
	}
	r.put(x, key(e.Execution, ""))
	return x
}

// put adds a run below its parent.
func (r *Recording) put(x *run, id string) {
	r.byKey[id] = x
	r.runs = append(r.runs, x)
	if x.parent == nil {
		r.roots = append(r.roots, x)
		return
	}
	x.parent.children = append(x.parent.children, x)
}

// documentOf returns the document that an execution runs, nil if it is unknown.
func (r *Recording) documentOf(e event.Event, s event.Started) *document {
	if e.Execution == r.head.ID && len(r.docs) > 0 {
		return r.docs[0]
	}
	var found *document
	for _, d := range r.docs {
		switch {
		case d.def.ID() != s.Namespace+"."+s.Name:
		case s.Definition != "" && s.Definition == d.hash:
			return d
		case s.Version != "" && s.Version != "latest" && s.Version != d.def.Document.Version:
		default:
			found = d
		}
	}
	return found
}

// begin records the start of a task.
func (r *Recording) begin(e event.Event, at stamp) *run {
	execution := r.byKey[key(e.Execution, "")]
	if execution == nil {
		return nil
	}
	x := &run{
		execution: e.Execution, task: event.ParseRun(e.Task), doc: execution.doc, began: at, status: stateOpen, open: true,
	}
	var requested event.Requested
	_ = json.Unmarshal(e.Data, &requested) // likewise
	x.name, x.kind = requested.TaskName, requested.TaskType
	if x.doc != nil {
		x.def = x.doc.def.Task(x.task.Ref)
	}
	if x.def != nil {
		x.name, x.kind, x.detail = x.def.Name, string(x.def.Kind), graph.Detail(x.def)
	}
	if g, ok := r.given[key(e.Execution, e.Task)]; ok {
		x.input, x.context = g.input, g.context
		delete(r.given, key(e.Execution, e.Task))
	}
	x.parent = r.around(execution, x.task)
	r.put(x, key(e.Execution, e.Task))
	return x
}

// complete records the end of a task. A skipped task has no other event.
func (r *Recording) complete(e event.Event, at stamp) *run {
	x := r.byKey[key(e.Execution, e.Task)]
	var c event.Completed
	if json.Unmarshal(e.Data, &c) != nil {
		return x
	}
	if x == nil {
		if x = r.begin(e, at); x == nil {
			return nil
		}
	}
	x.ended, x.open, x.then, x.problem = at, false, c.Then, c.Error
	if c.Call != nil {
		x.detail = "call " + c.Call.Method + " " + bare(c.Call.URL)
	}
	if c.Call != nil && len(x.calls) == 0 { // a recording from Redis has no exchanges
		x.calls = []*call{{from: x.began, to: at, method: c.Call.Method, url: c.Call.URL, status: c.Call.Status, took: time.Duration(c.DurationMS) * time.Millisecond}}
	}
	x.output = r.datum(c.Output)
	switch {
	case c.Status == "skipped":
		x.status = stateSkipped
	case c.Status == "cancelled":
		x.status = stateCancelled
	case c.Error != nil || !c.Success:
		x.status = stateFailed
	default:
		x.status = stateDone
	}
	return x
}

// close records the end of an execution.
func (r *Recording) close(e event.Event, at stamp) {
	x := r.byKey[key(e.Execution, "")]
	if x == nil {
		return
	}
	var ended event.Ended
	_ = json.Unmarshal(e.Data, &ended) // likewise
	x.ended, x.open, x.output, x.problem = at, false, r.datum(ended.Output), ended.Error
	switch e.Type {
	case event.WorkflowCompleted:
		x.status = stateDone
	case event.WorkflowCancelled:
		x.status, x.reason = stateCancelled, ended.Reason
	default:
		x.status = stateFailed
	}
}

// reopen records that a faulted execution continues.
func (r *Recording) reopen(e event.Event) {
	if x := r.byKey[key(e.Execution, "")]; x != nil {
		x.open, x.status, x.problem = true, stateOpen, nil
	}
}

func (r *Recording) mark(e event.Event, m runEvent) {
	x := r.byKey[key(e.Execution, e.Task)]
	if x != nil {
		x.events = append(x.events, m)
	}
}

// clock records an event of a timer.
func (r *Recording) clock(e event.Event, at stamp) {
	var t event.Timer
	_ = json.Unmarshal(e.Data, &t) // likewise
	x := r.byKey[key(e.Execution, e.Task)]
	if x == nil {
		return
	}
	if e.Type == event.TimerScheduled {
		x.timers = append(x.timers, &timer{kind: t.Kind, key: t.Key, from: at, due: t.FireAt})
		return
	}
	for _, known := range slices.Backward(x.timers) {
		if known.over || known.kind != t.Kind || known.key != t.Key {
			continue
		}
		known.to, known.over, known.fired = at, true, e.Type == event.TimerFired
		if known.fired && t.Kind == event.TimeoutTimer {
			x.events = append(x.events, runEvent{at, "timeout", "its timeout fired"})
		}
		return
	}
}
