package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

// faults parses the errors that a workflow raises and catches, its retry policies and its
// timeouts.
type faults struct {
	*expressions
	retries, timeouts section                   // of use
	templates         map[string]*ErrorTemplate // the errors of use

	retryPolicies map[[2]string]*RetryPolicy // the retries of use parsed so far, by name and the name of the error's variable

	bases map[string]yaml.Pos // base URIs of standard error types → first use
	base  string              // the base URI used first
}

// raise parses the error to raise, or resolves a reference to one.
func (p *faults) raise(n *yaml.Node, s scope) *ErrorTemplate {
	if !p.object(n, "raise", keys("error").need("error").under("error", "type", "status", "title", "detail", "instance")) {
		return &ErrorTemplate{}
	}
	e := n.Get("error")
	switch {
	case e == nil:
		return &ErrorTemplate{}
	case e.Shape != yaml.Text:
		return p.errorTemplate(e, s)
	}
	template, known := p.templates[e.Text()]
	if !known {
		p.Mistake(e.Pos, reference(e.Text(), "use.errors", slices.Sorted(maps.Keys(p.templates))), "unknown error %s", yaml.Quote(e.Text()))
		return &ErrorTemplate{}
	}
	return template
}

func (p *faults) errorTemplate(n *yaml.Node, s scope) *ErrorTemplate {
	e := &ErrorTemplate{}
	if !p.object(n, "error", keys(errorMembers()...).need("type", "status")) {
		return e
	}
	if typ := n.Get("type"); typ != nil {
		e.Type = p.uri(typ, "type", s)
		p.errorBase(typ, typ.Text())
		p.errorType(typ, typ.Text())
	}
	if status := n.Get("status"); status != nil {
		e.Status = expr.Literal(p.whole(status, "status", 0, 999))
	}
	e.Title = p.textOrExpression(n.Get("title"), "title", s)
	e.Detail = p.textOrExpression(n.Get("detail"), "detail", s)
	e.Instance = p.textOrExpression(n.Get("instance"), "instance", s)
	if at := n.Get("instance"); at != nil && at.Shape == yaml.Text && at.Text() != "" && at.Text()[0] != '/' && !whole(at.Text()).is {
		p.Mistake(at.Pos, "write it as /do/0/name", "instance: %s is not a JSON pointer", yaml.Quote(at.Text()))
	}
	return e
}

func errorMembers() []string { return []string{"type", "status", "instance", "title", "detail"} }

// errorFilter parses which errors to catch.
func (p *faults) errorFilter(n *yaml.Node) map[string]any {
	if n == nil || !p.object(n, "catch.errors", keys("with").others().under("with", errorMembers()...)) {
		return nil
	}
	with := n.Get("with")
	if with == nil {
		return nil
	}
	if with.Shape == yaml.Object && len(with.Fields) == 0 {
		p.Mistake(with.Pos, "add one of "+strings.Join(errorMembers(), ", "), "catch.errors.with is empty")
	}
	filter := map[string]any{}
	for _, f := range p.mapOf(with, "catch.errors.with") {
		switch f.Key {
		case "status":
			filter["status"] = p.whole(f.Value, "status", 0, 999)
		case "details", "detail", "type", "instance", "title":
			s, _ := p.text(f.Value, f.Key)
			filter[strings.TrimSuffix(f.Key, "s")] = s
			if strings.Contains(s, "${") {
				p.Warn(ruleText, f.Value.Pos, "compare it in catch.when", "this is the text %s, not the value of an expression", yaml.Quote(s))
			}
			if f.Key == "type" {
				p.errorBase(f.Value, s)
				p.errorType(f.Value, s)
			}
		default:
			filter[f.Key] = f.Value.Data
			p.Warn(ruleErrorType, f.Pos, p.guessKey(f.Key, errorMembers(), errorMembers()), "errors have no member %s: nothing is caught", yaml.Quote(f.Key))
		}
	}
	return filter
}

// errorBase warns if a document uses two base URIs for standard errors.
func (p *faults) errorBase(n *yaml.Node, typ string) {
	base, name := event.CutBase(typ)
	switch _, known := p.bases[base]; {
	case base == "" || known:
	case p.bases == nil:
		p.bases, p.base = map[string]yaml.Pos{base: n.Pos}, base
	default:
		p.bases[base] = n.Pos
		p.Warn(ruleErrorType, n.Pos, "write it as "+p.base+name,
			"the types of standard errors begin with %s on line %d: both mean the same, but a single form is easier to read",
			p.base, p.bases[p.base].Line)
	}
}

// standardTypes returns the names of the standard errors.
func standardTypes() []string {
	return []string{"configuration", "validation", "expression", "authentication", "authorization", "timeout", "communication", "runtime"}
}

// errorType warns about a standard error type that does not exist.
func (p *faults) errorType(n *yaml.Node, typ string) {
	if base, name := event.CutBase(typ); base != "" && !slices.Contains(standardTypes(), name) {
		p.Warn(ruleErrorType, n.Pos, p.guess(name, standardTypes()), "there is no standard error %s", yaml.Quote(name))
	}
}

// retry parses a policy, or resolves a reference to one; as is the name of the error's variable.
func (p *faults) retry(n *yaml.Node, as string, s scope) *RetryPolicy {
	switch {
	case n == nil:
		return nil
	case n.Shape != yaml.Text:
		return p.retryPolicy(n, as, s)
	}
	if _, ok := p.retries.nodes[n.Text()]; !ok {
		p.Mistake(n.Pos, reference(n.Text(), "use.retries", p.retries.names), "unknown retry policy %s", yaml.Quote(n.Text()))
		return nil
	}
	return p.sharedRetry(n.Text(), as)
}

// sharedRetry parses a policy of use.retries; as is the name of the error's variable where the
// policy is used.
func (p *faults) sharedRetry(name, as string) *RetryPolicy {
	key := [2]string{name, as}
	if r, ok := p.retryPolicies[key]; ok {
		return r
	}
	r := p.retryPolicy(p.retries.nodes[name], as, nil)
	p.retryPolicies[key] = r
	return r
}

// unusedRetries checks the policies of use.retries that no catch uses.
func (p *faults) unusedRetries() {
	used := make(map[string]bool, len(p.retryPolicies))
	for key := range p.retryPolicies {
		used[key[0]] = true
	}
	for _, name := range p.retries.names {
		if !used[name] {
			p.sharedRetry(name, "error")
		}
	}
}

func (p *faults) retryPolicy(n *yaml.Node, as string, outer scope) *RetryPolicy {
	r := &RetryPolicy{Backoff: "constant"}
	for _, count := range []string{"maxAttempts", "attempts", "max", "times", "count", "maxRetries"} {
		if f := n.Get(count); f != nil && n.Get("limit") == nil {
			times, ok := wholeNumber(f.Data)
			if !ok {
				times = 5
			}
			p.Mistake(n.KeyPos(count), fmt.Sprintf("write `limit: {attempt: {count: %d}}`", times), "unknown key %s in retry", yaml.Quote(count))
			return r
		}
	}
	if !p.object(n, "retry", keys("when", "exceptWhen", "delay", "backoff", "limit", "jitter")) {
		return r
	}
	s := outer.catching(as).during()
	r.When = p.condition(n.Get("when"), "retry.when", s)
	r.ExceptWhen = p.condition(n.Get("exceptWhen"), "retry.exceptWhen", s)
	r.Delay = p.duration(n.Get("delay"), "retry.delay", s)
	if backoff := n.Get("backoff"); backoff != nil {
		r.Backoff = p.backoff(backoff)
	}
	if jitter := n.Get("jitter"); jitter != nil && p.object(jitter, "retry.jitter", keys("from", "to").need("from", "to")) {
		r.JitterFrom = p.duration(jitter.Get("from"), "retry.jitter.from", s)
		r.JitterTo = p.duration(jitter.Get("to"), "retry.jitter.to", s)
		p.jitter(jitter, r.JitterFrom, r.JitterTo)
	}
	p.retryLimit(r, n, outer.during()) // limits are set before there is an error
	return r
}

func (p *faults) backoff(n *yaml.Node) string {
	kinds := []string{"constant", "linear", "exponential"}
	if n.Shape == yaml.Text && slices.Contains(kinds, n.Text()) {
		p.Mistake(n.Pos, "write it as {"+n.Text()+": {}}", "retry.backoff: want a map, this is text")
		return n.Text()
	}
	if !p.object(n, "retry.backoff", keys(kinds...)) {
		return "constant"
	}
	found := "constant"
	for _, f := range n.Fields {
		for _, option := range p.mapOf(f.Value, "retry.backoff."+yaml.Short(f.Key)) {
			p.Warn(ruleUnknownKey, option.Pos, "the delay grows with the number of the retry n: linear by n, exponential by 2^(n-1)",
				"%s is not a known key of retry.backoff.%s: it is ignored", yaml.Quote(option.Key), yaml.Short(f.Key))
		}
		if slices.Contains(kinds, f.Key) {
			found = f.Key
		}
	}
	if len(n.Fields) != 1 {
		p.Mistake(n.Pos, "keep one of constant, linear, exponential", "retry.backoff needs exactly one kind")
	}
	return found
}

// jitter warns about a range whose start is after its end.
func (p *faults) jitter(n *yaml.Node, from, to *expr.Value) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	least, ok := ConstantDuration(from)
	most, also := ConstantDuration(to)
	if ok && also && least.From(begin).After(most.From(begin)) {
		p.Warn(ruleJitter, n.Pos, fmt.Sprintf("write from: %v, to: %v", most, least), "retry.jitter: from is longer than to")
	}
}

// retryLimit parses the limit of a policy, and warns if it has none.
func (p *faults) retryLimit(r *RetryPolicy, n *yaml.Node, s scope) {
	limit := n.Get("limit")
	before := len(p.Mistakes)
	if limit != nil && p.object(limit, "retry.limit", keys("attempt", "duration").under("attempt", "count")) {
		r.Duration = p.duration(limit.Get("duration"), "retry.limit.duration", s)
		attempt := limit.Get("attempt")
		if attempt != nil && p.object(attempt, "retry.limit.attempt", keys("count", "duration")) {
			r.AttemptCount = p.whole(attempt.Get("count"), "retry.limit.attempt.count", 1, 1<<31-1)
			r.AttemptDuration = p.duration(attempt.Get("duration"), "retry.limit.attempt.duration", s)
		}
	}
	if r.AttemptCount == 0 && r.Duration == nil && len(p.Mistakes) == before {
		p.Warn(ruleRetryLimit, n.Pos, "add `limit: {attempt: {count: 5}}`", "this retries forever")
	}
}

// timeout parses a timeout, or resolves a reference to one.
func (p *faults) timeout(n *yaml.Node, s scope) *expr.Value {
	switch {
	case n == nil:
		return nil
	case n.Shape == yaml.Text:
		named, ok := p.timeouts.nodes[n.Text()]
		if d, err := ParseDuration(n.Text()); !ok && err == nil {
			p.Mistake(n.Pos, "write it as {after: "+d.String()+"}", "timeout: want a map, or the name of a timeout; %s is a duration", yaml.Quote(n.Text()))
			return nil
		}
		if !ok {
			p.Mistake(n.Pos, reference(n.Text(), "use.timeouts", p.timeouts.names), "unknown timeout %s", yaml.Quote(n.Text()))
			return nil
		}
		return p.timeoutOf(named, s)
	default:
		return p.timeoutOf(n, s)
	}
}

func (p *faults) timeoutOf(n *yaml.Node, s scope) *expr.Value {
	if !p.object(n, "timeout", keys("after").need("after")) {
		return nil
	}
	return p.duration(n.Get("after"), "timeout.after", s)
}
