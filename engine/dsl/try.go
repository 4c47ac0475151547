package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
)

// try parses a try task.
func (p *parser) try(t *Task, n *node, at place) {
	t.Try = &TryTask{Try: p.tasks(n.get("try"), "try", t.Ref+"/try", at.local)}
	catch := n.get("catch")
	if catch == nil {
		if !p.misspelt(n, "catch", append(commonKeys(), "try", "catch")) {
			p.mistake(t.Pos, "add `catch: …`", "task %s: try has no catch", quote(t.Name))
		}
		return
	}
	c := &t.Try.Catch
	c.As = "error"
	if !p.object(catch, "catch", keys("errors", "as", "when", "exceptWhen", "retry", "do", "then").
		under("errors", "with").under("errors: with", "type", "status").under("retry", "delay", "backoff", "limit")) {
		return
	}
	c.With = p.errorFilter(catch.get("errors"))
	c.As = p.variable(catch.get("as"), "catch.as", "error")
	inner := at.local.catching(c.As)
	c.When = p.condition(catch.get("when"), "catch.when", inner.during())
	c.ExceptWhen = p.condition(catch.get("exceptWhen"), "catch.exceptWhen", inner.during())
	c.Retry = p.retry(catch.get("retry"), c.As, inner)
	if do := catch.get("do"); do != nil {
		c.Do = p.tasks(do, "catch.do", t.Ref+"/catch/do", inner)
	}
	c.Then = p.then(catch.get("then"), at)
}

func errorMembers() []string { return []string{"type", "status", "instance", "title", "detail"} }

// errorFilter parses which errors are caught.
func (p *parser) errorFilter(n *node) map[string]any {
	if n == nil || !p.object(n, "catch.errors", keys("with").others().under("with", errorMembers()...)) {
		return nil
	}
	with := n.get("with")
	if with == nil || !p.object(with, "catch.errors.with", keys(append(errorMembers(), "details")...).others()) {
		return nil
	}
	if len(with.fields) == 0 {
		p.mistake(with.Pos, "add one of "+strings.Join(errorMembers(), ", "), "catch.errors.with is empty")
	}
	filter := map[string]any{}
	for _, f := range with.fields {
		switch f.key {
		case "status":
			filter["status"] = p.whole(f.value, "status", 0, 999)
		case "details", "detail", "type", "instance", "title":
			s, _ := p.text(f.value, f.key)
			filter[strings.TrimSuffix(f.key, "s")] = s
			if f.key == "type" {
				p.errorBase(f.value, s)
				p.errorType(f.value, s)
			}
		default:
			filter[f.key] = f.value.data
			if closest(f.key, errorMembers()) == "" {
				p.warn(f.pos, "allowed keys: "+strings.Join(errorMembers(), ", "), "no error has a member %s: nothing is caught", quote(f.key))
			}
		}
	}
	return filter
}

// standardBases returns the base URIs of standard error types, in the versions of the
// specification and its conformance tests.
func standardBases() []string {
	return []string{
		"https://serverlessworkflow.io/spec/1.0.0/errors/",
		"https://open-workflow-specification.org/spec/1.0.0/errors/",
		"https://serverlessworkflow.io/dsl/errors/types/",
		"https://open-workflow-specification.org/dsl/errors/types/",
		"https://serverlessworkflow.io.io/dsl/errors/types/",
	}
}

// errorBase warns of a document that uses two base URIs for standard errors.
func (p *parser) errorBase(n *node, typ string) {
	bases := standardBases()
	i := slices.IndexFunc(bases, func(base string) bool { return strings.HasPrefix(typ, base) })
	if i < 0 {
		return
	}
	if p.bases == nil {
		p.bases = map[string]Pos{bases[i]: n.Pos}
		p.base = bases[i]
		return
	}
	if _, known := p.bases[bases[i]]; !known {
		p.bases[bases[i]] = n.Pos
		p.warn(n.Pos, "write it as "+p.base+strings.TrimPrefix(typ, bases[i]),
			"the types of standard errors begin with %s on line %d: they mean the same, but one way is easier to read",
			p.base, p.bases[p.base].Line)
	}
}

// retry parses a policy, or resolves a reference to one.
func (p *parser) retry(n *node, as string, s scope) *RetryPolicy {
	switch {
	case n == nil:
		return nil
	case n.shape != text:
		return p.retryPolicy(n, s)
	}
	if _, ok := p.shared.retries.find(n.text()); !ok {
		p.mistake(n.Pos, reference(n.text(), "use.retries", p.shared.retries.names), "unknown retry policy %s", quote(n.text()))
		return nil
	}
	return p.sharedRetry(n.text(), as)
}

// sharedRetry parses a policy of use.retries; as is the name of the error's variable at
// its use.
func (p *parser) sharedRetry(name, as string) *RetryPolicy {
	key := [2]string{name, as}
	if r, ok := p.shared.repeats[key]; ok {
		return r
	}
	r := p.retryPolicy(p.shared.retries.nodes[name], scope(nil).catching(as))
	p.shared.repeats[key] = r
	return r
}

func (p *parser) retryPolicy(n *node, inner scope) *RetryPolicy {
	r := &RetryPolicy{Backoff: "constant"}
	for _, count := range []string{"maxAttempts", "attempts", "max", "times", "count", "maxRetries"} {
		if f := n.get(count); f != nil && n.get("limit") == nil {
			p.mistake(n.keyOf(count), "write `limit: {attempt: {count: 5}}`", "unknown key %s in retry", quote(count))
			return r
		}
	}
	if !p.object(n, "retry", keys("when", "exceptWhen", "delay", "backoff", "limit", "jitter")) {
		return r
	}
	s := inner.during()
	r.When = p.condition(n.get("when"), "retry.when", s)
	r.ExceptWhen = p.condition(n.get("exceptWhen"), "retry.exceptWhen", s)
	r.Delay = p.duration(n.get("delay"), "retry.delay", s)
	if backoff := n.get("backoff"); backoff != nil {
		r.Backoff = p.backoff(backoff)
	}
	if jitter := n.get("jitter"); jitter != nil && p.object(jitter, "retry.jitter", keys("from", "to").need("from", "to")) {
		r.JitterFrom = p.duration(jitter.get("from"), "retry.jitter.from", s)
		r.JitterTo = p.duration(jitter.get("to"), "retry.jitter.to", s)
		p.jitter(jitter, r.JitterFrom, r.JitterTo)
	}
	p.retryLimit(r, n, s)
	return r
}

func (p *parser) backoff(n *node) string {
	kinds := []string{"constant", "linear", "exponential"}
	if n.shape == text && slices.Contains(kinds, n.text()) {
		p.mistake(n.Pos, "write it as {"+n.text()+": {}}", "retry.backoff: want a map, this is text")
		return n.text()
	}
	if !p.object(n, "retry.backoff", keys(kinds...)) {
		return "constant"
	}
	found := "constant"
	for _, f := range n.fields {
		p.mapOf(f.value, "retry.backoff."+short(f.key))
		if slices.Contains(kinds, f.key) {
			found = f.key
		}
	}
	if len(n.fields) != 1 {
		p.mistake(n.Pos, "keep one of constant, linear, exponential", "retry.backoff wants exactly one kind")
	}
	return found
}

// retryLimit parses the limit of a policy, and warns if there is none.
func (p *parser) retryLimit(r *RetryPolicy, n *node, s scope) {
	limit := n.get("limit")
	before := len(p.mistakes)
	if limit != nil && p.object(limit, "retry.limit", keys("attempt", "duration").under("attempt", "count")) {
		r.Duration = p.duration(limit.get("duration"), "retry.limit.duration", s)
		attempt := limit.get("attempt")
		if attempt != nil && p.object(attempt, "retry.limit.attempt", keys("count", "duration")) {
			r.AttemptCount = p.whole(attempt.get("count"), "retry.limit.attempt.count", 1, 1<<31-1)
			r.AttemptDuration = p.duration(attempt.get("duration"), "retry.limit.attempt.duration", s)
		}
	}
	if r.AttemptCount == 0 && r.Duration == nil && len(p.mistakes) == before {
		p.warn(n.Pos, "add `limit: {attempt: {count: 5}}`", "this retries without end")
	}
}

// raise parses the error to raise, or resolves a reference to one.
func (p *parser) raise(t *Task, n *node, s scope) {
	t.Raise = &ErrorTemplate{}
	if !p.object(n, "raise", keys("error").need("error").under("error", "type", "status", "title", "detail", "instance")) {
		return
	}
	switch e := n.get("error"); {
	case e == nil:
	case e.shape != text:
		t.Raise = p.errorTemplate(e, s)
	default:
		if _, ok := p.shared.errors.find(e.text()); !ok {
			p.mistake(e.Pos, reference(e.text(), "use.errors", p.shared.errors.names), "unknown error %s", quote(e.text()))
			return
		}
		t.Raise = p.sharedError(e.text())
	}
}

func (p *parser) sharedError(name string) *ErrorTemplate {
	if e, ok := p.shared.templates[name]; ok {
		return e
	}
	e := p.errorTemplate(p.shared.errors.nodes[name], scope{}.during())
	p.shared.templates[name] = e
	return e
}

func (p *parser) errorTemplate(n *node, s scope) *ErrorTemplate {
	e := &ErrorTemplate{}
	if !p.object(n, "error", keys(errorMembers()...).need("type", "status")) {
		return e
	}
	if typ := n.get("type"); typ != nil {
		e.Type = p.uri(typ, "type", s)
		p.errorBase(typ, typ.text())
		p.errorType(typ, typ.text())
	}
	if status := n.get("status"); status != nil {
		e.Status = expr.Literal(p.whole(status, "status", 0, 999))
	}
	e.Title = p.textOrExpression(n.get("title"), "title", s)
	e.Detail = p.textOrExpression(n.get("detail"), "detail", s)
	e.Instance = p.textOrExpression(n.get("instance"), "instance", s)
	if at := n.get("instance"); at != nil && at.shape == text && at.text() != "" && at.text()[0] != '/' && !whole(at.text()).is {
		p.mistake(at.Pos, "write it as /do/0/name", "instance: %s is not a JSON pointer", quote(at.text()))
	}
	return e
}
