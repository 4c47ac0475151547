package report

import (
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// run describes a task run or an execution for the page.
type run struct {
	*history.TaskRun

	execution string
	def       *dsl.Task // nil: an execution or an unknown task
	doc       *document
	detail    string

	parent   *run // of an execution: the task that started it
	children []*run

	ending  string // describes the result
	reason  string // of the result, if any
	input   *datum
	context *datum
	output  *datum
	problem *event.Problem
	then    string
	calls   []*call
	events  []runEvent

	row int // number on the page, from 1; 0: omitted
}

// open reports whether a run has not ended.
func (r *run) open() bool { return r.Ended.IsZero() }

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

// status returns the result of a run.
func (r *run) status() state {
	switch {
	case r.open():
		return stateOpen
	case r.State == history.Completed:
		return stateDone
	case r.State == history.Faulted:
		return stateFailed
	default:
		return state(r.State)
	}
}

// result describes the result of a run.
func (r *run) result() string {
	if r.open() {
		return "has not ended"
	}
	return r.ending
}

// runEvent is an event at one moment of a run.
type runEvent struct {
	at   history.Moment
	kind string // event, timeout, suspended, resumed or retried
	text string
}

// eventEntry is an event of a history in the list of events.
type eventEntry struct {
	history.Moment

	n    int // from 1
	typ  event.Type
	run  *run // nil: unknown
	text string
	data *datum
}

// takeEvent adds the next event of a history.
func (r *Recording) takeEvent(recorded event.Recorded) error {
	e, err := recorded.Event()
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	r.see(e.Time)
	entry := history.Read(int64(r.seq), e)
	h := &eventEntry{
		Moment: history.Moment{At: e.Time, Version: entry.Version}, n: len(r.events) + 1, typ: e.Type, run: r.note(e, entry),
		text: short(history.Happens(e), longestText), data: r.datum(e.Data),
	}
	r.follow(e, h.run)
	r.events = append(r.events, h)
	return nil
}

// longestText is the maximum number of characters of the description of an event.
const longestText = 140

func key(execution, task string) string { return execution + " " + task }

// note applies an event to the runs, and returns the run that it is about.
func (r *Recording) note(e event.Event, entry history.Entry) *run {
	execution := r.executions[e.Execution]
	if execution == nil {
		if e.Type != event.ExecutionStarted || entry.Ref != "" {
			return nil
		}
		execution = history.NewExecution()
		r.executions[e.Execution] = execution
	}
	taskRun, timer := execution.Add(entry)
	id := key(e.Execution, taskRun.String())
	x := r.byKey[id]
	if x == nil {
		x = &run{TaskRun: taskRun, execution: e.Execution}
		r.byKey[id] = x
		if taskRun.Parent == nil {
			r.start(x, entry.Data)
		} else {
			r.begin(x)
		}
		r.runs = append(r.runs, x)
		if x.parent == nil {
			r.roots = append(r.roots, x)
		} else {
			x.parent.children = append(x.parent.children, x)
		}
	}
	mark := func(kind, text string) {
		x.events = append(x.events, runEvent{history.Moment{At: e.Time, Version: entry.Version}, kind, text})
	}
	switch e.Type {
	case event.TaskRequested:
		r.tasks++
	case event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		x.ending = short(history.Happens(e), longestText)
		r.finishRun(x, entry.Data)
	case event.TimerFired:
		if timer != nil && timer.Kind == event.TimeoutTimer {
			mark("timeout", "its timeout fired")
		}
	case event.EventReceived:
		mark("event", "event received")
	case event.ExecutionSuspended, event.ExecutionResumed, event.ExecutionRetried:
		what := strings.TrimPrefix(entry.Type, "execution.")
		mark(what, what)
	default:
	}
	return x
}

// start fills in the run of an execution.
func (r *Recording) start(x *run, started *history.Data) {
	x.detail = x.execution
	if started == nil {
		return
	}
	x.Name, x.doc, x.input = started.Name, r.documentOf(x.execution, started), r.datum(started.Input)
	if started.Parent != "" {
		x.parent = r.byKey[key(started.Parent, started.ParentTask)]
	}
}

// documentOf returns the document of an execution, nil if it is unknown.
func (r *Recording) documentOf(execution string, s *history.Data) *document {
	if execution == r.head.ID && len(r.docs) > 0 {
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

// begin fills in a task run.
func (r *Recording) begin(x *run) {
	x.parent = r.byKey[key(x.execution, x.Parent.String())]
	x.doc = r.byKey[key(x.execution, "")].doc
	if x.doc != nil {
		x.def = x.doc.def.Task(x.Ref)
	}
	if x.def != nil {
		x.Name, x.Kind, x.detail = x.def.Name, string(x.def.Kind), graph.Detail(x.def)
	}
}

// finishRun records the result of a run.
func (r *Recording) finishRun(x *run, d *history.Data) {
	if d == nil {
		return
	}
	x.then, x.problem, x.output = d.Then, d.Error, r.datum(d.Output)
	if x.State == history.Cancelled {
		x.reason = d.Reason
	}
	if d.Call == nil {
		return
	}
	x.detail = "call " + d.Call.Method + " " + bare(d.Call.URL)
	if len(x.calls) == 0 { // a recording from Redis has no exchanges
		x.calls = []*call{{
			from: x.Began, to: x.Ended, method: d.Call.Method, url: d.Call.URL, status: d.Call.Status, took: time.Duration(d.DurationMS) * time.Millisecond,
		}}
	}
}

// iterationLabel returns the iteration of a run within its parent, "" if there is only one.
func (r *run) iterationLabel() string {
	iteration, _ := r.Turn()
	return history.Index(iteration)
}

// retry returns the attempt of the parent to which a run belongs.
func (r *run) retry() string {
	_, attempt := r.Turn()
	return attempt
}
