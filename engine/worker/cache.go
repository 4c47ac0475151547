package worker

import (
	"container/list"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// cachedExecution is a state in the memory of a worker.
type cachedExecution struct {
	state         *decide.State
	env           *decide.Env
	definition    string // hash
	snapshot      int64  // version of the snapshot in Redis
	snapshotBytes int    // size of that snapshot
	newBytes      int    // of the history after it

	refused *event.Ended // its end, if it may not start
}

// size estimates the bytes of an execution: its data as JSON, and a fixed overhead.
func (e *cachedExecution) size() int {
	const each = 1024
	return each + e.snapshotBytes + e.newBytes
}

// grown counts entries that were appended to the history.
func (e *cachedExecution) grown(entries []event.Event) {
	for i := range entries {
		e.newBytes += len(entries[i].Data)
	}
}

// Cache keeps the states of executions between their steps, for the workers of one process. It only
// saves work: an entry may be outdated, which the version check of the commit detects.
type Cache struct {
	mu       sync.Mutex
	entries  map[address]*list.Element
	order    *list.List // most recently put first
	size     int        // of all entries, in bytes
	capacity int
	limit    int
}

type cached struct {
	key  address
	x    *cachedExecution
	size int
}

// NewCache returns a cache of up to capacity executions and about limit bytes.
func NewCache(capacity, limit int) *Cache {
	return &Cache{entries: map[address]*list.Element{}, order: list.New(), capacity: capacity, limit: limit}
}

// take removes and returns a state, which the caller then owns, or nil.
func (c *Cache) take(tenant, id string) *cachedExecution {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[address{tenant, id}]
	if element == nil {
		return nil
	}
	return c.remove(element)
}

// put stores a state after its commit.
func (c *Cache) put(tenant, id string, x *cachedExecution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := address{tenant, id}
	if old := c.entries[key]; old != nil {
		c.remove(old)
	}
	entry := cached{key, x, x.size()}
	c.entries[key] = c.order.PushFront(entry)
	c.size += entry.size
	for c.order.Len() > c.capacity || c.order.Len() > 1 && (c.size > c.limit || c.idle(x.state.Now)) {
		c.remove(c.order.Back())
	}
}

// idle reports whether no step has used the oldest state for a minute. Another process may have ended
// that execution. If not, its next step reads it again.
func (c *Cache) idle(now time.Time) bool {
	oldest, ok := c.order.Back().Value.(cached)
	return ok && now.Sub(oldest.x.state.Now) > time.Minute
}

func (c *Cache) remove(element *list.Element) *cachedExecution {
	entry, ok := c.order.Remove(element).(cached)
	if !ok {
		return nil
	}
	delete(c.entries, entry.key)
	c.size -= entry.size
	return entry.x
}
