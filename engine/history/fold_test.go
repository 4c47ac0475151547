package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// A history is folded into runs inside the runs that contain them: in loops, tries, functions, and
// after an operator has retried a faulted execution.
func TestFold(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	x := history.NewExecution()
	add := func(typ event.Type, task string, data any) (*history.TaskRun, *history.Timer) {
		version := x.Version + 1
		at := start.Add(time.Duration(version) * time.Second)
		return x.Add(history.Read(version, event.Event{Type: typ, Task: task, Time: at, Data: event.Encode(data)}))
	}
	begin := func(task string) { add(event.TaskRequested, task, event.Requested{TaskName: "x", TaskType: "do"}) }
	end := func(task string) { add(event.TaskCompleted, task, event.Completed{Success: true}) }
	fail := func(task string) { add(event.TaskCompleted, task, event.Completed{Error: &event.Problem{Title: "no"}}) }
	add(event.ExecutionStarted, "", event.Started{Name: "shop"})
	begin("/do/0/each")
	begin("/do/0/each/do/0/a.b#0")
	end("/do/0/each/do/0/a.b#0")
	begin("/do/0/each/do/0/a.b#1")
	begin("/use/functions/f#1./do/0/each/do/0/a.b")
	begin("/use/functions/f/do/0/deep#1./do/0/each/do/0/a.b")
	fail("/use/functions/f/do/0/deep#1./do/0/each/do/0/a.b")
	wait := event.Timer{Kind: event.RetryTimer, FireAt: start.Add(time.Hour)}
	_, set := add(event.TimerScheduled, "/use/functions/f#1./do/0/each/do/0/a.b", wait)
	moved := event.TimerChange{Timer: wait, By: "ada"}
	moved.MovedTo = start.Add(2 * time.Hour)
	_, again := add(event.TimerScheduled, "/use/functions/f#1./do/0/each/do/0/a.b", moved)
	f, fired := add(event.TimerFired, "/use/functions/f#1./do/0/each/do/0/a.b", event.Fired{Timer: wait})
	if !set.Moved || set.Fired || again != fired || !fired.Fired || !fired.Due.Equal(moved.MovedTo) || len(f.Waits) != 2 || f.Waits[1].To.Version != 11 {
		t.Errorf("the timer %+v was moved to %+v, waits %+v", set, again, f.Waits)
	}
	begin("/use/functions/f/do/0/deep#1./do/0/each/do/0/a.b@1")
	for _, task := range []string{
		"/use/functions/f/do/0/deep#1./do/0/each/do/0/a.b@1", "/use/functions/f#1./do/0/each/do/0/a.b", "/do/0/each/do/0/a.b#1", "/do/0/each",
	} {
		fail(task)
	}
	add(event.WorkflowFailed, "", event.Ended{Error: &event.Problem{Title: "no"}})
	if open := x.Open(); len(open) > 0 || x.Runs[0].State != history.Faulted {
		t.Errorf("after its end, %s, %d runs are open", x.Runs[0].State, len(open))
	}
	add(event.ExecutionRetried, "", event.Ended{})
	begin("/use/functions/f/do/0/deep#1./do/0/each/do/0/a.b@r1")

	var got strings.Builder
	var show func(r *history.TaskRun, depth int)
	show = func(r *history.TaskRun, depth int) {
		iteration, attempt := r.Turn()
		fmt.Fprintf(&got, "%s%s [%s] (%s) %s\n", strings.Repeat("  ", depth), r.Ref, iteration, attempt, r.State)
		for _, inner := range r.Children {
			show(inner, depth+1)
		}
	}
	show(x.Runs[0], 0)
	want := ` [] () running
  /do/0/each [] () running
    /do/0/each/do/0/a.b [0] () completed
    /do/0/each/do/0/a.b [1] () running
      /use/functions/f [] () running
        /use/functions/f/do/0/deep [] () faulted
        /use/functions/f/do/0/deep [] (1) faulted
        /use/functions/f/do/0/deep [] (r1) running
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if inner := x.Innermost(); len(inner) != 1 || inner[0].Attempt != "r1" || len(x.Open()) != 4 {
		t.Errorf("innermost open runs: %v of %v", inner, x.Open())
	}
}

// The text of a workflow says who has suspended it, but not who has resumed it.
func TestSuspended(t *testing.T) {
	t.Parallel()
	x := history.NewExecution()
	for _, one := range []struct {
		typ  event.Type
		want string
	}{{event.ExecutionStarted, `input {"n":1}`}, {event.ExecutionSuspended, "by ada"}, {event.ExecutionResumed, ""}} {
		data := event.Encode(map[string]any{"by": "ada", "input": map[string]int{"n": 1}})
		run, _ := x.Add(history.Read(x.Version+1, event.Event{Type: one.typ, Data: data}))
		if run.Text != one.want {
			t.Errorf("after %s: %q, want %q", one.typ, run.Text, one.want)
		}
	}
}

// Sentences about events name the task and say what happened to it.
func TestDescribe(t *testing.T) {
	t.Parallel()
	const task = "/do/0/charge#2@1"
	due := time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC)
	for _, c := range []struct {
		typ  event.Type
		task string
		data any
		want string
	}{
		{event.ExecutionStarted, "", event.Started{Namespace: "a", Name: "b", Input: []byte("1")}, "execution x-1 of a.b starts with input 1"},
		{event.ExecutionSuspended, "", event.Ended{By: "ada", Reason: "later"}, "execution x-1 is suspended, by ada: later"},
		{event.TaskRequested, task, event.Requested{}, "task charge[2] attempt 2 begins"},
		{event.TaskCompleted, task, event.Completed{Success: true, Output: []byte("7")}, "task charge[2] attempt 2 ends with 7"},
		{event.TaskCompleted, task, event.Completed{Success: true, Then: "pay"}, "task charge[2] attempt 2 continues with pay"},
		{event.TimerScheduled, task, event.Timer{FireAt: due, DurationMS: 5000}, "the wait of task charge[2] attempt 2 is set: 5s, until 2026-01-01T00:00:05Z"},
		{event.TimerFired, "", event.Timer{Kind: event.TimeoutTimer}, "the timeout of the workflow expires"},
		{event.WorkflowFailed, "", event.Ended{Error: &event.Problem{Type: "t", Status: 500, Instance: "/do/0/a"}}, "the workflow faults: t (t, status 500) at /do/0/a"},
		{event.WorkflowCancelled, "", event.Ended{Reason: "no"}, "the workflow is cancelled: no"},
	} {
		if got := history.Describe(event.Event{Type: c.typ, Execution: "x-1", Task: c.task, Data: event.Encode(c.data)}); got != c.want {
			t.Errorf("%s:\n got  %s\n want %s", c.typ, got, c.want)
		}
	}
}
