package event_test

import (
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

// The bytes are those of Fields, whichever attributes are empty.
func TestAppendFields(t *testing.T) {
	t.Parallel()
	full := event.Event{
		ID: "1", Source: "/s", Type: event.TaskCompleted, Time: time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("x", 3600)),
		Tenant: "t", Workflow: "w", Execution: "x", Task: "/do/0/a", Data: []byte(`{"a":1}`), Ext: map[string]string{"z": "1", "b": "2", "empty": ""},
	}
	for _, e := range []event.Event{full, {}, {ID: "1", Type: "com.x"}} {
		want := ""
		if fields := e.Fields(); len(fields) > 0 {
			want = strings.Join(fields, "\x00") + "\x00"
		}
		if got := string(e.AppendFields(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
