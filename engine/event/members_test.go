package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// For valid JSON, the scanners agree with json.Unmarshal.
func FuzzScanMembers(f *testing.F) {
	for _, data := range []any{
		event.Requested{TaskID: "/do/0/t#1@2", TaskName: "t", TaskType: "set", Input: []byte(`{"a":[1,"}",{"b":"\\\""}]}`), Vars: []byte(`{}`)},
		event.Requested{TaskID: "x", Input: []byte(`"text"`), Config: []byte(`[[],{}]`)},
		event.Requested{TaskName: "mit Umlaut ü", Input: []byte(`-1.5e3`)},
		event.Requested{TaskName: `with "quotes"`, Input: []byte(`null`)},
		event.Completed{TaskID: "x", TaskName: "t", TaskType: "set", Success: true, Output: []byte(`{"n":1}`), Then: "end", DurationMS: 7},
		event.Completed{TaskID: "x", Error: event.NewProblem(event.Runtime, "it broke"), Status: "skipped"},
		event.Started{Namespace: "a", Name: "b", Version: "1.0.0", Input: []byte(`{}`), Parent: "p", ParentTask: "/do/0/t", Depth: 3},
	} {
		f.Add(event.Encode(data))
	}
	for _, text := range []string{
		`{}`, `{"task_id":"a","task_id":"b"}`, `{ "task_id" : "a" }`, `{"TASK_ID":"a"}`, `{"task_id":7}`, `{"task_id":null}`,
		`{"more":1,"task_id":"a"}`, `[]`, `"x"`, `7`, `null`, `{"input": {} }`, `{"task_id":"\u0041"}`, `{"a\"b":1}`, "{\"task_id\":\"\xff\"}",
		`{"input":1}`, `{"input":true,"vars":[]}`, `{"input":null}`, `{"input":{"a":1} ,"vars":2}`, ` {"input":1}`, `{"input":1} `,
		`{"success":null}`, `{"success":1}`, `{"success":false,"success":true}`, `{"duration_ms":-1}`, `{"duration_ms":1.5}`, `{"depth":1e3}`,
		`{"duration_ms":9999999999}`, `{"duration_ms":999999999}`, `{"depth":99999999999999999999}`, `{"depth":"1"}`, `{"depth":null}`, `{"then":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		completed, ok := event.ScanCompleted(data)
		same(t, data, completed, ok)
		started, ok := event.ScanStarted(data)
		same(t, data, started, ok)
	})
}

func same[T any](t *testing.T, data []byte, got T, ok bool) {
	t.Helper()
	if !ok {
		return
	}
	var want T
	if err := json.Unmarshal(data, &want); err != nil || !cmp.Equal(got, want) {
		t.Errorf("of %q: %+v, json %+v, %v", data, got, want, err)
	}
}

// The scanners accept what the engine writes.
func TestScanMembers(t *testing.T) {
	t.Parallel()
	_, completed := event.ScanCompleted(event.Encode(event.Completed{TaskID: "x", Success: true, Output: []byte(`{"n":1}`), DurationMS: 7}))
	_, started := event.ScanStarted(event.Encode(event.Started{Namespace: "a", Name: "b", Input: []byte(`{}`), Parent: "p", Depth: 3}))
	if !completed || !started {
		t.Errorf("read a result: %t, a start: %t", completed, started)
	}
}
