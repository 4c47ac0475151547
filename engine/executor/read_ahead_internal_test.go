package executor

import "testing"

// An executor asks for about two calls per idle executor, and for more only if calls are
// short. Other events cost nothing.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	const limit = 100
	var r readAhead
	want := func(what string, idle, executors, from, to int) {
		t.Helper()
		if n := r.count(idle, executors, limit); n < from || n > to {
			t.Errorf("%d %s, want %d to %d", n, what, from, to)
		}
	}
	want("at first", 16, 16, 32, 32)
	r.saw(32, 0, 1)
	want("where none was a call", 16, 16, limit, limit)
	r.saw(200, 0, 20)
	want("of each of twenty tenants, where none was a call", 16, 16, limit, limit)
	for range 5 {
		r.saw(40, 40, 1)
	}
	want("where all are calls", 16, 16, 32, 40)
	want("for one", 1, 16, minEvents, minEvents)
	for range 6 {
		r.saw(40, 10, 1)
	}
	want("where a quarter are calls", 4, 16, 26, 36)
	r.saw(0, 0, 1)
	want("after a read of nothing", 4, 16, 26, 36)
	r.saw(40, 10, 4)
	want("of each of four tenants", 4, 16, 6, 9)
	r.saw(40, 10, 500)
	want("of each of many tenants", 4, 16, 2, 2)
	r.saw(40, 10, 1)
	r.took(5)
	want("where they are short", 4, 16, 64, 80)
	for range 20 {
		r.took(1000)
	}
	want("where they are long again", 4, 16, 26, 36)
}
