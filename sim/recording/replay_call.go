package recording

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/mock"
)

// checkCall repeats a call, with responses from the recording. A task run that was performed
// more than once, after a crash, has several exchanges, one of which gave the result.
func (x *executionReplay) checkCall(e event.Event, task *dsl.Task, scope *expr.Scope) {
	exchanges := x.calls[e.Execution+" "+e.Task]
	first, place := x.perform(e, task, scope, &recordedCall{calls: exchanges})
	for skip, d := 1, first; d != nil; skip++ {
		if skip >= len(exchanges) {
			x.tolerate(first, place)
			return
		}
		d, _ = x.perform(e, task, scope, &recordedCall{calls: exchanges[skip:]})
	}
}

// perform performs a call, and compares its requests and its result with the recording.
func (x *executionReplay) perform(e event.Event, task *dsl.Task, scope *expr.Scope, a *recordedCall) (*Difference, *canonical.Difference) {
	caller := &executor.Caller{HTTP: &httpcall.Caller{Transport: a, Version: x.header.Flunq}}
	c := event.Completed{TaskID: e.Task, TaskName: task.Name, TaskType: string(task.Kind)}
	from := call.Origin{Tenant: x.state.Tenant, Execution: e.Execution, Nonce: x.state.Nonce, Run: event.ParseRun(e.Task)}
	output, _, err := caller.Call(x.ctx, task, scope, from, caller.Memory.Reserve(from.Tenant))
	if a.differs != nil {
		return a.differs, a.mismatch
	}
	if a.lacking != "" {
		if stopped(e) {
			return nil, nil
		}
		return &Difference{What: "exchange", Recorded: history.Describe(e), Replayed: "it calls " + a.lacking + ", for which the recording has no response"}, nil
	}
	if err == nil {
		err = x.limits().Output(output)
	}
	if err == nil {
		c.Success, c.Output = true, canonical.Encode(output)
	} else if c.Error, err = x.env.ProblemOf(err, task.Ref); err != nil {
		return &Difference{What: "computed", Recorded: history.Describe(e), Replayed: "the call cannot be made: " + history.Cut(err.Error())}, nil
	}
	if a.broken != "" && !c.Success && strings.Contains(string(e.Data), trimQuoted(a.broken)) {
		return nil, nil // the error message depends on more than is recorded
	}
	return x.compare(e, c)
}

// trimQuoted returns text as it appears inside a JSON string.
func trimQuoted(text string) string { return strings.Trim(string(canonical.Encode(text)), `"`) }

// stopped reports whether a call failed before it was sent because other calls had
// failed: the circuit breaker of its host was open.
func stopped(e event.Event) bool {
	return strings.Contains(string(e.Data), "because the circuit breaker of ")
}

// recordedCall answers the requests of one call from its recorded exchanges.
type recordedCall struct {
	calls []*CallLine

	differs  *Difference // difference in a request
	mismatch *canonical.Difference
	lacking  string // the request that has no response
	broken   string // the error that came instead of a response
}

// errNotRecorded ends a call that is not in the recording.
var errNotRecorded = errors.New("the recording has no response")

// RoundTrip implements http.RoundTripper.
func (a *recordedCall) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(a.calls) == 0 {
		a.lacking = req.Method + " " + req.URL.Redacted()
		return nil, errNotRecorded
	}
	line := a.calls[0]
	a.calls = a.calls[1:]
	body, err := mock.Body(req)
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", req.Method, req.URL.Redacted(), err)
	}
	a.compare(line, req, body)
	if line.failed() {
		a.broken = line.Error
	}
	return line.httpResponse(req)
}

// compare compares a request with the recorded one.
func (a *recordedCall) compare(line *CallLine, req *http.Request, body []byte) {
	if a.differs != nil {
		return
	}
	was, now := line.Request.Method+" "+line.Request.URL, req.Method+" "+req.URL.String()
	if was != now && plainURL(was) != plainURL(now) {
		a.differs = &Difference{What: "request", Line: line.line, Recorded: "it called " + history.Cut(was), Replayed: "it calls " + history.Cut(now)}
		return
	}
	if where := (comparison{}).between(line.sent(), body); where != nil {
		a.differs = &Difference{
			What: "request", Line: line.line,
			Recorded: fmt.Sprintf("it called %s with the body %s", history.Cut(was), history.Excerpt(line.sent())),
			Replayed: "it sends " + history.Excerpt(body),
		}
		a.mismatch = prefixed(".body", where)
	}
}

// plainURL unescapes a URL, since a URL can be escaped in several ways.
func plainURL(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// failed reports whether an error came instead of the response or of a part of it.
func (c *CallLine) failed() bool { return c.Response == nil || c.Error != "" }

// sent returns the body of the request.
func (c *CallLine) sent() []byte {
	if len(c.Request.Base64) > 0 {
		return c.Request.Base64
	}
	return []byte(c.Request.Body)
}

// httpResponse returns the recorded response.
func (c *CallLine) httpResponse(req *http.Request) (*http.Response, error) {
	if c.failed() {
		return nil, errors.New(c.Error)
	}
	content := c.Response.Base64
	if c.Response.Text != "" {
		content = []byte(c.Response.Text)
	}
	return mock.NewResponse(req, c.Response.Status, c.Response.Headers, content), nil
}

// answers returns a transport that answers the calls of a simulation from the recording,
// each after the time that it took.
func (r *Recording) answers(sleep func(context.Context, time.Duration) error) http.RoundTripper {
	return &replayTransport{of: r, sleep: sleep, used: map[string]int{}}
}

// forEver is longer than any simulation.
const forEver = 200 * 365 * 24 * time.Hour

type replayTransport struct {
	of    *Recording
	sleep func(context.Context, time.Duration) error
	used  map[string]int // number of exchanges used by each task run
}

// RoundTrip implements http.RoundTripper.
func (t *replayTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	from := httpcall.OriginOf(req)
	key := from.Execution + " " + from.Run.String()
	calls := t.of.calls[key]
	n := t.used[key]
	if n >= len(calls) {
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Redacted(), errNotRecorded)
	}
	t.used[key]++
	if _, err := mock.Body(req); err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", req.Method, req.URL.Redacted(), err)
	}
	if calls[n].Open {
		if err := t.sleep(req.Context(), forEver); err != nil {
			return nil, err
		}
		return nil, errNotRecorded
	}
	if took := time.Duration(math.Round(calls[n].TookMS * float64(time.Millisecond))); took > 0 {
		if err := t.sleep(req.Context(), took); err != nil {
			return nil, err
		}
	}
	return calls[n].httpResponse(req)
}
