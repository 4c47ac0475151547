package actions_test

import (
	"errors"
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
		unreadable      error
		want            string
	}{
		{"bridge-kafka", "completed", nil, nil, "the bridge publishes it again"},
		{"bridge-kafka", "faulted", nil, nil, "the bridge publishes it again"},
		{"bridge-kafka", "completed", outside, nil, "so a replay has no effect"},
		{"bridge-kafka", "", outside, nil, "a replay starts no workflow"},
		{"worker-service", "completed", nil, nil, "so a replay has no effect"},
		{"worker-service", "running", nil, nil, "where it is handled again"},
		{"worker-service", "completed", nil, errors.New("no id"), "another dead letter"},
		{"bridge-kafka", "", nil, errors.New("no id"), "the bridge publishes it again"},
	} {
		l := stream.DeadLetter{}
		l.Service, l.Unreadable, l.Event = test.service, test.unreadable, event.Event{Execution: "order-7", Ext: test.ext}
		if got := actions.ReplayOutlook(l, test.status); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
