package event_test

import (
	"testing"

	"flunq.io/flunq/engine/event"
)

// TypeOf returns the type of its text, known or not.
func TestTypeOf(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "com.x", "io.flunq.other", string(event.ExecutionStarted), string(event.TaskRequested), string(event.TaskCompleted),
		string(event.TimerScheduled), string(event.TimerCancelled), string(event.TimerFired), string(event.WorkflowCompleted),
	} {
		if got := event.TypeOf([]byte(text)); string(got) != text {
			t.Errorf("TypeOf(%q) = %q", text, got)
		}
	}
}
