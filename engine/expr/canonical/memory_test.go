package canonical_test

import (
	"runtime"
	"strings"
	"testing"

	"flunq.io/flunq/engine/expr/canonical"
)

// External data is decoded up to a memory limit, whatever its form, and takes about as much memory as
// is counted.
func TestDecodeForeignBoundsMemory(t *testing.T) {
	list := func(item string, n int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]")
	}
	if _, err := canonical.DecodeForeign(list("{}", 1_000_000)); err == nil || !strings.Contains(err.Error(), "limit json-memory") {
		t.Errorf("a million objects: %v", err)
	}
	if _, err := canonical.DecodeForeign(list("1", 2_000_000)); err != nil {
		t.Errorf("two million numbers: %v", err)
	}
	for _, item := range []string{"{}", "[]", `{"":0}`, "1000", "1.5", `"x"`, "null", `{"a":1,"b":2,"c":{"d":[]}}`, strings.Repeat(`{"":`, 100) + "0" + strings.Repeat("}", 100)} {
		small := list(item, 1<<18/len(item))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		v, err := canonical.DecodeForeign(small)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		_, counted := canonical.Measure(v)
		took := int(after.HeapAlloc) - int(before.HeapAlloc)
		if took > counted*3/2+1<<20 {
			t.Errorf("%.20s: took %d bytes, counted %d", item, took, counted)
		}
		runtime.KeepAlive(v)
	}
}
