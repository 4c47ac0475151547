package decide_test

import (
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// A loop that exceeds a limit, of entries or of bytes, ends with an error that names the
// task and the limit. A rebuild of its history ends the same way, whatever the configured
// limits are.
func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("loop.yaml", []byte(`document: {dsl: '1.0.3', namespace: test, name: loop, version: '1.0.0'}
do:
  - first: {set: {text: some text of some length}}
  - again: {set: {n: 1}, then: first}
`))
	if err != nil {
		t.Fatal(err)
	}
	for part, change := range map[string]func(*decide.Limits){
		"limit LIMIT_HISTORY)":     func(l *decide.Limits) { l.History = 100 },
		"limit LIMIT_HISTORY_MIB)": func(l *decide.Limits) { l.HistoryBytes = 10_000 },
	} {
		limits := decide.DefaultLimits()
		change(&limits)
		env := decide.NewEnv(def, decide.Options{Limits: limits})
		var d decide.Decision
		st := decide.New()
		start := event.Event{
			ID: "x/start", Type: event.ExecutionStarted, Time: time.Unix(0, 0).UTC(), Tenant: "default", Workflow: "test.loop", Execution: "x",
			Data: []byte(`{"namespace":"test","name":"loop","version":"1.0.0","input":{}}`),
		}
		if _, err := st.Apply(env, env.Begin(start), &d); err != nil {
			t.Fatal(err)
		}
		for st.Ready() {
			st.Advance(env, &d)
		}
		if st.Status != decide.Faulted || !strings.Contains(st.Error.Detail, part) || !strings.Contains(st.Error.Detail, `the next task is "`) {
			t.Errorf("%s, %v: want a fault with %q", st.Status, st.Error, part)
		}
		if n := len(d.History); n < 90 || n > 110 {
			t.Errorf("%s: the history has %d entries", part, n)
		}
		rebuilt, err := decide.Rebuild(decide.NewEnv(def, decide.Options{Limits: decide.DefaultLimits()}), d.History)
		if err != nil || rebuilt.Bytes != st.Bytes || rebuilt.Status != st.Status {
			t.Errorf("rebuilt: %v", err)
		}
	}
}
