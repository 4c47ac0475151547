package decide

import (
	"fmt"
	"maps"
	"math"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// tryState is the progress of a try.
type tryState struct {
	Retries  int  `json:"retries"`
	Catching bool `json:"catching"` // catch.do is running
	Over     bool `json:"over"`     // the time for all attempts is up
}

func (m *machine) beginTry(n *Node) error {
	n.Try = &tryState{}
	if err := m.limitTry(n); err != nil {
		return err
	}
	m.attempt(n)
	return nil
}

// limitTry schedules the timeout of all attempts together.
func (m *machine) limitTry(n *Node) error {
	if r := n.task.Try.Catch.Retry; r != nil && r.Duration != nil {
		return m.schedule(n, event.TimeoutTimer, overallKey, r.Duration)
	}
	return nil
}

// limitAttempt schedules the timeout of one attempt.
func (m *machine) limitAttempt(n *Node) error {
	if r := n.task.Try.Catch.Retry; r != nil && r.AttemptDuration != nil {
		return m.schedule(n, event.TimeoutTimer, attemptKey, r.AttemptDuration)
	}
	return nil
}

// attempt runs the body of a try.
func (m *machine) attempt(n *Node) {
	if err := m.limitAttempt(n); err != nil {
		m.fail(n, problemOf(err))
		return
	}
	m.enqueue(n, func() { m.enter(n, n.Input.V) })
}

// attemptTimedOut interrupts an attempt.
func (m *machine) attemptTimedOut(n *Node, key string) {
	if n.Try.Catching {
		return
	}
	detail := "the attempt did not end in time"
	if key == overallKey {
		n.Try.Over = true
		detail = "the attempts together did not end in time"
	}
	m.dropChildren(n)
	m.cancelKind(n, event.RetryTimer, "")
	n.cause = nil
	m.caught(n, m.env.publishable(event.NewProblem(event.Timeout, detail), n.task.Ref))
}

// caught handles a failure of the body: it retries, runs catch.do with the error bound to its variable,
// or fails the try.
func (m *machine) caught(n *Node, p *event.Problem) {
	m.cancelKind(n, event.TimeoutTimer, attemptKey)
	c := n.task.Try.Catch
	failure := problemValue(p)
	matches, err := m.catches(n, p, failure)
	if err != nil {
		m.fail(n, problemOf(err))
		return
	}
	if !matches {
		m.propagate(n, p)
		return
	}
	if c.Retry != nil {
		retried, err := m.retry(n, c, failure)
		switch {
		case err != nil:
			m.fail(n, problemOf(err))
			return
		case retried:
			return
		case c.Do == nil && c.Then == "":
			m.propagate(n, p)
			return
		}
	}
	m.cancelKind(n, event.TimeoutTimer, overallKey)
	n.Try.Catching = true
	n.Vars = map[string]Data{c.As: {failure}}
	if len(c.Do) == 0 {
		m.complete(n, n.Input.V, c.Then)
		return
	}
	m.enqueue(n, func() { m.enter(n, n.Input.V) })
}

// catches reports whether a try catches a problem.
func (ev *evaluator) catches(n *Node, p *event.Problem, failure map[string]any) (bool, error) {
	c := n.task.Try.Catch
	for name, want := range c.With {
		if !matchesProblem(p, name, want) {
			return false, nil
		}
	}
	return ev.conditions(n, c.When, c.ExceptWhen, failure)
}

// conditions evaluates when and exceptWhen on an error.
func (ev *evaluator) conditions(n *Node, when, exceptWhen *expr.Program, failure map[string]any) (bool, error) {
	defer n.bindError(failure)()
	dot := withDetails(failure)
	if when != nil {
		if ok, err := when.Test(ev.innerScope(n, dot)); err != nil || !ok {
			return false, err
		}
	}
	if exceptWhen != nil {
		if ok, err := exceptWhen.Test(ev.innerScope(n, dot)); err != nil || ok {
			return false, err
		}
	}
	return true, nil
}

// bindError binds the error's variable of a try until unbind.
func (n *Node) bindError(failure map[string]any) (unbind func()) {
	n.Vars = map[string]Data{n.task.Try.Catch.As: {failure}}
	return func() { n.Vars = nil }
}

// matchesProblem compares one member of an error filter. All spellings of a standard type
// are equal.
func matchesProblem(p *event.Problem, name string, want any) bool {
	switch name {
	case "type":
		typ, ok := want.(string)
		return ok && event.ShortType(typ) == event.ShortType(p.Type)
	case "status":
		return want == p.Status
	case "title":
		return want == p.Title
	case "detail":
		return want == p.Detail
	case "instance":
		return want == p.Instance
	default:
		return false
	}
}

// problemValue returns a problem in the form that expressions see.
func problemValue(p *event.Problem) map[string]any {
	out := map[string]any{"type": p.Type, "status": p.Status}
	if p.Title != "" {
		out["title"] = p.Title
	}
	if p.Detail != "" {
		out["detail"] = p.Detail
	}
	if p.Instance != "" {
		out["instance"] = p.Instance
	}
	return out
}

// withDetails returns a copy of a failure whose detail is also in "details", the name that
// some runtimes use.
func withDetails(failure map[string]any) map[string]any {
	out := maps.Clone(failure)
	if detail, ok := out["detail"]; ok {
		out["details"] = detail
	}
	return out
}

// retry starts another attempt, now or after a delay, unless the policy forbids it.
func (m *machine) retry(n *Node, c dsl.Catch, failure map[string]any) (retried bool, err error) {
	r := c.Retry
	if n.Try.Over || r.AttemptCount > 0 && n.Try.Retries >= r.AttemptCount {
		return false, nil
	}
	if ok, err := m.conditions(n, r.When, r.ExceptWhen, failure); err != nil || !ok {
		return false, err
	}
	at, err := m.retryAt(n, r, failure)
	if err != nil {
		return false, err
	}
	for _, t := range n.Timers {
		if t.Key == overallKey && !at.Before(t.Due()) {
			return false, nil
		}
	}
	n.Try.Retries++
	if at.After(m.Now) {
		m.scheduleAt(n, event.RetryTimer, "", at)
		return true, nil
	}
	m.attempt(n)
	return true, nil
}

// retryAt returns when the next attempt starts: after the delay, multiplied according to the
// backoff, plus jitter.
func (m *machine) retryAt(n *Node, r *dsl.RetryPolicy, failure map[string]any) (time.Time, error) {
	defer n.bindError(failure)()
	s := m.innerScope(n, n.Input.V)
	at := m.Now
	if r.Delay != nil {
		d, err := duration(s, r.Delay)
		if err != nil {
			return at, err
		}
		at = grow(m.Now, d, factor(r.Backoff, n.Try.Retries+1))
	}
	if r.JitterTo == nil {
		return at, nil
	}
	var limits [2]time.Duration
	for i, value := range []*expr.Value{r.JitterFrom, r.JitterTo} {
		if value == nil {
			continue
		}
		d, err := duration(s, value)
		if err != nil {
			return at, err
		}
		limits[i] = d.From(m.Now).Sub(m.Now)
	}
	seed := fmt.Sprintf("%s %s %d", m.Execution, n.id, n.Try.Retries)
	return at.Add(jitter(seed, limits[0], limits[1])), nil
}

// factor returns the factor by which the n-th retry (from 1) multiplies the delay.
func factor(backoff string, n int) float64 {
	switch backoff {
	case "linear":
		return float64(n)
	case "exponential":
		return math.Pow(2, float64(n-1))
	default:
		return 1
	}
}

// maxDelay bounds the delay that a backoff computes.
const maxDelay = 365 * 24 * time.Hour

func grow(now time.Time, d dsl.Duration, factor float64) time.Time {
	once := d.From(now).Sub(now)
	if float64(once)*factor > float64(maxDelay) {
		return now.Add(max(once, maxDelay))
	}
	return now.Add(time.Duration(float64(once) * factor))
}
