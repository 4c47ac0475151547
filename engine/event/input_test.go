package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// The event of a timer is read back unchanged, with the ids of the timer.
func TestInputIsReadBack(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 5).UTC()
	for _, data := range []string{"", `{"a":[1,"b"]}`, "null", `"x"`} {
		e := event.Event{
			ID: "e-1", Source: "/s", Type: "com.example.x", Time: at, Data: json.RawMessage(data), Ext: map[string]string{"subject": "a\"b"},
		}
		if data == "" {
			e.Data = nil
		}
		timer := event.Timer{
			Tenant: "t", Workflow: "n.w", Execution: "x", FireAt: at, Kind: event.InputTimer, Key: "k", Input: event.EncodeInput(e),
			OnReject: "park=PT5M", ParkedUntil: at.Add(time.Hour),
		}
		var again event.Timer
		if err := json.Unmarshal(event.Encode(timer), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timer, again); diff != "" {
			t.Errorf("%q: %s", data, diff)
		}
		got, err := again.ReadInput()
		e.Tenant, e.Workflow, e.Execution = "t", "n.w", "x"
		if diff := cmp.Diff(e, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", data, err, diff)
		}
	}
}

// An input without an id, source and time gets those of its timer, and one that is not an external
// event is rejected.
func TestReadInput(t *testing.T) {
	t.Parallel()
	timer := event.Timer{Execution: "x", Key: "k", Kind: event.InputTimer, FireAt: time.Unix(1, 2).UTC(), Input: []byte(`{"type":"a"}`)}
	e, err := timer.ReadInput()
	if err != nil || e.ID != "x/k/input/1000000002" || e.ID != timer.InputID() || e.Source == "" || !e.Time.Equal(timer.FireAt) {
		t.Errorf("the event is %+v, %v", e, err)
	}
	for input, want := range map[string]string{
		"":                                      "want an object",
		"7":                                     "want an object",
		"null":                                  "want an object",
		`{"source":"/a"}`:                       "no attribute type",
		`{"type":"io.flunq.task.completed"}`:    "cannot deliver",
		`{"type":"io.flunq.execution.started"}`: "cannot deliver",
		`{"type":"a","time":"soon"}`:            "attribute time",
	} {
		timer.Input = []byte(input)
		if _, err := timer.ReadInput(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", input, err, want)
		}
	}
}

func TestParseRejection(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]event.Rejection{
		"": {}, "drop": {}, "dead-letter": {DeadLetter: true}, "park=PT5M": {Park: "PT5M"},
	} {
		if got, err := event.ParseRejection(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"park", "park=", "Drop", "keep"} {
		if _, err := event.ParseRejection(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestCheckInputKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"k": true, "a b/ü{}": true, "": false, "a\n": false, "\xff": false} {
		if err := event.CheckInputKey(key); err == nil != want {
			t.Errorf("%q: %v", key, err)
		}
	}
}
