package sim

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/sim/mock"
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

// transport returns the transport for the engine's calls: to the mocks, to a recording's
// answers or out to the network.
func (env *environment) transport() http.RoundTripper {
	var next http.RoundTripper = env.calls
	if env.cfg.Mocks != nil {
		if !env.cfg.Onward {
			next = nil
		}
		env.mocked = &mocked{env: env, next: next, each: map[string]*mock.Transport{}, shared: new(mock.State)}
		next = env.mocked
	}
	if env.cfg.Answers != nil {
		next = env.cfg.Answers(env.sleep)
	}
	if env.cfg.Plan != nil {
		next = &faultyCalls{env: env, next: next, answers: map[string]answer{}}
	} else {
		next = &effectRecorder{env: env, next: next}
	}
	if env.cfg.Wrap == nil {
		return next
	}
	return env.cfg.Wrap(next, func() time.Time { return env.clock.now })
}

// The ways to delay parallel calls: not at all, each on its own, or all calls of a branch
// together. The seed chooses one.
const (
	delayCalls    = 1
	delayBranches = 2
	delayWays     = 4 // half of the simulations delay branches
)

// delayCall delays a call until nothing else happens at this moment. Mocks without a latency
// do not say how long calls take, so parallel calls can finish in any order. No virtual time
// passes.
func (env *environment) delayCall(req *http.Request) error {
	s := env.current
	if s == nil || !env.parallel {
		return nil
	}
	if s.callRank = env.callRank(req); s.callRank == 0 {
		return nil
	}
	env.wakeSubstitute(s)
	if !s.pause() {
		return ErrStopped
	}
	if s.process.dead {
		return errCrashed
	}
	return req.Context().Err()
}

// callRank returns the rank of a delayed call: lower ranks go first. It is 0 for a call
// that is not delayed.
func (env *environment) callRank(req *http.Request) uint64 {
	const few = 4
	from := env.originOf(req)
	switch way := Choice(env.cfg.Seed, "late") % delayWays; {
	case way == delayCalls:
		return mix(env.cfg.Seed, hashed(from.Execution+" "+from.Run.String()+" "+req.Method+" "+req.URL.String()), way) % few
	case way >= delayBranches:
		return mix(env.cfg.Seed, hashed(from.Execution+" "+branchIn(from.Run.Ref)), way) % few
	default:
		return 0
	}
}

// branchIn returns the reference of the innermost branch around a task.
func branchIn(ref string) string {
	const branches = "/branches/"
	at := strings.LastIndex(ref, branches)
	if at < 0 {
		return ""
	}
	at += len(branches)
	number, _, _ := strings.Cut(ref[at:], "/")
	return ref[:at+len(number)]
}

// releaseCall releases the delayed call with the lowest rank once nothing else happens. It
// reports whether there was one.
func (sched *scheduler) releaseCall() bool {
	var next *service
	var lowest uint64
	for _, s := range sched.active {
		if s.callRank == 0 || sched.clock.now.Before(s.process.frozen) {
			continue
		}
		h := mix(sched.cfg.Seed, s.hash, s.turns)
		if next == nil || s.callRank < next.callRank || s.callRank == next.callRank && h < lowest {
			next, lowest = s, h
		}
	}
	if next == nil {
		return false
	}
	next.callRank = 0
	return true
}

// parallelCalls reports whether calls of an execution can run in parallel.
func (cfg Config) parallelCalls() bool {
	if cfg.Plan == nil || cfg.Mocks == nil || cfg.Answers != nil {
		return false
	}
	return len(cfg.With) > 0 || HasTask(cfg.Definition, func(t *dsl.Task) bool { return t.Kind == dsl.Fork })
}
