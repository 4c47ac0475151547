package executor

import (
	"context"
	"errors"
	"sync"
)

// Memory bounds what large answers take in a process while they are read and decoded.
// One for which there is no room waits, no longer than its call may take: nothing for a
// simulation, in which nothing may wait. One tenant has at most half of it.
type Memory struct {
	reading, decoding *quota
}

// NewMemory returns a Memory for that many bytes of answers, and as much for what they are
// decoded to, 32 MiB each at least.
func NewMemory(size int) *Memory {
	const least = 32 << 20
	size = max(size, least)
	return &Memory{newQuota(size), newQuota(size)}
}

// small is what is not counted.
const small = 64 << 10

// errMemory is of an answer for which there was no room in time.
var errMemory = errors.New("no room among the large answers that the process reads at once (limit LIMIT_MEMORY)")

// quota is bytes that tenants share. Those of one tenant wait in their order.
type quota struct {
	size int

	mu      sync.Mutex
	used    int
	of      map[string]int
	waiting []*waiter
}

type waiter struct {
	tenant string
	bytes  int
	ready  chan struct{} // closed once it has what it waits for
}

func newQuota(size int) *quota { return &quota{size: size, of: map[string]int{}} }

// reserve takes n bytes for a tenant, or what it may have at most, and returns how many.
func (q *quota) reserve(ctx context.Context, tenant string, n int) (int, error) {
	n = min(n, q.size/2)
	if n <= small {
		return 0, nil
	}
	w := &waiter{tenant, n, make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.admit()
	q.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.ready:
		q.free(tenant, n)
	default:
		w.bytes = 0 // it waits no more
	}
	q.admit()
	return 0, errors.Join(errMemory, ctx.Err())
}

// release gives bytes back.
func (q *quota) release(tenant string, n int) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(tenant, n)
	q.admit()
}

func (q *quota) free(tenant string, n int) {
	q.used -= n
	if q.of[tenant] -= n; q.of[tenant] == 0 {
		delete(q.of, tenant)
	}
}

// admit lets those go on for whom there is room.
func (q *quota) admit() {
	behind := map[string]bool{}
	rest := q.waiting[:0]
	for _, w := range q.waiting {
		switch {
		case w.bytes == 0:
		case !behind[w.tenant] && q.used+w.bytes <= q.size && q.of[w.tenant]+w.bytes <= q.size/2:
			q.used += w.bytes
			q.of[w.tenant] += w.bytes
			close(w.ready)
		default:
			behind[w.tenant] = true
			rest = append(rest, w)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
}

// reservation is what one call has of a Memory.
type reservation struct {
	memory            *Memory
	tenant            string
	reading, decoding int
}

// read reserves room for n bytes of an answer.
func (h *reservation) read(ctx context.Context, n int) error {
	if h.memory == nil {
		return nil
	}
	got, err := h.memory.reading.reserve(ctx, h.tenant, n)
	h.reading += got
	return err
}

// decode reserves room for what an answer of n bytes may be decoded to.
func (h *reservation) decode(ctx context.Context, n int) error {
	const times = 40 // a byte of JSON may take as many in memory
	if h.memory == nil {
		return nil
	}
	got, err := h.memory.decoding.reserve(ctx, h.tenant, times*n)
	h.decoding += got
	return err
}

// decoded gives back what only decoding took.
func (h *reservation) decoded() {
	if h.memory != nil {
		h.memory.decoding.release(h.tenant, h.decoding)
		h.decoding = 0
	}
}

// release gives all back.
func (h *reservation) release() {
	if h != nil && h.memory != nil {
		h.decoded()
		h.memory.reading.release(h.tenant, h.reading)
		h.reading = 0
	}
}
