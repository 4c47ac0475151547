// Package queue holds the work of many tenants and lets them take turns.
package queue

import "slices"

// Fair queues the items of several tenants. The items of a tenant stay in order, and tenants take
// turns so that a long queue does not delay the others. A tenant joins at the end of the turns with
// its first item, and leaves with its last. The zero value is an empty queue. It is not safe for
// concurrent use.
type Fair[T any] struct {
	size  int
	turns []string       // tenants with items, in order of their turns
	items map[string][]T // of these tenants
}

// Size returns the number of items.
func (f *Fair[T]) Size() int { return f.size }

// Tenants returns the tenants with items, in order of their turns. The slice is valid
// until the queue changes; the caller must not change it.
func (f *Fair[T]) Tenants() []string { return f.turns }

// Of returns the items of a tenant, in order. The slice is valid until the queue changes;
// the caller may reorder it.
func (f *Fair[T]) Of(tenant string) []T { return f.items[tenant] }

// All returns the items of all tenants, in order of their turns.
func (f *Fair[T]) All() (all []T) {
	for _, tenant := range f.turns {
		all = append(all, f.items[tenant]...)
	}
	return all
}

// PushBack appends items to the queue of a tenant and takes ownership of the slice.
func (f *Fair[T]) PushBack(tenant string, items ...T) {
	if len(items) == 0 {
		return
	}
	f.size += len(items)
	if waiting := f.items[tenant]; len(waiting) > 0 {
		items = append(waiting, items...)
	} else {
		f.turns = append(f.turns, tenant)
	}
	f.set(tenant, items)
}

// PushFront inserts copies of items at the front of a tenant's queue, and gives the tenant the turn.
func (f *Fair[T]) PushFront(tenant string, items ...T) {
	if len(items) == 0 {
		return
	}
	f.size += len(items)
	if at := slices.Index(f.turns, tenant); at >= 0 {
		f.turns = slices.Delete(f.turns, at, at+1)
	}
	f.turns = slices.Insert(f.turns, 0, tenant)
	f.set(tenant, slices.Concat(items, f.items[tenant]))
}

func (f *Fair[T]) set(tenant string, items []T) {
	if f.items == nil {
		f.items = map[string][]T{}
	}
	f.items[tenant] = items
}

// First returns the next item of the first tenant that may accepts, and gives that tenant the turn.
// The other tenants keep their order. A nil may accepts every tenant. ok is false if there is no such
// tenant.
func (f *Fair[T]) First(may func(tenant string) bool) (item T, ok bool) {
	for i, tenant := range f.turns {
		if may == nil || may(tenant) {
			copy(f.turns[1:], f.turns[:i])
			f.turns[0] = tenant
			return f.items[tenant][0], true
		}
	}
	return item, false
}

// Pop removes the first item of the tenant whose turn it is. The tenant keeps its turn while it has
// more items.
func (f *Fair[T]) Pop() {
	tenant := f.turns[0]
	clear(f.items[tenant][:1]) // so that it can be garbage-collected
	if f.items[tenant] = f.items[tenant][1:]; len(f.items[tenant]) == 0 {
		f.leave()
	}
	f.size--
}

// EndTurn moves a tenant to the end if it has the turn.
func (f *Fair[T]) EndTurn(tenant string) {
	if len(f.turns) > 1 && f.turns[0] == tenant {
		f.turns = append(f.turns[1:], tenant)
	}
}

// Take removes and returns all items of the first tenant that may accepts; nil if there is none. A
// nil may accepts every tenant.
func (f *Fair[T]) Take(may func(tenant string) bool) []T {
	if _, ok := f.First(may); !ok {
		return nil
	}
	items := f.items[f.turns[0]]
	f.leave()
	f.size -= len(items)
	return items
}

// leave removes the tenant whose turn it is.
func (f *Fair[T]) leave() {
	delete(f.items, f.turns[0])
	f.turns = f.turns[1:]
}

// Drop removes the items for which drop returns true.
func (f *Fair[T]) Drop(drop func(T) bool) {
	old := *f
	*f = Fair[T]{}
	for _, tenant := range old.turns {
		f.PushBack(tenant, slices.DeleteFunc(old.items[tenant], drop)...)
	}
}
