package call

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Memory bounds the bytes that large responses take in a process while they are read and decoded.
// If too little memory is left, a response waits, at most until its call times out. One tenant gets
// at most half. Simulations must not use a Memory, since nothing may block there.
type Memory struct {
	reading, decoding *quota
	readers           atomic.Int32 // of large responses
}

// NewMemory returns a Memory with size bytes for responses and as many again for decoding them, at
// least 32 MiB each.
func NewMemory(size int) *Memory {
	const least = 32 << 20
	size = max(size, least)
	return &Memory{reading: newQuota(size), decoding: newQuota(size)}
}

// Uncounted is the size up to which responses are not counted.
const Uncounted = 64 << 10

// ErrMemory reports a response that waited for memory until its call timed out.
var ErrMemory = errors.New("no memory left for large responses in this process (limit LIMIT_MEMORY)")

// quota is a number of bytes that tenants share. Requests of one tenant are served in order.
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
	ready  chan struct{} // closed once it has its bytes
}

func newQuota(size int) *quota { return &quota{size: size, of: map[string]int{}} }

// reserve takes n bytes for a tenant, or as many as it may have, and returns how many it took.
func (q *quota) reserve(ctx context.Context, tenant string, n int) (int, error) {
	n = min(n, q.size/2)
	if n <= Uncounted {
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
		w.bytes = 0 // no longer waiting
	}
	q.admit()
	return 0, errors.Join(ErrMemory, ctx.Err())
}

// release returns bytes.
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

// admit serves waiting requests that fit.
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

// Reserve returns an empty reservation for the responses to one call of a tenant. The caller
// releases it. A nil Memory has no bound.
func (m *Memory) Reserve(tenant string) *Reservation {
	return &Reservation{memory: m, tenant: tenant}
}

// Reservation is the part of a Memory that one call has reserved.
type Reservation struct {
	memory            *Memory
	tenant            string
	reading, decoding int
}

// Read reserves n bytes for a response.
func (r *Reservation) Read(ctx context.Context, n int) error {
	if r.memory == nil {
		return nil
	}
	got, err := r.memory.reading.reserve(ctx, r.tenant, n)
	r.reading += got
	return err
}

// Fill reads a large answer. It pauses after each portion, longer while others are also being
// read: otherwise responses of fast servers would keep the processors busy while everything else in
// the process waits.
func (r *Reservation) Fill(data *bytes.Buffer, body io.Reader) error {
	if r.memory != nil {
		r.memory.readers.Add(1)
		defer r.memory.readers.Add(-1)
		body = &pacedReader{body: body, readers: &r.memory.readers}
	}
	_, err := data.ReadFrom(body)
	return err
}

type pacedReader struct {
	body    io.Reader
	readers *atomic.Int32
	since   int // bytes read since the last pause
}

func (p *pacedReader) Read(into []byte) (int, error) {
	const portion, pause = 256 << 10, time.Millisecond
	if p.since >= portion {
		p.since = 0
		time.Sleep(pause * time.Duration(p.readers.Load())) //nolint:forbidigo // lets others run, and reads no clock
	}
	n, err := p.body.Read(into[:min(len(into), portion)])
	p.since += n
	return n, err
}

// Decode reserves memory for decoding a response of n bytes.
func (r *Reservation) Decode(ctx context.Context, n int) error {
	const times = 40 // a byte of JSON may take this many in memory
	if r.memory == nil {
		return nil
	}
	got, err := r.memory.decoding.reserve(ctx, r.tenant, times*n)
	r.decoding += got
	return err
}

// Decoded releases memory that only decoding needed.
func (r *Reservation) Decoded() {
	if r.memory != nil {
		r.memory.decoding.release(r.tenant, r.decoding)
		r.decoding = 0
	}
}

// Release returns everything.
func (r *Reservation) Release() {
	if r != nil && r.memory != nil {
		r.Decoded()
		r.memory.reading.release(r.tenant, r.reading)
		r.reading = 0
	}
}
