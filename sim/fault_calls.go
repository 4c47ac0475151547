package sim

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"

	"flunq.io/flunq/engine/executor"
)

// faultyCalls lies between the executors and those that they call: it counts what
// reaches them, answers a repeated call as it did the first time, as services do
// that know idempotency keys, and loses answers where the plan says so.
type faultyCalls struct {
	w       *world
	next    http.RoundTripper
	answers map[string]answer
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
	from := executor.OriginOf(req)
	key := from.Execution + " " + from.Run.String() + " " + req.Method + " " + req.URL.String()
	s := f.w.current
	lost := s != nil && slices.ContainsFunc(f.w.callFaults(s), func(x Fault) bool { return x.Kind == CallLost })
	f.w.deeds[key]++
	known, ok := f.answers[key]
	if !ok {
		known = read(f.next.RoundTrip(req))
		if s != nil && s.process.dead || errors.Is(known.err, errStopped) {
			return nil, errCrashed
		}
		f.answers[key] = known
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
func (w *world) callFaults(s *service) []Fault {
	s.calls++
	faults := w.draw(s, []FaultKind{CallLost}, s.calls)
	for _, f := range faults {
		w.strike(f, "call")
	}
	return faults
}
