package worker

import "testing"

// The cache holds so many executions, and of large ones fewer: those used last.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const room = 10_000
	c := NewCache(3, room)
	put := func(id string, since int) { c.put("acme", id, &execution{since: since}) }
	for _, id := range []string{"a", "b", "a", "c", "d"} {
		put(id, 0)
	}
	if c.take("acme", "b") != nil {
		t.Error("b is kept, though three others came later")
	}
	if c.take("acme", "a") == nil || c.take("acme", "a") != nil {
		t.Error("a is not handed out once")
	}
	put("e", 8000)
	if c.take("acme", "c") != nil || c.take("acme", "d") != nil || c.take("acme", "e") == nil {
		t.Error("what is large has not taken the place of the others")
	}
	put("f", 2*room)
	if c.take("acme", "f") == nil {
		t.Error("what is larger than all room is not kept until the next")
	}
	if c.size != 0 {
		t.Errorf("%d bytes are left of an empty cache", c.size)
	}
}
