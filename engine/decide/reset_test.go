package decide_test

import (
	"encoding/json"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// environment answers an execution until it ends: every call succeeds, every child completes, and
// timers fire in order. An event that is listened for arrives if nothing else happens.
type environment struct {
	*testing.T
	env     *decide.Env
	state   *decide.State
	now     time.Time
	history []event.Event
	replies []event.Event
	timers  []event.Timer
	types   []string
	arrived int
	fails   bool // every third call fails, the same ones each time
	early   bool // an operator fires timers before they are due
}

// take handles what a decision publishes.
func (w *environment) take(d decide.Decision) {
	w.history = append(w.history, d.History...)
	w.types = slices.DeleteFunc(w.types, func(t string) bool { return slices.Contains(d.Unlisten, t) })
	w.types = append(w.types, d.Listen...)
	for _, t := range d.Cancel {
		w.timers = slices.DeleteFunc(w.timers, func(other event.Timer) bool {
			return other.TaskID == t.TaskID && other.Kind == t.Kind && other.Key == t.Key
		})
	}
	for _, e := range d.Publish {
		reply := event.Event{
			ID: e.ID + "/done", Source: "/test", Type: event.TaskCompleted, Tenant: "default", Workflow: e.Workflow, Execution: w.state.Execution,
			Task: e.Task, Data: []byte(`{"success":true,"output":{"a":1,"ok":true,"items":[1,2]}}`),
		}
		if h := fnv.New32a(); w.fails {
			h.Write([]byte(e.Task))
			if h.Sum32()%3 == 0 {
				reply.Data = []byte(`{"success":false,"error":{"type":"communication","status":503,"title":"x"}}`)
			}
		}
		switch e.Type {
		case event.TaskRequested:
			w.replies = append(w.replies, reply)
		case event.ExecutionStarted:
			var started event.Started
			if err := json.Unmarshal(e.Data, &started); err != nil {
				w.Fatal(err)
			}
			reply.Task = started.ParentTask
			w.replies = append(w.replies, reply)
		case event.TimerScheduled:
			var t event.Timer
			if err := json.Unmarshal(e.Data, &t); err != nil {
				w.Fatal(err)
			}
			if t.Kind != event.InputTimer {
				w.timers = append(w.timers, t)
			}
		default:
		}
	}
}

// step lets one thing happen, and returns false if nothing can.
func (w *environment) step() bool {
	var d decide.Decision
	e := event.Event{Tenant: "default", Workflow: w.state.Workflow, Execution: w.state.Execution}
	switch {
	case w.state.Ready():
		w.state.Advance(w.env, &d)
		w.take(d)
		return true
	case len(w.replies) > 0:
		e, w.replies = w.replies[0], w.replies[1:]
	case len(w.types) > 0 && w.arrived < 50:
		w.arrived++
		typ := strings.ReplaceAll(w.types[0], "*", "com.example.any")
		came := event.Event{ID: "event-" + string(rune('a'+w.arrived)), Source: "/out", Type: event.Type(typ), Time: w.now, Data: []byte(`{"order":1,"n":2}`)}
		e = decide.Received(came, w.state.Execution)
	case len(w.timers) > 0:
		slices.SortStableFunc(w.timers, func(a, b event.Timer) int { return a.Due().Compare(b.Due()) })
		t := w.timers[0]
		w.timers = w.timers[1:]
		fired := event.Fired{Timer: t, ScheduledFor: t.Due()}
		switch {
		case w.early:
			fired.By = "grace"
		case t.Due().After(w.now):
			w.now = t.Due()
		}
		fired.FiredAt = w.now
		e.Type, e.Task, e.Data = event.TimerFired, t.TaskID, event.Encode(fired)
	default:
		return false
	}
	w.now = w.now.Add(time.Millisecond)
	e.Time = w.now
	if _, err := w.state.Apply(w.env, e, &d); err != nil {
		w.Fatal(err)
	}
	w.take(d)
	return true
}

// end lets things happen until nothing more can.
func (w *environment) end() {
	for range 2000 {
		if w.state.Status.Ended() || !w.step() {
			return
		}
	}
}

// A reset to any task ends like the original execution if its calls get the same answers. Nothing from
// before the task is requested again, pending timers keep their remaining time, and the new history can
// be replayed.
func TestResetEndsTheSame(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source := section(archive, "workflow.yaml")
			def, _, err := dsl.Parse("workflow.yaml", source)
			if err != nil {
				t.Fatal(err)
			}
			var begin input
			if err := json.NewDecoder(strings.NewReader(string(section(archive, "events.jsonl")))).Decode(&begin); err != nil {
				t.Fatal(err)
			}
			for _, fails := range []bool{false, true} {
				w := &environment{T: t, env: decide.NewEnv(def, decide.Options{}), state: decide.New(), now: start, fails: fails}
				var d decide.Decision
				e := event.Event{
					ID: "x/start", Source: "/test", Type: event.ExecutionStarted, Time: start, Tenant: "default", Workflow: "test.case", Execution: "x", Data: begin.Data,
				}
				if _, err := w.state.Apply(w.env, w.env.Begin(e), &d); err != nil {
					t.Skip(err)
				}
				w.take(d)
				w.end()
				for version, e := range w.history {
					if e.Type == event.TaskRequested {
						resetTo(t, w, version, e.Task)
					}
				}
			}
		})
	}
}

// The pause before a retry may depend on the id of the execution. A reset to a later task nevertheless
// keeps the course of the history, and the remaining time of other timers.
func TestResetKeepsTime(t *testing.T) {
	t.Parallel()
	env := envOf(t, `
timeout: {after: PT1H}
do:
  - tried:
      try:
        - id: {set: {id: '${ $workflow.id }'}}
        - call: {call: http, with: {method: get, endpoint: 'http://a.example'}}
      catch: {retry: {delay: PT1S, jitter: {from: PT0S, to: PT10S}, limit: {attempt: {count: 9}}}}
  - both:
      fork:
        branches:
          - long: {wait: PT30M}
          - short: {wait: PT10M}
  - last: {wait: PT1M}
`)
	for _, early := range []bool{false, true} {
		resetEverywhere(t, &environment{T: t, env: env, state: decide.New(), now: start, early: early})
	}
}

// resetEverywhere lets an execution end, and resets it to each of its tasks.
func resetEverywhere(t *testing.T, w *environment) {
	t.Helper()
	var d decide.Decision
	e := event.Event{ID: "x/start", Source: "/test", Type: event.ExecutionStarted, Time: start, Tenant: "default", Workflow: "test.case", Execution: "x", Data: []byte("{}")}
	if _, err := w.state.Apply(w.env, e, &d); err != nil {
		t.Fatal(err)
	}
	w.take(d)
	for failures := 0; len(w.timers) == 0 || w.timers[0].TaskName != "long"; {
		if failures++; failures < 4 && len(w.replies) > 0 {
			w.replies[0].Data = []byte(`{"success":false,"error":{"type":"communication","status":503,"title":"x"}}`)
		}
		if w.timers = slices.DeleteFunc(w.timers, func(t event.Timer) bool { return t.TaskID == "" }); !w.step() {
			t.Fatal("the history does not reach the fork")
		}
	}
	w.end()
	if w.state.Status != decide.Completed {
		t.Fatalf("it is %s: %v", w.state.Status, w.state.Error)
	}
	for version, e := range w.history {
		if e.Type == event.TaskRequested {
			resetTo(t, w, version, e.Task)
		}
	}
}

// resetTo resets an execution that has ended to the event of a version.
func resetTo(t *testing.T, old *environment, version int, task string) {
	t.Helper()
	now := old.now.Add(time.Hour)
	if old.early {
		now = old.now.Add(time.Second)
	}
	r := &decide.Reset{Env: old.env, Execution: "y", Task: task, Now: now, By: "ada"}
	for i, e := range old.history {
		done, err := r.Add(e)
		if err != nil {
			if !strings.Contains(err.Error(), "a child execution, which would be started a second time") && !strings.Contains(err.Error(), "as soon as task") {
				t.Errorf("reset to %s: %v", task, err)
			}
			t.Log("refused:", task, err)
			return
		}
		if done != (i == version) {
			t.Fatalf("reset to %s: done is %v at version %d, want it at %d", task, done, i+1, version+1)
		}
		if done {
			break
		}
	}
	for _, e := range r.History {
		if e.Time.After(now) {
			t.Errorf("reset to %s at %s: %s of %s has the time %s", task, now, e.Type, e.Task, e.Time)
		}
	}
	w := &environment{T: t, env: old.env, state: r.State, now: now, fails: old.fails}
	for _, e := range r.Publish {
		if e.Type == event.TaskRequested && before(old.history[:version], e.Task) {
			t.Errorf("reset to %s requests %s, which had its result", task, e.Task)
		}
		if e.Execution != "y" && !strings.HasPrefix(e.Execution, "y.") {
			t.Errorf("reset to %s publishes an event of execution %s", task, e.Execution)
		}
	}
	w.take(decide.Decision{History: r.History, Publish: slices.DeleteFunc(slices.Clone(r.Publish), func(e event.Event) bool { return e.Type == event.TaskCompleted }), Listen: r.Listen})
	for _, timer := range w.timers {
		if timer.Due().Before(now) {
			t.Errorf("reset to %s: timer %s of %s is due at %s, before the reset", task, timer.Kind, timer.TaskID, timer.Due())
		}
	}
	w.end()
	if got, want := string(r.State.Status)+text(t, r.State), string(old.state.Status)+text(t, old.state); got != want {
		t.Errorf("reset to %s: %s, want %s", task, got, want)
	}
	if _, err := decide.Rebuild(w.env, w.history); err != nil {
		t.Errorf("reset to %s: %v", task, err)
	}
}

// before reports whether a history has the result of a task run.
func before(history []event.Event, task string) bool {
	return slices.ContainsFunc(history, func(e event.Event) bool { return e.Type == event.TaskCompleted && e.Task == task })
}

// text returns the output or error of an execution.
func text(t *testing.T, s *decide.State) string {
	t.Helper()
	out, err := json.Marshal(map[string]any{"output": s.Output, "error": s.Error})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
