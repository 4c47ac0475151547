package expr_test

import (
	"runtime"
	"testing"
	"time"
)

func TestAttackQuick(t *testing.T) {
	for _, src := range attacks {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		v, err := eval(t, src, nil)
		d := time.Since(start)
		runtime.ReadMemStats(&after)
		t.Logf("%-60.60s %8v heap %4d MB total %5d MB  %.60v %.80v", src, d.Round(time.Millisecond), after.HeapSys>>20, (after.TotalAlloc-before.TotalAlloc)>>20, v, err)
	}
}
