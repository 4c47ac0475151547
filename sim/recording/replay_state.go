package recording

import (
	"cmp"
	"encoding/json"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
)

// State is the state of an execution at a moment of its recording.
type State struct {
	Execution string          `json:"execution"`
	Workflow  string          `json:"workflow"`
	Status    string          `json:"status"`
	At        time.Time       `json:"at"`
	Elapsed   time.Duration   `json:"-"` // since the start of the recording
	ElapsedMS int64           `json:"elapsed_ms"`
	Event     int             `json:"event"` // number of the last event that is included
	Line      int             `json:"line"`
	Context   json.RawMessage `json:"context"`
	Tasks     []OpenTask      `json:"tasks"`  // open tasks, outermost first
	Timers    []OpenTimer     `json:"timers"` // pending
	WaitsFor  []string        `json:"waits_for"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *event.Problem  `json:"error,omitempty"`
}

// OpenTask is a task that has begun and not ended.
type OpenTask struct {
	Task      string                     `json:"task"` // its run
	Name      string                     `json:"name"`
	Type      string                     `json:"type"`
	Iteration string                     `json:"iteration,omitempty"`
	Attempt   string                     `json:"attempt,omitempty"`
	Since     time.Time                  `json:"since"`
	Input     json.RawMessage            `json:"input"`
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	Context   json.RawMessage            `json:"context,omitempty"` // of a branch that has its own
	At        *Place                     `json:"at,omitempty"`
}

// OpenTimer is a timer that has not fired yet.
type OpenTimer struct {
	Task    string        `json:"task,omitempty"` // "" for a timer of the workflow
	Kind    string        `json:"kind"`
	Key     string        `json:"key,omitempty"`
	Due     time.Time     `json:"due"`
	DueIn   time.Duration `json:"-"`
	DueInMS int64         `json:"due_in_ms"`
}

// states returns the states of all executions at the moment of the replay.
func (rp *replay) states() []State {
	if len(rp.order) == 0 {
		return nil
	}
	at := rp.moment()
	var out []State
	for _, w := range rp.order {
		out = append(out, w.describe(at))
	}
	return out
}

// moment returns the time at which the replay stopped.
func (rp *replay) moment() time.Time {
	asked := rp.by.opts.At
	switch {
	case asked.Event > 0:
		return rp.entries[rp.at].Time
	case !asked.Time.IsZero():
		return asked.Time
	default:
		return asked.After.From(rp.header.Start)
	}
}

// describe returns the state of an execution.
func (x *executionReplay) describe(at time.Time) State {
	s := x.state
	out := State{
		Execution: s.Execution, Workflow: cmp.Or(s.Workflow, x.started.Workflow), Status: string(s.Status), At: at.UTC(), Elapsed: at.Sub(x.header.Start),
		Event: x.at + 1, Line: x.entries[x.at].line, Context: canonical.Encode(s.Context.V),
		Tasks: []OpenTask{}, Timers: []OpenTimer{}, WaitsFor: []string{}, Error: s.Error,
	}
	out.ElapsedMS = out.Elapsed.Milliseconds()
	if s.Status == decide.Completed {
		out.Output = canonical.Encode(s.Output.V)
	}
	if s.Timeout != nil {
		out.Timers = append(out.Timers, openTimer(*s.Timeout, at))
	}
	for _, n := range s.Open() {
		out.Tasks = append(out.Tasks, x.openTask(n))
		for _, t := range n.Timers {
			out.Timers = append(out.Timers, openTimer(t, at))
		}
	}
	out.WaitsFor = append(out.WaitsFor, s.Awaits(nil)...)
	return out
}

func (x *executionReplay) openTask(n *decide.Node) OpenTask {
	out := OpenTask{
		Task: n.Run.String(), Name: n.Task().Name, Type: string(n.Task().Kind), Since: n.StartedAt.UTC(),
		Iteration: history.Index(n.Run.Iteration), Attempt: history.Attempts(n.Run.Attempt), Input: canonical.Encode(n.Input.V),
	}
	if x.doc.changed() {
		out.At = placeOf(x.doc.now, "", n.Run.Ref)
	} else {
		out.At = placeOf(x.doc.now, x.Name, n.Run.Ref)
	}
	if len(n.Vars) > 0 {
		out.Variables = map[string]json.RawMessage{}
	}
	for name, value := range n.Vars {
		out.Variables[name] = canonical.Encode(value.V)
	}
	if n.OwnContext != nil {
		out.Context = canonical.Encode(n.OwnContext.Context.V)
	}
	return out
}

func openTimer(t event.Timer, now time.Time) OpenTimer {
	out := OpenTimer{Task: t.TaskID, Kind: string(t.Kind), Key: t.Key, Due: t.Due().UTC(), DueIn: t.Due().Sub(now)}
	out.DueInMS = out.DueIn.Milliseconds()
	return out
}
