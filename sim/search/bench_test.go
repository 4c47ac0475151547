package search_test

import (
	"fmt"
	"strings"
	"testing"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// BenchmarkSeeds runs trials of a document of ten steps, three of them waits, with all
// faults at the default rate, and reports seeds per second and core.
func BenchmarkSeeds(b *testing.B) {
	for _, rate := range []uint64{0, 100, 1000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			cfg := sim.Config{Definition: document(b, "bench", tenSteps()), ID: "bench", Processes: 2, Executors: 2}
			faults, runs := 0, 0
			for b.Loop() {
				cfg.Seed++
				cfg.Plan = &sim.Plan{Kinds: sim.Faults(), Rate: rate}
				t, err := sim.Try(b.Context(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				if t.Status != "completed" || len(t.Broken) > 0 {
					b.Fatalf("seed %d: %s %v", cfg.Seed, t.Status, t.Broken)
				}
				faults += len(t.Injected)
				runs++
			}
			b.ReportMetric(float64(runs)/b.Elapsed().Seconds(), "seeds/s")
			b.ReportMetric(float64(faults)/float64(runs), "faults/seed")
		})
	}
}

// BenchmarkSearch runs the default search of flunq sim on a document of ten steps, three
// of them waits, one seed after another.
func BenchmarkSearch(b *testing.B) {
	for _, executions := range []int{1, 10, 100} {
		for _, faults := range []bool{false, true} {
			b.Run(fmt.Sprintf("executions=%d/faults=%v", executions, faults), func(b *testing.B) {
				def := document(b, "bench", tenSteps())
				s := search.Search{
					Config: sim.Config{Definition: def, Processes: 2, Executions: executions}, Rate: 200, Parallel: 1, Singles: 1,
					First: 1, Last: uint64(b.N),
				}
				if faults {
					s.Kinds = sim.Faults()
				}
				b.ResetTimer()
				r, err := s.Run(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				runs := r.Plain + r.Singles + r.Seeds
				b.ReportMetric(float64(runs*executions)/b.Elapsed().Seconds(), "executions/s")
				b.ReportMetric(float64(r.Orders), "orders")
			})
		}
	}
}

func tenSteps() string {
	var doc strings.Builder
	doc.WriteString("do:\n")
	for i := range 10 {
		if i%3 == 2 {
			fmt.Fprintf(&doc, "  - t%d: {wait: P1D}\n", i)
		} else {
			fmt.Fprintf(&doc, "  - t%d: {set: {n: \"${ (.n // 0) + 1 }\"}}\n", i)
		}
	}
	return doc.String()
}
