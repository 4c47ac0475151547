package sim_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

const head = "document: {dsl: '1.0.3', namespace: bench, name: bench, version: '1.0.0'}\n"

// bench simulates a document repeatedly, each time with a different seed.
func bench(b *testing.B, doc, input string, cfg sim.Config) (tasks, runs int) {
	b.Helper()
	def, _, err := dsl.Parse("bench.yaml", []byte(head+doc))
	if err != nil {
		b.Fatal(err)
	}
	cfg.Definition, cfg.Input = def, json.RawMessage(input)
	for b.Loop() {
		cfg.Seed++
		r, err := sim.Run(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		if r.Status != "completed" {
			b.Fatalf("status %s: %v", r.Status, r.Error)
		}
		tasks += r.Tasks
		runs++
	}
	return tasks, runs
}

func perSecond(b *testing.B, n int, unit string) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit)
}

// BenchmarkPureTasks runs a loop of tasks that only compute.
func BenchmarkPureTasks(b *testing.B) {
	tasks, _ := bench(b, `
do:
  - loop:
      for: {in: "[range(1000)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
`, "{}", sim.Config{})
	perSecond(b, tasks, "tasks/s")
}

// BenchmarkDurableSteps runs a loop of tasks that an executor performs.
func BenchmarkDurableSteps(b *testing.B) {
	tasks, _ := bench(b, `
do:
  - loop:
      for: {in: "[range(1000)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
`, "{}", sim.Config{Remote: true})
	perSecond(b, tasks, "steps/s")
}

// BenchmarkWaits runs a loop of waits: each timer is set and fires.
func BenchmarkWaits(b *testing.B) {
	tasks, _ := bench(b, `
do:
  - loop:
      for: {in: "[range(1000)]"}
      do:
        - pause: {wait: PT1H}
`, "{}", sim.Config{})
	perSecond(b, tasks, "waits/s")
}

// BenchmarkWorkflows runs whole simulations of ten tasks and three waits.
func BenchmarkWorkflows(b *testing.B) {
	var doc strings.Builder
	doc.WriteString("do:\n")
	for i := range 10 {
		if i%3 == 2 {
			fmt.Fprintf(&doc, "  - t%d: {wait: P1D}\n", i)
		} else {
			fmt.Fprintf(&doc, "  - t%d: {set: {n: \"${ (.n // 0) + 1 }\"}}\n", i)
		}
	}
	_, runs := bench(b, doc.String(), "{}", sim.Config{})
	perSecond(b, runs, "workflows/s")
}
