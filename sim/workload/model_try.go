package workload

import (
	"fmt"
	"slices"
	"time"
)

// policy is a retry policy.
type policy struct {
	delay            time.Duration
	backoff          string
	count            int
	attempt, overall time.Duration
	status           int // retries only this status; any if 0

	only, not int // catches only, or all but, this status; any if 0
}

// catches reports whether an error is caught.
func (p policy) catches(status int) bool { return (p.only == 0 || status == p.only) && status != p.not }

func (g *generator) policy() (p policy, line string) {
	d, text := g.irregular(20)
	p.delay, p.count = d, 1+g.IntN(3)
	p.backoff = []string{"", "linear", "exponential", "constant"}[g.IntN(4)]
	line = "delay: " + text
	if p.backoff != "" {
		line += ", backoff: {" + p.backoff + ": {}}"
	}
	attempt, overall := "", ""
	if g.IntN(3) == 0 {
		p.attempt, text = g.irregular(150)
		attempt = ", duration: " + text
	}
	if g.IntN(3) == 0 {
		p.overall, text = g.irregular(300)
		overall = ", duration: " + text
	}
	line += fmt.Sprintf(", limit: {attempt: {count: %d%s}%s}", p.count, attempt, overall)
	if g.IntN(4) == 0 {
		p.status = []int{500, 503, 408}[g.IntN(3)]
		line += fmt.Sprintf(`, when: "$error.status == %d"`, p.status)
	}
	return p, "retry: {" + line + "}"
}

// after returns the delay of the n-th retry.
func (p policy) after(n int) time.Duration {
	switch p.backoff {
	case "linear":
		return p.delay * time.Duration(n)
	case "exponential":
		return p.delay << (n - 1)
	default:
		return p.delay
	}
}

// try catches an error without retries.
func (g *generator) try(name string, depth int) kind { return g.trying(name, depth, false) }

// retry catches an error after some attempts.
func (g *generator) retry(name string, depth int) kind { return g.trying(name, depth, true) }

// fails raises an error until it has run often enough.
func (g *generator) fails(name string) []listedTask {
	counter, often := "k"+name, g.IntN(4)
	return []listedTask{counting(name+"a", counter), {name + "b", fragment{
		[]string{fmt.Sprintf(`- %sb: {if: "$context.%s <= %d", raise: {error: {type: https://a.example/no, status: 500}}}`, name, counter, often)},
		func(c *modelContext, n int, at time.Duration) modelEnd {
			if c.now()[counter] <= often {
				return modelEnd{at: at, err: &modelError{500}}
			}
			return modelEnd{n: n, at: at}
		},
	}}}
}

func (g *generator) trying(name string, depth int, again bool) kind {
	rest, raising := g.list(depth, 1+g.IntN(2)), g.fails(name)
	body := listed(append(slices.Clone(rest), raising...))
	if g.IntN(2) == 0 {
		body = listed(append(raising, rest...))
	}
	var p policy
	var catch []string
	only, not := 0, 0
	status := 0 // of the error that is handled
	if g.IntN(4) == 0 {
		only = []int{500, 503, 408}[g.IntN(3)]
		catch = append(catch, fmt.Sprintf("errors: {with: {status: %d}}", only))
	}
	if g.IntN(4) == 0 {
		not = []int{500, 503, 408}[g.IntN(3)]
		catch = append(catch, fmt.Sprintf(`exceptWhen: "$error.status == %d"`, not))
	}
	if again {
		policy, line := g.policy()
		p, catch = policy, append(catch, line)
	}
	p.only, p.not = only, not
	caught := listedTask{name + "z", fragment{
		[]string{fmt.Sprintf(`- %sz: {set: {n: "${ .n + $error.status }"}}`, name)},
		instantly(func(_ *modelContext, n int) int { return n + status }),
	}}
	handler := listed(append([]listedTask{caught}, g.list(0, 1)...))
	handled := g.IntN(3) > 0
	if handled {
		catch = append(catch, nested("do", handler.lines)...)
	}
	then := ""
	if handled && g.IntN(4) == 0 {
		then = "exit"
		catch = append(catch, "then: exit")
	}
	if len(catch) == 0 {
		catch = []string{"as: error"}
	}
	lines := append(nested("try", body.lines), nested("catch", catch)...)
	return kind{long: true, fragment: fragment{lines, func(c *modelContext, n int, at time.Duration) modelEnd {
		r, caught := g.attempts(c, p, body, n, at)
		switch {
		case !caught, !handled && again:
			return r
		case !handled:
			return modelEnd{n: n, at: r.at}
		}
		before := status
		status = r.err.status
		end := handler.run(c, n, r.at)
		if status = before; end.then == "" && end.err == nil {
			end.then = then
		}
		return end
	}}}
}

// attempts runs the body until it succeeds, or is not tried again. caught reports whether it ended with
// an error that the catch handles.
func (g *generator) attempts(c *modelContext, p policy, body fragment, n int, at time.Duration) (r modelEnd, caught bool) {
	deadline := at + p.overall
	for tried := 1; ; tried++ {
		r := g.within(c, p.attempt, at, func() modelEnd { return body.run(c, n, at) })
		if p.overall > 0 {
			// An attempt that begins when the overall time is up does not count.
			r = g.within(c, deadline-at, at, func() modelEnd { return r })
			if r.err != nil && r.at == deadline {
				return r, p.catches(408)
			}
		}
		next := r.at + p.after(tried)
		switch {
		case r.never || g.never:
			return modelEnd{never: true}, false
		case r.err == nil, !p.catches(r.err.status):
			return r, false
		case tried > p.count, p.status != 0 && p.status != r.err.status, p.overall > 0 && next >= deadline:
			return r, true
		}
		at = next
	}
}
