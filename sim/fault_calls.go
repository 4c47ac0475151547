package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"flunq.io/flunq/sim/mock"
)

// faultyCalls lies between the executors and those that they call: it counts what
// reaches them, answers a repeated call as it did the first time, as services do
// that know idempotency keys, and loses answers where the plan says so.
type faultyCalls struct {
	w       *simulation
	next    http.RoundTripper
	answers map[string]answer
}

// Action is a call, and who made it: the same one again is a repetition.
type Action struct{ Execution, Task, Method, URL string }

// Reached is a call that reached the world.
type Reached struct {
	Action

	Key    string    // the idempotency key, "" if it has none
	At     time.Time // virtual
	Times  int       // that it has done so by now
	Event  int       // events of histories that were there by then
	Faults int       // likewise
}

// Answered is a call, and when it was carried out.
type Answered struct {
	Action

	At time.Time
}

// reach notes a call.
func (w *simulation) reach(d Action, key string) {
	w.actions[d]++
	w.reached = append(w.reached, Reached{d, key, w.clock.now, w.actions[d], w.events, len(w.struck)})
}

// answer is what a call came to.
type answer struct {
	response *http.Response
	body     []byte
	err      error
}

// errNoAnswer is what a caller sees of a lost answer.
var errNoAnswer = errors.New("connection reset by peer")

// RoundTrip is http.RoundTripper's.
func (f *faultyCalls) RoundTrip(req *http.Request) (*http.Response, error) {
	from := f.w.originOf(req)
	action := Action{from.Execution, from.Run.String(), req.Method, req.URL.Redacted()}
	key := from.Execution + " " + from.Run.String() + " " + req.Method + " " + req.URL.String() + " " + req.Header.Get(idempotencyKey)
	s := f.w.current
	if err := f.unsent(req); err != nil {
		return nil, err
	}
	if err := f.w.tardy(req); err != nil {
		return nil, err
	}
	f.w.reach(action, req.Header.Get("Idempotency-Key"))
	lost := s != nil && slices.ContainsFunc(f.w.callFaults(s, from.Execution+" "+from.Run.String()), func(x Fault) bool { return x.Kind == CallLost })
	f.w.keyed(from, req)
	if s != nil && action.URL == f.w.cfg.lethal {
		f.w.crash(s.process, []Fault{{Kind: CrashBefore, Amount: time.Second}})
		return nil, errCrashed
	}
	known, err := f.ask(req, key, action)
	if err != nil {
		return nil, err
	}
	if known.err == nil {
		f.w.carry(from, req, known.response.StatusCode)
	}
	if s != nil && s.process.dead {
		return nil, errCrashed
	}
	if lost {
		return nil, errNoAnswer
	}
	if known.err != nil {
		return nil, known.err
	}
	again := *known.response
	again.Body = io.NopCloser(bytes.NewReader(known.body))
	return &again, nil
}

// ask makes a call that was not answered before. The error is that nobody waits for it.
func (f *faultyCalls) ask(req *http.Request, key string, action Action) (answer, error) {
	if f.w.cfg.Slow {
		if err := f.w.answering(req.Context(), slowness); err != nil {
			return answer{}, err
		}
	}
	if known, ok := f.answers[key]; ok {
		return known, nil
	}
	got := read(f.next.RoundTrip(req))
	if err := req.Context().Err(); err != nil { // whoever called has hung up, which is no answer
		return got, err //nolint:wrapcheck // it is a transport's
	}
	if errors.Is(got.err, errStopped) || errors.Is(got.err, errCrashed) {
		return got, errCrashed
	}
	return f.first(key, action, got), nil
}

// first is the answer that a call has got first, of those that were under way at once.
func (f *faultyCalls) first(key string, action Action, got answer) answer {
	if known, ok := f.answers[key]; ok {
		return known
	}
	f.answers[key] = got
	f.w.answered = append(f.w.answered, Answered{action, f.w.clock.now})
	return got
}

// unsent is why a request does not even go out, if so.
func (f *faultyCalls) unsent(req *http.Request) error {
	if s := f.w.current; s != nil && s.process.dead {
		return errCrashed // it goes on to its end, but nothing of it gets out
	}
	return req.Context().Err() //nolint:wrapcheck // it is a transport's
}

// read takes an answer in whole.
func read(response *http.Response, err error) answer {
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // all of it was read, or its error says more
	return answer{response, body, err}
}

// callFaults are the faults of a service's call, by the plan's list and by chance.
func (w *simulation) callFaults(s *service, task string) []Fault {
	s.calls++
	w.called[s.Name] = s.calls
	faults := w.draw(s, s.calls, func(k FaultKind) bool { return k == CallLost })
	for _, f := range faults {
		w.strike(f, "call")
		w.struck[len(w.struck)-1].Task = task
	}
	return faults
}

// mocked gives each execution its own mocks, with their own counts, so that what
// one is answered does not depend on the others.
type mocked struct {
	w      *simulation
	next   http.RoundTripper
	each   map[string]*mock.Transport
	shared *mock.State
}

// RoundTrip is http.RoundTripper's.
func (m *mocked) RoundTrip(req *http.Request) (*http.Response, error) {
	return m.of(m.owner(rootOf(m.w.originOf(req).Execution))).RoundTrip(req)
}

// owner is the execution that has mocks of its own: "" if there is but one.
func (m *mocked) owner(root string) string {
	if len(m.w.ids) == 1 {
		return ""
	}
	return root
}

// of are the mocks of an execution.
func (m *mocked) of(owner string) *mock.Transport {
	mocks := m.each[owner]
	if mocks == nil {
		mocks = m.w.cfg.Mocks.Transport(m.w.answering, m.next)
		mocks.Observe, mocks.Shared, mocks.Idempotent = m.w.exchanged, m.shared, m.w.cfg.Plan != nil
		m.each[owner] = mocks
	}
	return mocks
}

// exchanged takes in a call that a mock has answered, or that none does.
func (w *simulation) exchanged(x mock.Exchange) {
	if x.Mock < 0 && x.Err != nil && w.cfg.Plan != nil {
		w.unmocked = append(w.unmocked, x)
	}
	if w.cfg.Exchange != nil {
		w.cfg.Exchange(x)
	}
}

// answering lets a mock's latency pass. Where things go wrong it answers even if
// nobody listens any more: the call was made, and is answered alike the next time.
func (w *simulation) answering(ctx context.Context, d time.Duration) error {
	err := w.sleep(ctx, d)
	if w.cfg.Plan != nil && (errors.Is(err, errStopped) || errors.Is(err, errCrashed)) {
		return nil
	}
	return err
}

// slowness is how long calls take where they are slow: longer than two leases.
const slowness = 100 * time.Second
