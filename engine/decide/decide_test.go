package decide_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

var update = flag.Bool("update", false, "write what happened into the cases")

// A case is a document, the events from outside, and the history that follows. In every
// case, the state rebuilt from the history and the state restored from a snapshot equal
// the live one.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, section(archive, "workflow.yaml"), section(archive, "events.jsonl"))
			if *update {
				setSection(archive, "history.jsonl", got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(section(archive, "history.jsonl")), string(got)); diff != "" {
				t.Errorf("history differs (-want +got, -update rewrites it):\n%s", diff)
			}
		})
	}
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func setSection(a *txtar.Archive, name string, data []byte) {
	for i, f := range a.Files {
		if f.Name == name {
			a.Files[i].Data = data
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: data})
}

// input is a line of events.jsonl.
type input struct {
	At   string          `json:"at"` // since the start of the execution
	Type event.Type      `json:"type"`
	Task string          `json:"task"`
	Fire string          `json:"fire"` // the kind of the task's pending timer that fires
	Data json.RawMessage `json:"data"`
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// play applies the events to an execution of the document, and returns its history.
func play(t *testing.T, doc, events []byte) []byte {
	t.Helper()
	def, _, err := dsl.Parse("workflow.yaml", doc)
	if err != nil {
		t.Fatal(err)
	}
	env := decide.NewEnv(def, decide.Options{Secrets: map[string]any{"vault": map[string]any{"token": "tok-secret"}}})
	state := decide.New()
	var history []event.Event
	lines := bufio.NewScanner(bytes.NewReader(events))
	for n := 0; lines.Scan(); n++ {
		var in input
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			t.Fatalf("events.jsonl:%d: %v", n+1, err)
		}
		var d decide.Decision
		if _, err := state.Apply(env, eventOf(t, state, in, n), &d); err != nil {
			t.Fatalf("events.jsonl:%d: %v", n+1, err)
		}
		for state.Ready() {
			state = restored(t, env, state) // as after a crash of the worker between two commits
			state.Advance(env, &d)
		}
		history = append(history, d.History...)
		state = restored(t, env, state)
	}
	rebuilt, err := decide.Rebuild(env, history)
	if err != nil {
		t.Fatalf("rebuild: %v", err)
	}
	if diff := cmp.Diff(snapshot(t, state), snapshot(t, rebuilt)); diff != "" {
		t.Errorf("the rebuilt state differs (-kept +rebuilt):\n%s", diff)
	}
	return lineByLine(history)
}

// eventOf returns the event that a line of a case stands for.
func eventOf(t *testing.T, state *decide.State, in input, n int) event.Event {
	t.Helper()
	after, err := time.ParseDuration(in.At)
	if err != nil {
		t.Fatal(err)
	}
	e := event.Event{
		ID: fmt.Sprintf("in-%d", n), Source: "/test", Type: event.Prefix + in.Type, Time: start.Add(after),
		Tenant: "default", Workflow: "test.case", Execution: "x", Task: in.Task, Data: in.Data,
	}
	switch {
	case in.Fire != "":
		e.Type = event.TimerFired
		e.Data = event.Encode(event.Fired{Timer: pending(t, state, in), ScheduledFor: e.Time, FiredAt: e.Time})
	case in.Type == "event.received":
		e.ID = "/test " + e.ID
	}
	return e
}

// pending returns the timer that a line names.
func pending(t *testing.T, state *decide.State, in input) event.Timer {
	t.Helper()
	if in.Task == "" && state.Timeout != nil {
		return *state.Timeout
	}
	for _, n := range state.Open() {
		for _, timer := range n.Timers {
			if timer.TaskID == in.Task && string(timer.Kind)+timer.Key == in.Fire {
				return timer
			}
		}
	}
	t.Fatalf("task %s has no timer %s", in.Task, in.Fire)
	return event.Timer{}
}

func restored(t *testing.T, env *decide.Env, s *decide.State) *decide.State {
	t.Helper()
	want := snapshot(t, s)
	out, err := decide.Restore(env, []byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, snapshot(t, out)); diff != "" {
		t.Errorf("the restored state differs (-kept +restored):\n%s", diff)
	}
	return out
}

func snapshot(t *testing.T, s *decide.State) string {
	t.Helper()
	out, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// lineByLine formats a history, a line for each event.
func lineByLine(history []event.Event) []byte {
	var out bytes.Buffer
	for i, e := range history {
		fmt.Fprintf(&out, "%d +%s %s", i+1, e.Time.Sub(start), strings.TrimPrefix(string(e.Type), event.Prefix))
		if e.Task != "" {
			fmt.Fprintf(&out, " %s", e.Task)
		}
		fmt.Fprintf(&out, " %s\n", e.Data)
	}
	return out.Bytes()
}

// Wrong data of other programs is described in terms of JSON, not of Go.
func TestWrongData(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"error": "no"}`: "error is string, want object", `[]`: "it is array, want object", `{"success": 1}`: "success is number, want boolean",
		`{"error": {"status": "500"}}`: "error.status is string, want integer",
	} {
		err := decide.DecodeData(event.Event{ID: "7", Type: event.TaskCompleted, Data: []byte(data)}, &event.Completed{})
		if want = "data of event 7 (io.flunq.task.completed): " + want; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", data, err, want)
		}
	}
}
