package queue_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/queue"
)

// Items are written as a tenant's letter and a number.
func push(q *queue.Fair[string], items ...string) {
	for _, item := range items {
		q.PushBack(item[:1], item)
	}
}

func only(tenants string) func(string) bool {
	return func(tenant string) bool { return strings.Contains(tenants, tenant) }
}

// Each case changes a queue. The items that are left are then served one by one: tenants
// take turns, and each tenant's items keep their order.
func TestFair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with   string
		change func(t *testing.T, q *queue.Fair[string])
		all    string
		served string
	}{
		"untouched": {
			with: "a1 a2 a3 b1 c1 c2",
			all:  "a1 a2 a3 b1 c1 c2", served: "a1 b1 c1 a2 c2 a3",
		},
		"empty": {change: func(t *testing.T, q *queue.Fair[string]) {
			if _, ok := q.First(nil); ok || q.Take(nil) != nil {
				t.Error("an empty queue has items")
			}
			q.PushBack("a")
			q.PushFront("a")
		}},
		"a tenant that returns waits behind the others": {
			with: "a1 b1 b2 c1",
			change: func(_ *testing.T, q *queue.Fair[string]) {
				q.Pop()
				push(q, "a2")
			},
			all: "b1 b2 c1 a2", served: "b1 c1 a2 b2",
		},
		"a turn may be longer than one item": {
			with: "a1 a2 a3 b1 c1 c2",
			change: func(_ *testing.T, q *queue.Fair[string]) {
				q.Pop()
				q.Pop()
				q.EndTurn("a")
				q.EndTurn("a") // it is b's turn now
				q.Pop()        // all that b has
				q.EndTurn("b")
			},
			all: "c1 c2 a3", served: "c1 a3 c2",
		},
		"items that come back are first": {
			with: "a1 b1 b2 c1",
			change: func(_ *testing.T, q *queue.Fair[string]) {
				q.PushFront("b", "b8", "b9")
				q.PushFront("d", "d1")
			},
			all: "d1 b8 b9 b1 b2 a1 c1", served: "d1 b8 a1 c1 b9 b1 b2",
		},
		"items that come back at the end of a turn": {
			with: "a1 b1 b2",
			change: func(_ *testing.T, q *queue.Fair[string]) {
				q.PushFront("b", "b0")
				q.EndTurn("b")
			},
			all: "a1 b0 b1 b2", served: "a1 b0 b1 b2",
		},
		"a tenant that may not begin keeps its place": {
			with: "a1 b1 c1 c2 d1",
			change: func(t *testing.T, q *queue.Fair[string]) {
				if item, ok := q.First(only("dc")); !ok || item != "c1" {
					t.Errorf("the first item of c and d is %q, want c1", item)
				}
				if item, ok := q.First(only("x")); ok {
					t.Errorf("the first item of x is %q", item)
				}
			},
			all: "c1 c2 a1 b1 d1", served: "c1 a1 b1 d1 c2",
		},
		"all of a tenant": {
			with: "a1 b1 b2 c1 b3",
			change: func(t *testing.T, q *queue.Fair[string]) {
				if got := strings.Join(q.Take(only("bc")), " "); got != "b1 b2 b3" {
					t.Errorf("took %s, want b1 b2 b3", got)
				}
				if got := q.Take(only("b")); got != nil {
					t.Errorf("took %v of a tenant without items", got)
				}
				push(q, "b4")
			},
			all: "a1 c1 b4", served: "a1 c1 b4",
		},
		"dropped items": {
			with: "a1 a2 b1 c1 c2",
			change: func(_ *testing.T, q *queue.Fair[string]) {
				q.Drop(func(item string) bool { return item[1] == '1' })
			},
			all: "a2 c2", served: "a2 c2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q queue.Fair[string]
			push(&q, strings.Fields(c.with)...)
			if c.change != nil {
				c.change(t, &q)
			}
			all := q.All()
			if got := strings.Join(all, " "); got != c.all || q.Size() != len(all) {
				t.Errorf("%d items are left: %s, want %s", q.Size(), got, c.all)
			}
			var served []string
			for item, ok := q.First(nil); ok; item, ok = q.First(nil) {
				tenant := q.Tenants()[0]
				if len(q.Of(tenant)) == 0 || q.Of(tenant)[0] != item {
					t.Errorf("%s has %v, want %s first", tenant, q.Of(tenant), item)
				}
				served = append(served, item)
				q.Pop()
				q.EndTurn(tenant)
			}
			if got := strings.Join(served, " "); got != c.served || q.Size() != 0 || len(q.Tenants()) != 0 {
				t.Errorf("served %s, want %s; %d are left", got, c.served, q.Size())
			}
		})
	}
}
