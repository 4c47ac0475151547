package sim

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

// An execution that waits while another one has ended leaves nothing over: whether it may
// wait depends on other runs. (Three executions of the example sensors, one of which
// began to listen after the events had come, were reported as a bug.)
func TestOneWaitsWhileAnotherHasEnded(t *testing.T) {
	t.Parallel()
	l := workload{
		document:   "\ndo: [{hear: {listen: {to: {one: {with: {type: com.example.never}}}}}}]",
		acts:       []act{{execution: "x", after: time.Hour, typ: event.ExecutionCancelled}},
		executions: 2, want: map[string]string{"x": "cancelled", "x-2": "waiting"},
	}
	if wrong := l.wrong(try(t, l.config(), Plan{})); len(wrong) > 0 {
		t.Error(wrong)
	}
}
