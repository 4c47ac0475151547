package sim

import (
	"bytes"
	"io"
	"net/http"
	"time"

	httpcall "flunq.io/flunq/engine/executor/http"
)

// calls tracks requests that really go out. Each runs on its own goroutine while its
// service waits; the virtual clock advances by the time they take.
type calls struct {
	sched   *scheduler
	next    http.RoundTripper
	open    int
	since   time.Time // when the clock began to wait for them, in real time
	back    chan *outgoing
	arrived []*outgoing
	end     chan struct{}
}

// outgoing is a call that a service waits for.
type outgoing struct {
	service  *service
	response *http.Response
	err      error
}

func newCalls(sched *scheduler, next http.RoundTripper) *calls {
	return &calls{sched: sched, next: httpcall.Outward(next), back: make(chan *outgoing), end: make(chan struct{})}
}

// RoundTrip sends a request and lets other services run until the response arrives.
func (c *calls) RoundTrip(req *http.Request) (*http.Response, error) {
	s := c.sched.current
	if s == nil {
		return c.next.RoundTrip(req)
	}
	if c.open == 0 {
		c.since = realNow()
	}
	c.open++
	out := &outgoing{service: s}
	go c.send(req, out)
	s.calling = true
	c.sched.wakeSubstitute(s)
	if !s.pause() {
		return nil, ErrStopped
	}
	return out.response, out.err
}

// send performs a request and reads the whole body of the response.
func (c *calls) send(req *http.Request, out *outgoing) {
	out.response, out.err = c.next.RoundTrip(req)
	if out.err == nil {
		body, err := io.ReadAll(io.LimitReader(out.response.Body, maxBody))
		_ = out.response.Body.Close() // the whole body was read, or its error says more
		out.response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	}
	select {
	case c.back <- out:
	case <-c.end:
	}
}

// maxBody exceeds what any caller accepts, so the caller's own limit applies.
const maxBody = 64 << 20

// failing is an empty reader that returns err, or io.EOF if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// collect makes the services whose calls have returned runnable again.
func (c *calls) collect() {
	for _, back := range c.arrived {
		back.service.calling = false
		c.open--
	}
	c.arrived = nil
}

func (c *calls) stop() { close(c.end) }
