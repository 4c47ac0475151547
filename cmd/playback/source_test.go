package playback_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/tui"
)

// A playback implements the interfaces of the screen.
var (
	_ tui.Source    = (*playback.Playback)(nil)
	_ tui.TimeMover = (*playback.Playback)(nil)
)

// The data of events is available once they have happened.
func TestDataOfTasks(t *testing.T) {
	t.Parallel()
	r := example(t, "checkout")
	f := r.at(len(r.events) - 1)
	last := int64(len(r.events) - 1)
	for version := range last {
		got := ok(f.Data(t.Context(), "run-1", version+1))
		if want := string(r.events[version].Data); got != want {
			t.Errorf("data of event %d is %s, want %s", version+1, got, want)
		}
	}
	for _, version := range []int64{-1, 0, last + 1} {
		if _, err := f.Data(t.Context(), "run-1", version); err == nil {
			t.Errorf("event %d has data", version)
		}
	}
	if _, err := f.Execution(t.Context(), "run-2"); err == nil || !strings.Contains(err.Error(), "has not begun") {
		t.Errorf("an execution that there is not: %v", err)
	}
	if _, err := f.Detail(t.Context(), tui.Timers, "run-1/1"); err == nil {
		t.Error("an event is a timer")
	}
}

// Pages contain the matching rows and follow each other without gaps.
func TestPages(t *testing.T) {
	t.Parallel()
	r := counting(t, 200)
	f := r.at(len(r.events))
	q := tui.Query{Table: tui.Events, Filter: tui.ParseFilter(tui.Events, "kind:task.completed task:keep"), Limit: 30}
	seen := map[string]bool{}
	for pages := 0; ; pages++ {
		page := ok(f.Page(t.Context(), q))
		for _, row := range page.Rows {
			if seen[row.ID] || row.Kind != "task.completed" {
				t.Fatalf("page %d has %+v", pages, row)
			}
			seen[row.ID] = true
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(seen) != 200 {
		t.Errorf("there are %d rows, want 200", len(seen))
	}
	for _, after := range []string{"x", "-1", "1/x"} {
		for _, table := range []tui.Table{tui.Executions, tui.Timers, tui.Events} {
			if _, err := f.Page(t.Context(), tui.Query{Table: table, After: after, Limit: 1}); err == nil && (table != tui.Timers || after != "1/2") {
				t.Errorf("table %d goes on behind %q", table, after)
			}
		}
	}
}

// Actions are refused with a reason, except that a recording can be written at the end.
func TestActions(t *testing.T) {
	t.Parallel()
	r := example(t, "checkout")
	var wrote []string
	r.opts.Record = func(file string) error {
		wrote = append(wrote, file)
		return nil
	}
	w := newWatch()
	r.opts.Now = w.Now
	f := playback.New(r.opts)
	f.Append(r.events)
	for _, verb := range []tui.Verb{tui.Cancel, tui.Fire, tui.Emit, tui.Retry, tui.Drop} {
		a := tui.Action{Verb: verb, IDs: []string{"run-1"}}
		if _, err := f.Plan(t.Context(), a); err == nil || err.Error() != r.opts.Still {
			t.Errorf("%s: plan says %v, want %q", verb, err, r.opts.Still)
		}
		if _, err := f.Do(t.Context(), a); err == nil {
			t.Errorf("%s was done", verb)
		}
	}
	record := tui.Action{Verb: tui.Record}
	if _, err := f.Plan(t.Context(), record); err == nil {
		t.Error("a recording can be written before the end")
	}
	f.End()
	if plan := ok(f.Plan(t.Context(), record)); !strings.Contains(plan.Lines[0], "run-1.jsonl") || len(wrote) > 0 {
		t.Errorf("the plan is %q, wrote %q", plan.Lines, wrote)
	}
	record.Text = "x.jsonl"
	if said := ok(f.Do(t.Context(), record)); !strings.Contains(said, "x.jsonl") || len(wrote) != 1 {
		t.Errorf("said %q, wrote %q", said, wrote)
	}
	r.opts.Record = func(string) error { return errors.New("the disk is full") }
	full := playback.New(r.opts)
	full.Append(r.events)
	full.End()
	if _, err := full.Do(t.Context(), record); err == nil {
		t.Error("it was written to a disk that is full")
	}
}

// Decisions use secrets, but these are not shown.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	def := parsed(t, "secret.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: secret, version: 1.0.0}
use: {secrets: [password]}
do:
  - leak: {set: {is: '${ $secrets.password }'}, export: {as: '${ {kept: $secrets.password} }'}}
  - fail: {raise: {error: {type: 'https://x.example/e', status: 400, title: '${ "it is " + $secrets.password }'}}}
`))
	cfg := sim.Config{Definition: def, Start: sim.Epoch(), ID: "run-1", Secrets: map[string]any{"password": secret}}
	r := simulated(t, cfg)
	r.opts.Decide.Secrets = cfg.Secrets
	r.opts.Redact = func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(secret), []byte("***")) }
	holds := func(e event.Event) bool { return bytes.Contains(e.Data, []byte(secret)) }
	if !slices.ContainsFunc(r.events, holds) {
		t.Fatal("the secret is not part of the history")
	}
	for n := 1; n <= len(r.events); n++ {
		f := r.at(n)
		if text := everything(t, f); strings.Contains(text, secret) {
			t.Errorf("after event %d it is shown: %s", n, text)
		}
		if data := ok(f.Data(t.Context(), "run-1", int64(n))); strings.Contains(data, secret) {
			t.Errorf("event %d: it is shown in %s", n, data)
		}
		if x := ok(f.Execution(t.Context(), "run-1")); x.Problem != "" {
			t.Errorf("event %d: %s", n, x.Problem)
		}
	}
}

// An event that a replay would not produce is reported and shown anyway.
func TestWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	r := example(t, "reminder")
	for i, e := range r.events {
		if e.Type == event.TimerScheduled {
			r.events[i].Data = bytes.ReplaceAll(e.Data, []byte("waitTheRest"), []byte("waitTheRust"))
		}
	}
	f := r.at(len(r.events))
	x := ok(f.Execution(t.Context(), "run-1"))
	if !strings.Contains(x.Problem, "diverges") || x.State != tui.Completed || x.Version != int64(len(r.events)) {
		t.Errorf("%s at version %d, problem %q", x.State, x.Version, x.Problem)
	}
	f.Differs("run-1", "it differs here")
	if x = ok(f.Execution(t.Context(), "run-1")); x.Problem != "it differs here" {
		t.Errorf("problem %q", x.Problem)
	}
	f.At(3, r.opts.Start)
	if x = ok(f.Execution(t.Context(), "run-1")); x.Problem != "" {
		t.Errorf("before the difference there is a problem: %q", x.Problem)
	}
}
