package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

// try parses a try task.
func (p *parser) try(t *Task, n *yaml.Node, at place) {
	t.Try = &TryTask{Try: p.tasks(n.Get("try"), "try", t.Ref+"/try", at.local)}
	catch := n.Get("catch")
	if catch == nil {
		if !p.misspelt(n, "catch", append(commonKeys(), "try", "catch")) {
			p.Mistake(t.Pos, "add `catch: …`", "task %s: try has no catch", yaml.Quote(t.Name))
		}
		return
	}
	c := &t.Try.Catch
	c.As = "error"
	if !p.object(catch, "catch", keys("errors", "as", "when", "exceptWhen", "retry", "do", "then").
		under("errors", "with").under("errors: with", "type", "status").under("retry", "delay", "backoff", "limit")) {
		return
	}
	c.With = p.errorFilter(catch.Get("errors"))
	c.As = p.variable(catch.Get("as"), "catch.as", "error")
	inner := at.local.catching(c.As)
	c.When = p.condition(catch.Get("when"), "catch.when", inner.during())
	c.ExceptWhen = p.condition(catch.Get("exceptWhen"), "catch.exceptWhen", inner.during())
	c.Retry = p.retry(catch.Get("retry"), c.As, inner)
	if do := catch.Get("do"); do != nil {
		c.Do = p.tasks(do, "catch.do", t.Ref+"/catch/do", inner)
	}
	c.Then = p.then(catch.Get("then"), at)
}

func errorMembers() []string { return []string{"type", "status", "instance", "title", "detail"} }

// errorFilter parses which errors are caught.
func (p *parser) errorFilter(n *yaml.Node) map[string]any {
	if n == nil || !p.object(n, "catch.errors", keys("with").others().under("with", errorMembers()...)) {
		return nil
	}
	with := n.Get("with")
	if with == nil || !p.object(with, "catch.errors.with", keys(append(errorMembers(), "details")...).others()) {
		return nil
	}
	if len(with.Fields) == 0 {
		p.Mistake(with.Pos, "add one of "+strings.Join(errorMembers(), ", "), "catch.errors.with is empty")
	}
	filter := map[string]any{}
	for _, f := range with.Fields {
		switch f.Key {
		case "status":
			filter["status"] = p.whole(f.Value, "status", 0, 999)
		case "details", "detail", "type", "instance", "title":
			s, _ := p.text(f.Value, f.Key)
			filter[strings.TrimSuffix(f.Key, "s")] = s
			if f.Key == "type" {
				p.errorBase(f.Value, s)
				p.errorType(f.Value, s)
			}
		default:
			filter[f.Key] = f.Value.Data
			if closest(f.Key, errorMembers()) == "" {
				p.Warn(f.Pos, "allowed keys: "+strings.Join(errorMembers(), ", "), "no error has a member %s: nothing is caught", yaml.Quote(f.Key))
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
func (p *parser) errorBase(n *yaml.Node, typ string) {
	bases := standardBases()
	i := slices.IndexFunc(bases, func(base string) bool { return strings.HasPrefix(typ, base) })
	if i < 0 {
		return
	}
	if p.bases == nil {
		p.bases = map[string]yaml.Pos{bases[i]: n.Pos}
		p.base = bases[i]
		return
	}
	if _, known := p.bases[bases[i]]; !known {
		p.bases[bases[i]] = n.Pos
		p.Warn(n.Pos, "write it as "+p.base+strings.TrimPrefix(typ, bases[i]),
			"the types of standard errors begin with %s on line %d: they mean the same, but one way is easier to read",
			p.base, p.bases[p.base].Line)
	}
}

// retry parses a policy, or resolves a reference to one.
func (p *parser) retry(n *yaml.Node, as string, s scope) *RetryPolicy {
	switch {
	case n == nil:
		return nil
	case n.Shape != yaml.Text:
		return p.retryPolicy(n, s)
	}
	if _, ok := p.shared.retries.find(n.Text()); !ok {
		p.Mistake(n.Pos, reference(n.Text(), "use.retries", p.shared.retries.names), "unknown retry policy %s", yaml.Quote(n.Text()))
		return nil
	}
	return p.sharedRetry(n.Text(), as)
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

func (p *parser) retryPolicy(n *yaml.Node, inner scope) *RetryPolicy {
	r := &RetryPolicy{Backoff: "constant"}
	for _, count := range []string{"maxAttempts", "attempts", "max", "times", "count", "maxRetries"} {
		if f := n.Get(count); f != nil && n.Get("limit") == nil {
			p.Mistake(n.KeyPos(count), "write `limit: {attempt: {count: 5}}`", "unknown key %s in retry", yaml.Quote(count))
			return r
		}
	}
	if !p.object(n, "retry", keys("when", "exceptWhen", "delay", "backoff", "limit", "jitter")) {
		return r
	}
	s := inner.during()
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
	p.retryLimit(r, n, s)
	return r
}

func (p *parser) backoff(n *yaml.Node) string {
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
		p.mapOf(f.Value, "retry.backoff."+yaml.Short(f.Key))
		if slices.Contains(kinds, f.Key) {
			found = f.Key
		}
	}
	if len(n.Fields) != 1 {
		p.Mistake(n.Pos, "keep one of constant, linear, exponential", "retry.backoff wants exactly one kind")
	}
	return found
}

// retryLimit parses the limit of a policy, and warns if there is none.
func (p *parser) retryLimit(r *RetryPolicy, n *yaml.Node, s scope) {
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
		p.Warn(n.Pos, "add `limit: {attempt: {count: 5}}`", "this retries without end")
	}
}

// raise parses the error to raise, or resolves a reference to one.
func (p *parser) raise(t *Task, n *yaml.Node, s scope) {
	t.Raise = &ErrorTemplate{}
	if !p.object(n, "raise", keys("error").need("error").under("error", "type", "status", "title", "detail", "instance")) {
		return
	}
	switch e := n.Get("error"); {
	case e == nil:
	case e.Shape != yaml.Text:
		t.Raise = p.errorTemplate(e, s)
	default:
		if _, ok := p.shared.errors.find(e.Text()); !ok {
			p.Mistake(e.Pos, reference(e.Text(), "use.errors", p.shared.errors.names), "unknown error %s", yaml.Quote(e.Text()))
			return
		}
		t.Raise = p.sharedError(e.Text())
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

func (p *parser) errorTemplate(n *yaml.Node, s scope) *ErrorTemplate {
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
