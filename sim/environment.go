package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/sim/mock"
)

// environment answers the calls of the processes.
type environment struct {
	operations

	calls    *calls
	outward  http.RoundTripper
	mocked   *mocked         // nil: calls go out
	unmocked []mock.Exchange // calls that no mock answers
	answered []Answered      // in order of completion
	carried  carriedOutCalls
}

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
		next = &faultyCalls{env: env, next: next, results: map[string]callResult{}}
	} else {
		next = &effectRecorder{env: env, next: next}
	}
	if env.cfg.Wrap == nil {
		return next
	}
	return env.cfg.Wrap(next, func() time.Time { return env.clock.now })
}

// faultyCalls stands between the executors and the services they call. It counts the calls
// that reach a service, answers a repeated call like the first one and no earlier, as services
// with idempotency keys do, and drops responses as planned.
type faultyCalls struct {
	env     *environment
	next    http.RoundTripper
	results map[string]callResult
}

// CallID identifies a call by its execution, its task run, its method and its URL: a second call
// with the same CallID repeats the first one.
type CallID struct{ Execution, Task, Method, URL string }

// callID returns the CallID of a request.
func callID(from call.Origin, req *http.Request) CallID {
	return CallID{from.Execution, from.Run.String(), req.Method, req.URL.Redacted()}
}

// Reached is a call that reached its service.
type Reached struct {
	CallID

	Key    string    // the idempotency key, "" if there is none
	At     time.Time // virtual
	Times  int       // how many times this CallID has reached the service, including this one
	Event  int       // number of history events so far
	Faults int       // number of faults so far
}

// Answered is a call and the time when it was carried out.
type Answered struct {
	CallID

	At time.Time
}

// recordReached records a call that reached its service.
func (env *environment) recordReached(id CallID, key string) {
	env.callCounts[id]++
	env.reached = append(env.reached, Reached{id, key, env.clock.now, env.callCounts[id], env.events, len(env.injected)})
}

// callResult is the result of a call.
type callResult struct {
	response *http.Response
	body     []byte
	err      error
	ready    time.Time // when the service has it, if the process of its first caller crashed before; zero otherwise
}

// errNoResponse is the error that a caller sees when a response is lost.
var errNoResponse = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (f *faultyCalls) RoundTrip(req *http.Request) (*http.Response, error) {
	from := f.env.originOf(req)
	id := callID(from, req)
	key := from.Execution + " " + from.Run.String() + " " + req.Method + " " + req.URL.String() + " " + req.Header.Get(idempotencyKey)
	s := f.env.current
	if err := f.unsent(req); err != nil {
		return nil, err
	}
	if err := f.env.delayCall(req); err != nil {
		return nil, err
	}
	f.env.recordReached(id, req.Header.Get(idempotencyKey))
	lost := s != nil && slices.ContainsFunc(f.env.callFaults(s, from.Execution+" "+from.Run.String()), func(x Fault) bool { return x.Kind == CallLost })
	f.env.checkKey(from, req)
	if s != nil && id.URL == f.env.cfg.Scripted.CrashURL {
		f.env.crash(s.process, []Fault{{Kind: CrashBefore, Amount: time.Second}})
		return nil, errCrashed
	}
	known, err := f.ask(req, key, id)
	if err != nil {
		return nil, err
	}
	if known.err == nil {
		f.env.recordCarriedOut(from, req, known.response.StatusCode)
	}
	if s != nil && s.process.dead {
		return nil, errCrashed
	}
	if lost {
		return nil, errNoResponse
	}
	if known.err != nil {
		return nil, known.err
	}
	copied := *known.response
	copied.Body = io.NopCloser(bytes.NewReader(known.body))
	return &copied, nil
}

// ask returns the response to a call, which it performs unless the response is known. It returns
// an error if the caller is gone.
func (f *faultyCalls) ask(req *http.Request, key string, id CallID) (callResult, error) {
	if f.env.cfg.Slow {
		if err := f.env.waitLatency(req.Context(), slowness); err != nil {
			return callResult{}, err
		}
	}
	if known, ok := f.results[key]; ok {
		return known, f.env.waitLatency(req.Context(), known.ready.Sub(f.env.clock.now))
	}
	s := f.env.current
	got := read(f.next.RoundTrip(req))
	if s != nil {
		got.ready, s.answerAt = s.answerAt, time.Time{}
	}
	if err := req.Context().Err(); err != nil { // the caller gave up, so there is no response to remember
		return got, err
	}
	if errors.Is(got.err, ErrStopped) || errors.Is(got.err, errCrashed) {
		return got, errCrashed
	}
	return f.first(key, id, got), nil
}

// first returns the first response to a call that several attempts made concurrently.
func (f *faultyCalls) first(key string, id CallID, got callResult) callResult {
	if known, ok := f.results[key]; ok {
		return known
	}
	f.results[key] = got
	f.env.answered = append(f.env.answered, Answered{id, f.env.clock.now})
	return got
}

// unsent returns the reason why a request is not sent; nil if it is.
func (f *faultyCalls) unsent(req *http.Request) error {
	if s := f.env.current; s != nil && s.process.dead {
		return errCrashed // the code of a dead process runs to its end, but nothing leaves it
	}
	return req.Context().Err()
}

// read reads a response with its whole body.
func read(response *http.Response, err error) callResult {
	if err != nil {
		return callResult{err: err}
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // the whole body was read, or its error says more
	return callResult{response: response, body: body, err: err}
}

// mocked gives each root execution its own mocks with their own counters, so its responses do
// not depend on other executions.
type mocked struct {
	env    *environment
	next   http.RoundTripper
	each   map[string]*mock.Transport
	shared *mock.State
}

// RoundTrip implements http.RoundTripper.
func (m *mocked) RoundTrip(req *http.Request) (*http.Response, error) {
	return m.of(m.owner(Root(m.env.originOf(req).Execution))).RoundTrip(req)
}

// owner returns the key of a root execution's own mocks: "" if there is only one
// execution.
func (m *mocked) owner(root string) string {
	if len(m.env.ids) == 1 {
		return ""
	}
	return root
}

// of returns the mocks of an owner and creates them on first use.
func (m *mocked) of(owner string) *mock.Transport {
	mocks := m.each[owner]
	if mocks == nil {
		mocks = m.env.cfg.Mocks.Transport(m.env.waitLatency, m.next)
		mocks.Observe, mocks.Shared, mocks.Idempotent = m.env.exchanged, m.shared, m.env.cfg.Plan != nil
		m.each[owner] = mocks
	}
	return mocks
}

// exchanged records a call that a mock has answered, or that no mock answers.
func (env *environment) exchanged(x mock.Exchange) {
	if x.Mock < 0 && x.Err != nil && env.cfg.Plan != nil {
		env.unmocked = append(env.unmocked, x)
	}
	if env.cfg.Exchange != nil {
		env.cfg.Exchange(x)
	}
}

// waitLatency lets a mock's latency pass. With a Plan it succeeds even if the caller's process
// has crashed: the call was made, and a repeated call gets the same response.
func (env *environment) waitLatency(ctx context.Context, d time.Duration) error {
	s, ready := env.current, env.clock.now.Add(d)
	err := env.sleep(ctx, d)
	if env.cfg.Plan != nil && (errors.Is(err, ErrStopped) || errors.Is(err, errCrashed)) {
		s.answerAt = ready
		return nil
	}
	return err
}

// slowness is how long calls take if Config.Slow is set: longer than two leases.
const slowness = 100 * time.Second

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
		return Draw(env.cfg.Seed, from.Execution+" "+from.Run.String()+" "+req.Method+" "+req.URL.String(), way) % few
	case way >= delayBranches:
		return Draw(env.cfg.Seed, from.Execution+" "+branchIn(from.Run.Ref), way) % few
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

// parallelCalls reports whether calls of an execution can run in parallel.
func (cfg Config) parallelCalls() bool {
	if cfg.Plan == nil || cfg.Mocks == nil || cfg.Answers != nil {
		return false
	}
	return len(cfg.With) > 0 || HasTask(cfg.Definition, func(t *dsl.Task) bool { return t.Kind == dsl.Fork })
}
