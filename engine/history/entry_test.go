package history_test

import (
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

func TestRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	timer := func(kind event.TimerKind) any { return event.Timer{Tenant: "t", FireAt: at, Kind: kind} }
	const task = "/do/0/a#2@1"
	for _, c := range []struct {
		typ   event.Type
		task  string
		data  any
		state history.State
		text  string
	}{
		{event.ExecutionStarted, "", event.Started{Input: []byte(`{"a":1}`)}, history.Running, `input {"a":1}`},
		{event.ExecutionSuspended, "", event.Ended{Reason: "later"}, history.Suspended, "later"},
		{event.ExecutionResumed, "", event.Ended{}, history.Running, ""},
		{event.ExecutionRetried, "", event.Ended{}, history.Running, ""},
		{event.WorkflowFailed, "", event.Ended{Error: &event.Problem{Title: "no"}}, history.Faulted, "no"},
		{event.WorkflowCompleted, "", event.Ended{Output: []byte("1")}, history.Completed, "1"},
		{event.TaskRequested, task, event.Requested{TaskType: "call"}, history.Running, "call"},
		{event.TaskRequested, task, event.Requested{TaskType: "listen"}, history.Waiting, "listen"},
		{event.TaskCompleted, task, event.Completed{Success: true, Status: "skipped"}, history.Skipped, "skipped"},
		{event.TaskCompleted, task, event.Completed{Status: "cancelled"}, history.Cancelled, "cancelled"},
		{event.TaskCompleted, task, event.Completed{Error: &event.Problem{Title: "no"}}, history.Faulted, "failed: no"},
		{event.TaskCompleted, task, event.Completed{Success: true, Output: []byte("1")}, history.Completed, "1"},
		{
			event.TaskCompleted, task,
			event.Completed{Success: true, Output: []byte("1"), Call: &event.Call{Method: "GET", URL: "http://a/b", Status: 200}},
			history.Completed, "GET http://a/b 200  1",
		},
		{
			event.TaskCompleted, task,
			event.Completed{Error: &event.Problem{Title: "no"}, Call: &event.Call{Method: "PUT", URL: "http://a/b", First: "http://a"}},
			history.Faulted, "failed: PUT http://a → http://a/b (no response)  no",
		},
		{event.TimerScheduled, task, timer(event.WaitTimer), history.Waiting, "wait, at 2026-01-01T00:00:00Z"},
		{event.TimerScheduled, task, timer(event.RetryTimer), history.Retrying, "retry, at 2026-01-01T00:00:00Z"},
		{event.TimerScheduled, task, timer(event.TimeoutTimer), "", "timeout, at 2026-01-01T00:00:00Z"},
		{event.TimerScheduled, "", timer(event.TimeoutTimer), "", "timeout, at 2026-01-01T00:00:00Z"},
		{event.TimerFired, task, timer(event.RetryTimer), history.Running, "retry, at 2026-01-01T00:00:00Z"},
		{event.TimerFired, task, timer(event.TimeoutTimer), "", "timeout, at 2026-01-01T00:00:00Z"},
		{"com.shop.paid", "", "hello", "", `"hello"`},
	} {
		got := history.Read(7, event.Event{Type: c.typ, Task: c.task, Time: at, Data: event.Encode(c.data)})
		if got.State != c.state || got.Text != c.text || got.Version != 7 || !got.At.Equal(at) || strings.HasPrefix(got.Type, "io.flunq") {
			t.Errorf("%s: %+v", c.typ, got)
		}
		if c.task != "" && (got.Ref != "/do/0/a" || got.Iteration != "2" || got.Attempt != "1") {
			t.Errorf("%s: run %+v", c.typ, got)
		}
	}
	long := history.Read(1, event.Event{Type: "x", Data: []byte(`"` + strings.Repeat("é", 1000) + `"`)})
	if len(long.Text) > 410 || !strings.HasSuffix(long.Text, "é…") {
		t.Errorf("long: %d bytes, %q", len(long.Text), long.Text)
	}
}
