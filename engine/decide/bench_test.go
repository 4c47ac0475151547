package decide_test

import (
	"encoding/json"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

const looping = `
document: {dsl: '1.0.3', namespace: test, name: looping, version: '1.0.0'}
do:
  - loop:
      for: {in: "[range(1000)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
`

// BenchmarkPureTasks measures tasks that the worker computes, without Redis.
func BenchmarkPureTasks(b *testing.B) {
	def, _, err := dsl.Parse("looping.yaml", []byte(looping))
	if err != nil {
		b.Fatal(err)
	}
	env := decide.NewEnv(def, decide.Options{})
	start := event.Event{
		ID: "x/start", Source: "/test", Type: event.ExecutionStarted, Time: time.Unix(1, 0), Tenant: "acme",
		Workflow: "test.looping", Execution: "x", Data: json.RawMessage(`{"namespace":"test","name":"looping","version":"1.0.0","input":{}}`),
	}
	b.ReportAllocs()
	for tasks := 0; tasks < b.N; { // an operation is one task
		s := decide.New()
		var d decide.Decision
		if _, err := s.Apply(env, start, &d); err != nil {
			b.Fatal(err)
		}
		for s.Ready() {
			if len(d.History) >= 256 {
				d = decide.Decision{History: make([]event.Event, 0, 264)}
			}
			s.Advance(env, &d)
		}
		if s.Status != decide.Completed {
			b.Fatal(s.Status, s.Error)
		}
		tasks += 1000
	}
}
