package worker

import "testing"

// The cache evicts the least recently used executions, by number and by size.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	c := NewCache(3, limit)
	put := func(id string, bytes int) { c.put("acme", id, &cachedExecution{newBytes: bytes}) }
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
	if c.size != 0 {
		t.Errorf("size of an empty cache is %d bytes", c.size)
	}
}
