package describe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// The end of a history shows the open tasks, but no tasks that have ended or that contain
// other open ones.
func TestOpen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := at.Add(time.Hour)
	var events []event.Event
	add := func(typ event.Type, task string, data any) {
		events = append(events, event.Event{Type: typ, Task: task, Time: at, Data: event.Encode(data)})
	}
	check := func(want ...tui.Row) {
		t.Helper()
		if diff := cmp.Diff(want, describe.Open(events), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("open (-want +got):\n%s", diff)
		}
	}
	add(event.ExecutionStarted, "", event.Started{})
	add(event.TaskRequested, "/do/0/both", event.Requested{TaskType: "fork"})
	check(tui.Row{Task: "/do/0/both", State: tui.Running, At: at})
	add(event.TaskRequested, "/do/0/both/fork/branches/0/call", event.Requested{TaskType: "call"})
	add(event.TaskRequested, "/do/0/both/fork/branches/1/hear", event.Requested{TaskType: "listen"})
	add(event.TimerScheduled, "/do/0/both/fork/branches/1/hear", event.Timer{Kind: event.TimeoutTimer, FireAt: due})
	check(
		tui.Row{Task: "/do/0/both/fork/branches/1/hear", State: tui.Waiting, At: at},
		tui.Row{Task: "/do/0/both/fork/branches/0/call", State: tui.Running, At: at},
	)
	add(event.TaskCompleted, "/do/0/both/fork/branches/0/call", event.Completed{Success: true})
	add(event.TaskCompleted, "/do/0/both", event.Completed{Success: true})
	check()
	add(event.TaskRequested, "/do/1/rest", event.Requested{TaskType: "wait"})
	add(event.TimerScheduled, "/do/1/rest", event.Timer{Kind: event.WaitTimer, FireAt: due})
	check(tui.Row{Task: "/do/1/rest", State: tui.Waiting, At: at, Until: due})
	add(event.WorkflowCancelled, "", event.Ended{})
	check()
}
