package worker

import (
	"container/list"
	"sync"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// execution is a state as the worker knows it.
type execution struct {
	state      *decide.State
	env        *decide.Env
	definition string // hash
	kept       int64  // version of the snapshot in Redis
	weight     int    // bytes of that snapshot
	since      int    // bytes of the history behind it

	refused *event.Problem // why it may not begin

	ext map[string]string // of requests, once there was one
}

// size is about how many bytes an execution is: those of its data as JSON, at most,
// and what each one takes.
func (x *execution) size() int {
	const each = 1024
	return each + x.weight + x.since
}

// grown counts entries that an execution has got.
func (x *execution) grown(history []event.Event) {
	for i := range history {
		x.since += len(history[i].Data)
	}
}

// Cache keeps the states of executions between their steps, for the workers of
// one process. It only saves work: what it holds may be outdated, which the
// version check of the commit finds out.
type Cache struct {
	mu       sync.Mutex
	entries  map[address]*list.Element
	order    *list.List // the one that was put last stands in front
	size     int        // of all of them, in bytes
	capacity int
	limit    int
}

type cached struct {
	key  address
	x    *execution
	size int
}

// NewCache keeps up to capacity executions, and up to room bytes of their data, about.
func NewCache(capacity, room int) *Cache {
	return &Cache{entries: map[address]*list.Element{}, order: list.New(), capacity: capacity, limit: room}
}

// take hands out a state, which then belongs to the caller alone; nil if there is none.
func (c *Cache) take(tenant, id string) *execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[address{tenant, id}]
	if element == nil {
		return nil
	}
	return c.remove(element)
}

// put gives a state back, just as it was committed.
func (c *Cache) put(tenant, id string, x *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := address{tenant, id}
	if old := c.entries[key]; old != nil {
		c.remove(old)
	}
	entry := cached{key, x, x.size()}
	c.entries[key] = c.order.PushFront(entry)
	c.size += entry.size
	for c.order.Len() > c.capacity || c.size > c.limit && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *Cache) remove(element *list.Element) *execution {
	entry, ok := c.order.Remove(element).(cached)
	if !ok {
		return nil
	}
	delete(c.entries, entry.key)
	c.size -= entry.size
	return entry.x
}
