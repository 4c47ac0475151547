package sim_test

import (
	"fmt"
	"runtime/debug"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// BenchmarkSearch is what flunq sim does by default with a document of ten steps,
// three of them waits, one seed after the other.
func BenchmarkSearch(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(sim.Garbage)) // as flunq sim does
	for _, executions := range []int{1, 10, 100} {
		for _, faults := range []bool{false, true} {
			b.Run(fmt.Sprintf("executions=%d/faults=%v", executions, faults), func(b *testing.B) {
				def, _, err := dsl.Parse("bench.yaml", []byte(head+tenSteps()))
				if err != nil {
					b.Fatal(err)
				}
				s := sim.Search{
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
				perSecond(b, runs*executions, "executions/s")
				b.ReportMetric(float64(r.Orders), "orders")
			})
		}
	}
}
