package actions_test

import (
	"math"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/stream"
)

// A recorded duration ends at 292 years, the actual one may be longer.
func TestMilliseconds(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "", 1500: "1.5s", math.MaxInt64 / 1_000_000: "over 106,751d", math.MaxInt64 / 1000: "106,751,991d"} {
		if got := actions.Milliseconds(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
}

// What the bridge could not publish is published by a replay, whatever has become of the execution.
func TestReplayOutlook(t *testing.T) {
	t.Parallel()
	outside := map[string]string{cloudevents.OriginAttribute: "results/0/1"}
	for _, test := range []struct {
		service, status string
		ext             map[string]string
		want            string
	}{
		{"bridge-kafka", "completed", nil, "the bridge publishes it again"},
		{"bridge-kafka", "faulted", nil, "the bridge publishes it again"},
		{"bridge-kafka", "completed", outside, "so a replay has no effect"},
		{"bridge-kafka", "", outside, "a replay starts no workflow"},
		{"worker-service", "completed", nil, "so a replay has no effect"},
		{"worker-service", "running", nil, "where it is handled again"},
	} {
		l := stream.DeadLetter{}
		l.Service, l.Event = test.service, event.Event{Execution: "order-7", Ext: test.ext}
		if got := actions.ReplayOutlook(l, test.status); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
