// Package queue holds the work of many tenants and lets them take turns.
package queue

import "slices"

// Fair queues the items of several tenants. Items stay in order within each tenant, and
// tenants take turns, so that a long queue does not delay the others. A tenant joins
// behind all others with its first item, and leaves with its last one. The zero value is
// empty and ready to use. It is not safe for concurrent use.
type Fair[T any] struct {
	size  int
	turns []string       // tenants with items, in order of their turns
	items map[string][]T // of these tenants
}

// Size returns the number of items.
func (q *Fair[T]) Size() int { return q.size }

// Tenants returns the tenants with items, in order of their turns. The slice is valid
// until the queue changes; the caller must not change it.
func (q *Fair[T]) Tenants() []string { return q.turns }

// Of returns the items of a tenant, in order. The slice is valid until the queue changes;
// the caller may reorder it.
func (q *Fair[T]) Of(tenant string) []T { return q.items[tenant] }

// All returns the items of all tenants: those of the tenant whose turn it is first.
func (q *Fair[T]) All() (all []T) {
	for _, tenant := range q.turns {
		all = append(all, q.items[tenant]...)
	}
	return all
}

// PushBack appends items to the queue of a tenant and takes ownership of the slice.
func (q *Fair[T]) PushBack(tenant string, items ...T) {
	if len(items) == 0 {
		return
	}
	q.size += len(items)
	if waiting := q.items[tenant]; len(waiting) > 0 {
		items = append(waiting, items...)
	} else {
		q.turns = append(q.turns, tenant)
	}
	q.set(tenant, items)
}

// PushFront puts copies of items before all others of a tenant and makes it the tenant's
// turn.
func (q *Fair[T]) PushFront(tenant string, items ...T) {
	if len(items) == 0 {
		return
	}
	q.size += len(items)
	if at := slices.Index(q.turns, tenant); at >= 0 {
		q.turns = slices.Delete(q.turns, at, at+1)
	}
	q.turns = slices.Insert(q.turns, 0, tenant)
	q.set(tenant, slices.Concat(items, q.items[tenant]))
}

func (q *Fair[T]) set(tenant string, items []T) {
	if q.items == nil {
		q.items = map[string][]T{}
	}
	q.items[tenant] = items
}

// First returns the next item of the first tenant for which may returns true, and makes
// it that tenant's turn. The other tenants keep their order. If may is nil, every tenant
// may. ok is false if there is no such tenant.
func (q *Fair[T]) First(may func(tenant string) bool) (item T, ok bool) {
	for i, tenant := range q.turns {
		if may == nil || may(tenant) {
			copy(q.turns[1:], q.turns[:i])
			q.turns[0] = tenant
			return q.items[tenant][0], true
		}
	}
	return item, false
}

// Pop removes the first item of the tenant whose turn it is. The tenant keeps its turn
// while it has more.
func (q *Fair[T]) Pop() {
	tenant := q.turns[0]
	clear(q.items[tenant][:1]) // so that it can be collected
	if q.items[tenant] = q.items[tenant][1:]; len(q.items[tenant]) == 0 {
		q.leave()
	}
	q.size--
}

// EndTurn moves a tenant behind all others if it is its turn.
func (q *Fair[T]) EndTurn(tenant string) {
	if len(q.turns) > 1 && q.turns[0] == tenant {
		q.turns = append(q.turns[1:], tenant)
	}
}

// Take removes and returns all items of the first tenant for which may returns true, nil
// if there is none. If may is nil, every tenant may.
func (q *Fair[T]) Take(may func(tenant string) bool) []T {
	if _, ok := q.First(may); !ok {
		return nil
	}
	items := q.items[q.turns[0]]
	q.leave()
	q.size -= len(items)
	return items
}

// leave removes the tenant whose turn it is.
func (q *Fair[T]) leave() {
	delete(q.items, q.turns[0])
	q.turns = q.turns[1:]
}

// Drop removes the items for which gone returns true.
func (q *Fair[T]) Drop(gone func(T) bool) {
	old := *q
	*q = Fair[T]{}
	for _, tenant := range old.turns {
		q.PushBack(tenant, slices.DeleteFunc(old.items[tenant], gone)...)
	}
}
