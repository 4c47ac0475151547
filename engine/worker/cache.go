package worker

import (
	"container/list"
	"sync"

	"flunq.io/flunq/engine/decide"
)

// execution is a state as the worker knows it.
type execution struct {
	state      *decide.State
	env        *decide.Env
	definition string // hash
	kept       int64  // version of the snapshot in Redis
	weight     int    // bytes of that snapshot

	ext map[string]string // of requests, once there was one
}

// Cache keeps the states of executions between their steps, for the workers of
// one process. It only saves work: what it holds may be outdated, which the
// version check of the commit finds out.
type Cache struct {
	mu       sync.Mutex
	entries  map[address]*list.Element
	order    *list.List // the one that was put last stands in front
	capacity int
}

type cached struct {
	key address
	x   *execution
}

// NewCache keeps up to capacity executions.
func NewCache(capacity int) *Cache {
	return &Cache{entries: map[address]*list.Element{}, order: list.New(), capacity: capacity}
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
	c.entries[key] = c.order.PushFront(cached{key, x})
	if c.order.Len() > c.capacity {
		c.remove(c.order.Back())
	}
}

func (c *Cache) remove(element *list.Element) *execution {
	entry, ok := c.order.Remove(element).(cached)
	if !ok {
		return nil
	}
	delete(c.entries, entry.key)
	return entry.x
}
