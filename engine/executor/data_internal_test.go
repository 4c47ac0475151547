package executor

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// Whatever the data of a request is, it is read as encoding/json reads it.
func FuzzRequested(f *testing.F) {
	for _, r := range []event.Requested{
		{TaskID: "/do/0/t#1@2", TaskName: "t", TaskType: "set", Input: []byte(`{"a":[1,"}",{"b":"\\\""}]}`), Vars: []byte(`{}`)},
		{TaskID: "x", Input: []byte(`"text"`), Config: []byte(`[[],{}]`)},
		{TaskName: "mit Umlaut ü", Input: []byte(`-1.5e3`)},
		{TaskName: `with "quotes"`, Input: []byte(`null`)},
	} {
		f.Add(event.Encode(r))
	}
	for _, text := range []string{
		`{}`, `{"task_id":"a","task_id":"b"}`, `{ "task_id" : "a" }`, `{"TASK_ID":"a"}`, `{"task_id":7}`, `{"task_id":null}`,
		`{"more":1,"task_id":"a"}`, `[]`, `"x"`, `7`, `null`, `{"input": {} }`, `{"task_id":"\u0041"}`, `{"a\"b":1}`, "{\"task_id\":\"\xff\"}",
		`{"input":1}`, `{"input":true,"vars":[]}`, `{"input":null}`, `{"input":{"a":1} ,"vars":2}`, ` {"input":1}`, `{"input":1} `,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return // the store says so
		}
		var want event.Requested
		e := event.Event{Data: data}
		wrong := decide.DecodeData(e, &want)
		got, err := requested(e)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%v, want %v", err, wrong)
		}
		if diff := cmp.Diff(want, got); diff != "" && err == nil {
			t.Error(diff)
		}
	})
}

// A report is what event.Encode makes of it, whatever is in it.
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
