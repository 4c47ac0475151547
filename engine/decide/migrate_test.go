package decide_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

func envOf(t *testing.T, do string) *decide.Env {
	t.Helper()
	def, _, err := dsl.Parse("case.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\n"+do))
	if err != nil {
		t.Fatal(err)
	}
	return decide.NewEnv(def, decide.Options{})
}

// An execution continues with another document as if it had always run with it, and only
// if its history so far would be the same.
func TestMigrate(t *testing.T) {
	t.Parallel()
	const first = "  - note: {set: {n: 1}}\n"
	old := envOf(t, "do:\n"+first+"  - paid: {listen: {to: {one: {with: {type: com.x.paid}}}}}\n  - end: {set: {by: old}}\n")
	history := began(t, old)
	e := event.Event{
		ID: "m", Source: "/test", Type: event.ExecutionMigrated, Time: start.Add(time.Second), Tenant: "default", Workflow: "test.case",
		Execution: "x", Data: event.Encode(event.Migrated{By: "ada@laptop"}),
	}
	for name, c := range map[string]struct {
		do        string
		diverges  int64 // 0 means that the document fits
		listening []string
	}{
		"later":      {first + "  - paid: {listen: {to: {one: {with: {type: com.x.paid}}}}}\n  - end: {set: {by: new}}\n", 0, []string{"com.x.paid"}},
		"other type": {first + "  - paid: {listen: {to: {any: [{with: {type: com.x.payed}}, {with: {subject: a}}]}}}\n", 0, []string{"*"}},
		"exported": {"  - note: {set: {n: 1}, export: {as: '${ {m: .n} }'}}\n" +
			"  - paid: {listen: {to: {one: {with: {type: com.x.paid}}}}}\n", 0, []string{"com.x.paid"}},
		"another task": {first + "  - more: {set: {n: 2}}\n  - paid: {listen: {to: {one: {with: {type: com.x.paid}}}}}\n", 4, nil},
		"no listening": {first, 4, nil},
		"a time limit": {first + "  - paid: {listen: {to: {one: {with: {type: com.x.paid}}}}, timeout: {after: PT1M}}\n", 5, nil},
		"no such task": {"  - other: {set: {n: 1}}\n", 2, nil},
	} {
		env := envOf(t, "do:\n"+c.do)
		var d decide.Decision
		state := decide.New()
		err := state.Replay(env, history)
		var next *decide.State
		if err == nil {
			next, err = state.Migrate(env, e, &d)
		}
		div, diverges := errors.AsType[*decide.Divergence](err)
		switch {
		case c.diverges > 0:
			if !diverges || div.Version != c.diverges {
				t.Errorf("%s: %v, want a divergence at version %d", name, err, c.diverges)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := next.Needs(env).Listen; !slices.Equal(got, c.listening) {
			t.Errorf("%s: listens for %v, want %v", name, got, c.listening)
		}
		rebuilt, err := decide.Rebuild(env, append(slices.Clone(history), d.History...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(snapshot(t, next), snapshot(t, rebuilt)); diff != "" {
			t.Errorf("%s: rebuilt, it differs:\n%s", name, diff)
		}
	}
}

// began returns the history of an execution up to the point where it waits.
func began(t *testing.T, env *decide.Env) (history []event.Event) {
	t.Helper()
	state := decide.New()
	var d decide.Decision
	_, err := state.Apply(env, event.Event{
		ID: "start", Source: "/test", Type: event.ExecutionStarted, Time: start, Tenant: "default", Workflow: "test.case", Execution: "x",
		Data: event.Encode(event.Started{Namespace: "test", Name: "case", Version: "1.0.0", Input: []byte("{}")}),
	}, &d)
	for err == nil && state.Ready() {
		state.Advance(env, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.History
}
