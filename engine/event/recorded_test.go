package event_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// Any data is read back unchanged; JSON on one line is stored as a JSON value.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for data, form := range map[string]string{
		"":                                    "",
		`{"b":1,"a":[1e2,1.50,0.1e-400]}`:     "data",
		`{ "a" : 1, "a": 2 }`:                 "data",
		`12345678901234567890123456789`:       "data",
		`"a \u003cb> <b> \/ \ud83d"`:          "data",
		`null`:                                "data",
		`""`:                                  "data",
		`"{\"a\":1}"`:                         "data",
		"{\"a\":\n1}":                         "text",
		" 1":                                  "text",
		"1\r":                                 "text",
		"hello":                               "text",
		`1},"data":{"a":2`:                    "text",
		"\ue000secret.key#012345678901\ue000": "text",
		"\"a\xffb\"":                          "base64",
		"\xff":                                "base64",
	} {
		e := event.Event{
			ID: "x/1", Source: "/s", Type: event.TaskCompleted, Time: time.Unix(1, 5).UTC(), Tenant: "t", Workflow: "n.w", Execution: "x",
			Task: "/do/0/a", Data: json.RawMessage(data), Ext: map[string]string{"text": "1", "base64": "2", "record": "3", "odd\n\"": "\x00"},
		}
		for _, asJSON := range []bool{true, false} {
			line := append(e.AppendRecorded([]byte("{"), asJSON), '}')
			var members map[string]json.RawMessage
			var r event.Recorded
			if json.Unmarshal(line, &members) != nil || json.Unmarshal(line, &r) != nil || bytes.ContainsAny(line, "\r\n") {
				t.Fatalf("%q: %s", data, line)
			}
			got, err := r.Event()
			if data == "" {
				e.Data = nil
			}
			if diff := cmp.Diff(e, got); err != nil || diff != "" {
				t.Errorf("%q: %v %s", data, err, diff)
			}
			delete(members, "event")
			want := form
			if !asJSON {
				want = strings.Replace(form, "data", "text", 1)
			}
			if members[want] == nil && want != "" || len(members) > 1 {
				t.Errorf("%q as JSON %v: %s, want it as %s", data, asJSON, line, want)
			}
		}
	}
}

// In format 1 the data was a string among the attributes.
func TestRecordedBefore(t *testing.T) {
	t.Parallel()
	var r event.Recorded
	if err := json.Unmarshal([]byte(`{"event":{"data":"{\"a\": 1}","id":"x/1","type":"io.flunq.task.completed"}}`), &r); err != nil {
		t.Fatal(err)
	}
	want := event.Event{ID: "x/1", Type: event.TaskCompleted, Data: json.RawMessage(`{"a": 1}`)}
	got, err := r.Event()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
