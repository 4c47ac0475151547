package workload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A model generates random documents with their expected results in a run without faults,
// which it computes without the engine. All data has the form {n: …}; durations are irregular,
// so hardly any two events coincide.

// fragment is a part of a document together with its effect.
type fragment struct {
	lines []string
	run   func(c *modelContext, n int, at time.Duration) modelEnd
}

// modelEnd is how and when a fragment ends.
type modelEnd struct {
	n     int
	at    time.Duration
	then  string
	err   *modelError
	never bool // it never ends, or its result is ambiguous
}

// modelError is an error, identified by its status.
type modelError struct{ status int }

// modelContext is the value of $context over time; changes after a cut-off are dropped.
type modelContext struct{ log []change }

type change struct {
	at time.Duration
	v  map[string]int
}

func (c *modelContext) now() map[string]int { return c.log[len(c.log)-1].v }

func (c *modelContext) put(at time.Duration, v map[string]int) { c.log = append(c.log, change{at, v}) }

func (c *modelContext) with(at time.Duration, name string, n int) {
	v := maps.Clone(c.now())
	v[name] = n
	c.put(at, v)
}

// cut drops the changes after at. It returns false if a change happens exactly at that
// time.
func (c *modelContext) cut(at time.Duration) bool {
	for len(c.log) > 1 && c.log[len(c.log)-1].at > at {
		c.log = c.log[:len(c.log)-1]
	}
	return len(c.log) == 1 || c.log[len(c.log)-1].at < at
}

// generator generates fragments.
type generator struct {
	*rand.Rand

	names  int
	events []mockEvent
	never  bool // the result depends on the order of simultaneous events
}

// mockEvent is an event from outside.
type mockEvent struct {
	at  time.Duration
	typ string
	n   int
}

const modulus = 1000003

func (g *generator) name() string {
	g.names++
	return fmt.Sprintf("t%d", g.names)
}

// irregular returns a random duration that is hardly ever equal to another one, and its ISO form.
func (g *generator) irregular(seconds int) (time.Duration, string) {
	d := time.Duration(1+g.IntN(1000*seconds)) * time.Millisecond
	return d, fmt.Sprintf("PT%d.%03dS", d/time.Second, d%time.Second/time.Millisecond)
}

func indented(by string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = by + l
	}
	return out
}

// nested returns "name:" followed by the indented lines.
func nested(name string, lines []string) []string {
	return append([]string{name + ":"}, indented("  ", lines)...)
}

// document returns a whole document, its model and its mocks.
func (g *generator) document() (text string, run func() modelEnd, mocks string) {
	for i := range 60 {
		d := time.Duration(i)*61*time.Second + time.Duration(g.IntN(60_000))*time.Millisecond
		g.events = append(g.events, mockEvent{d, string("abc"[g.IntN(3)]), g.IntN(9)})
	}
	body := listed(g.list(3, 1+g.IntN(4)))
	limit, after := g.irregular(4000)
	lines := []string{"document: {dsl: '1.0.3', namespace: test, name: modelled, version: '1.0.0'}"}
	limited := g.IntN(4) == 0
	if limited {
		lines = append(lines, "timeout: {after: "+after+"}")
	}
	lines = append(lines, `input: {from: {n: 1}}`, `output: {as: "${ {n: .n, c: $context} }"}`)
	lines = append(lines, nested("do", body.lines)...)
	var m strings.Builder
	m.WriteString("http:\n  - {match: {url: 'https://bad.example/*'}, respond: {status: 503, latency: PT1.037S}}\n  - {respond: {latency: PT3.011S, body: {n: 7}}}\nevents:\n")
	for _, e := range g.events {
		fmt.Fprintf(&m, "  - {after: PT%d.%03dS, type: com.example.%s, source: /x, data: {n: %d}}\n", e.at/time.Second, e.at%time.Second/time.Millisecond, e.typ, e.n)
	}
	return strings.Join(lines, "\n"), func() modelEnd {
		c := &modelContext{log: []change{{0, map[string]int{}}}}
		r := body.run(c, 1, 0)
		if limited && !r.never && r.at == limit {
			r.never = true
		}
		if limited && (r.never && !g.never || r.at > limit) {
			r = modelEnd{at: limit, err: &modelError{408}}
		}
		r.n = r.n*modulus + digest(c.now())
		r.never = r.never || g.never
		return r
	}, m.String()
}

// digest hashes a context to a number.
func digest(v map[string]int) int {
	out := 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		for _, b := range []byte(name) {
			out = (out*31 + int(b)) % modulus
		}
		out = (out*31 + v[name]) % modulus
	}
	return out
}

// listedTask is a task of a list.
type listedTask struct {
	name string
	fragment
}

// list generates count tasks that run one after another.
func (g *generator) list(depth, count int) []listedTask {
	var tasks []listedTask
	for range count {
		tasks = append(tasks, listedTask{g.name(), fragment{}})
	}
	for i := range tasks {
		var later []string
		for _, t := range tasks[i+1:] {
			later = append(later, t.name)
		}
		tasks[i].fragment = g.task(tasks[i].name, depth, later)
	}
	return tasks
}

// counting is a task that counts its runs in $context.
func counting(name, counter string) listedTask {
	return listedTask{name, fragment{
		[]string{fmt.Sprintf(`- %s: {set: {n: "${ .n + 1 }"}, export: {as: "${ $context + {%s: (($context.%s // 0) + 1)} }"}}`, name, counter, counter)},
		func(c *modelContext, n int, at time.Duration) modelEnd {
			c.with(at, counter, c.now()[counter]+1)
			return modelEnd{n: n + 1, at: at}
		},
	}}
}

func listed(tasks []listedTask) fragment {
	p := fragment{run: func(c *modelContext, n int, at time.Duration) modelEnd {
		i := 0
		for i < len(tasks) {
			r := tasks[i].run(c, n, at)
			if r.err != nil || r.never {
				return r
			}
			n, at = r.n, r.at
			switch r.then {
			case "", "continue":
				i++
			case "exit":
				return modelEnd{n: n, at: at}
			case "end":
				return r
			default:
				i = slices.IndexFunc(tasks, func(t listedTask) bool { return t.name == r.then })
			}
		}
		return modelEnd{n: n, at: at}
	}}
	for _, t := range tasks {
		p.lines = append(p.lines, t.lines...)
	}
	return p
}
