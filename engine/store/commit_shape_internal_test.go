package store

import (
	"strconv"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

// Where there is no room for another word, texts are the transition's own, and an
// event is given by its fields.
func TestWordsFull(t *testing.T) {
	t.Parallel()
	s := New(nil, Options{})
	c := Commit{Tenant: "t", Execution: "x", Workflow: "n.wf", Status: "running", Now: time.Unix(1, 0)}
	e := event.Event{
		ID: "e", Source: "/a", Type: event.TaskRequested, Time: time.Unix(1, 0), Tenant: "t", Workflow: "n.wf",
		Execution: "x", Task: "/do/0", Data: []byte(`{}`),
	}
	c.History, c.Publish = []event.Event{e}, []event.Event{e}
	b := s.newCommitBatch([]Commit{c})
	for n := 0; b.words.place(strconv.Itoa(n)) > 0; n++ {
	}
	if n := len(b.words.texts); n != mostWords {
		t.Fatalf("%d words, want %d", n, mostWords)
	}
	if !b.add(&c, false) {
		t.Fatal(b.refused)
	}
	for i, form := range []byte{b.entries[0], b.said[0]} {
		if form != 0 {
			t.Errorf("event %d has form %d, want it given by its fields", i, form)
		}
	}
	other := c
	other.Execution = "y"
	if b.fits(&other) {
		t.Error("another transition fits")
	}
}
