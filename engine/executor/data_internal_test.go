package executor

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// completed returns the same data as event.Encode.
func TestCompleted(t *testing.T) {
	t.Parallel()
	for _, c := range []event.Completed{
		{},
		{TaskID: "/do/0/t", TaskName: `a "b" <c> é`, TaskType: "set", Success: true, Output: []byte(`{"n":1}`), DurationMS: 7},
		{TaskID: "x", Success: true, Output: []byte(`null`), Then: "end"},
		{TaskID: "x", Error: &event.Problem{Type: "t", Status: 500}},
		{TaskID: "x", Status: "skipped", Success: true},
	} {
		var want, got any
		check(t, json.Unmarshal(event.Encode(c), &want))
		check(t, json.Unmarshal(completed(&c), &got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
