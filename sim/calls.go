package sim

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/sim/mock"
)

// calls are requests that really go out, each on a goroutine of its own while
// its service waits; the virtual clock passes the time that they take.
type calls struct {
	w       *simulation
	next    http.RoundTripper
	open    int
	since   time.Time // real time since when the clock waits for them
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

// RoundTrip sends a request and lets the other services go on meanwhile.
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
	c.w.relieve(s)
	if !s.pause() {
		return nil, errStopped
	}
	return out.response, out.err
}

// send carries a request out, with the whole body of the response.
func (c *calls) send(req *http.Request, out *call) {
	out.response, out.err = c.next.RoundTrip(req)
	if out.err == nil {
		body, err := io.ReadAll(io.LimitReader(out.response.Body, maxBody))
		_ = out.response.Body.Close() // all of it was read, or its error says more
		out.response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	}
	select {
	case c.back <- out:
	case <-c.end:
	}
}

// maxBody is more than any caller accepts, so that its own limit is what counts.
const maxBody = 64 << 20

// failing is a reader of nothing but an error, or of nothing.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// collect gives those a turn whose calls are back.
func (c *calls) collect() {
	for _, back := range c.arrived {
		back.service.calling = false
		c.open--
	}
	c.arrived = nil
}

func (c *calls) stop() { close(c.end) }

// transport is how the simulated engine's calls go out: to the mocks, or to the world.
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
		next = &carrier{w: w, next: next}
	}
	if w.cfg.record == nil {
		return next
	}
	return &callRecorder{next: next, rec: w.cfg.record, now: func() time.Time { return w.clock.now }}
}
