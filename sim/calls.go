package sim

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/sim/mock"
)

// calls tracks requests that really go out. Each runs on its own goroutine while its
// service waits; the virtual clock advances by the time they take.
type calls struct {
	w       *simulation
	next    http.RoundTripper
	open    int
	since   time.Time // real time since which the clock has been waiting for them
	back    chan *call
	arrived []*call
	end     chan struct{}
}

type call struct {
	service  *service
	response *http.Response
	err      error
}

func newCalls(w *simulation, next http.RoundTripper) *calls {
	return &calls{w: w, next: executor.Outward(next), back: make(chan *call), end: make(chan struct{})}
}

// RoundTrip sends a request and lets other services run until the response arrives.
func (c *calls) RoundTrip(req *http.Request) (*http.Response, error) {
	s := c.w.current
	if s == nil {
		return c.next.RoundTrip(req)
	}
	if c.open == 0 {
		c.since = realNow()
	}
	c.open++
	out := &call{service: s}
	go c.send(req, out)
	s.calling = true
	c.w.wakeSubstitute(s)
	if !s.pause() {
		return nil, errStopped
	}
	return out.response, out.err
}

// send performs a request and reads the whole body of the response.
func (c *calls) send(req *http.Request, out *call) {
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

// collect makes services runnable again whose calls have returned.
func (c *calls) collect() {
	for _, back := range c.arrived {
		back.service.calling = false
		c.open--
	}
	c.arrived = nil
}

func (c *calls) stop() { close(c.end) }

// transport returns the transport for the engine's calls: to the mocks, to a recording's
// answers or out to the network.
func (w *simulation) transport() http.RoundTripper {
	var next http.RoundTripper = w.calls
	if w.cfg.Mocks != nil {
		if !w.cfg.Onward {
			next = nil
		}
		w.mocked = &mocked{w: w, next: next, each: map[string]*mock.Transport{}, shared: new(mock.State)}
		next = w.mocked
	}
	if w.cfg.replay != nil {
		next = w.cfg.replay.transport(w.sleep)
	}
	if w.cfg.Plan != nil {
		next = &faultyCalls{w: w, next: next, answers: map[string]answer{}}
	} else {
		next = &effectRecorder{w: w, next: next}
	}
	if w.cfg.record == nil {
		return next
	}
	return &callRecorder{next: next, rec: w.cfg.record, now: func() time.Time { return w.clock.now }}
}
