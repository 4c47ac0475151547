package worker

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
)

// The cache evicts the least recently used executions, by number, by size and by age.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	c := NewCache(3, limit)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	put := func(id string, bytes int) {
		c.put("acme", id, &cachedExecution{state: &decide.State{Now: now}, newBytes: bytes})
	}
	for _, id := range []string{"a", "b", "a", "c", "d"} {
		put(id, 0)
	}
	if c.take("acme", "b") != nil {
		t.Error("b is still cached after three others")
	}
	if c.take("acme", "a") == nil || c.take("acme", "a") != nil {
		t.Error("a is not returned exactly once")
	}
	put("e", 8000)
	if c.take("acme", "c") != nil || c.take("acme", "d") != nil || c.take("acme", "e") == nil {
		t.Error("a large execution has not evicted the others")
	}
	put("f", 2*limit)
	if c.take("acme", "f") == nil {
		t.Error("an execution larger than the cache is not kept until the next put")
	}
	put("g", 0)
	now = now.Add(30 * time.Second)
	put("h", 0)
	now = now.Add(31 * time.Second)
	put("i", 0)
	if c.take("acme", "g") != nil || c.take("acme", "h") == nil || c.take("acme", "i") == nil {
		t.Error("an execution has not been evicted after a minute, or others were")
	}
	if c.size != 0 {
		t.Errorf("size of an empty cache is %d bytes", c.size)
	}
}
