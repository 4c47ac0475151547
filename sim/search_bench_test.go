package sim_test

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// BenchmarkSeeds is trials of a document of ten steps, three of them waits, with
// all faults at the usual rate: how many seeds a core tries in a second.
func BenchmarkSeeds(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(sim.Garbage)) // as flunq sim does
	for _, rate := range []uint64{0, 100, 1000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			def, _, err := dsl.Parse("bench.yaml", []byte(head+tenSteps()))
			if err != nil {
				b.Fatal(err)
			}
			cfg := sim.Config{Definition: def, ID: "bench", Processes: 2, Executors: 2}
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
				faults += len(t.Struck)
				runs++
			}
			perSecond(b, runs, "seeds/s")
			b.ReportMetric(float64(faults)/float64(runs), "faults/seed")
		})
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
