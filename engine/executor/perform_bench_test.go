package executor_test

import (
	"fmt"
	"testing"

	"flunq.io/flunq/engine/store/redistest"
)

// BenchmarkCompute measures a task that only computes, from its request to its reply.
func BenchmarkCompute(b *testing.B) {
	s := newSite(b, redistest.Start(b), 1, 0)
	const batch = 100
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range batch {
			s.request(b, fmt.Sprint("q", i), setTask)
		}
		b.StartTimer()
		for range 3 {
			s.step(b, 0)
		}
		done += batch
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/task")
}
