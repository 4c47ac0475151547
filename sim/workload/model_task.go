package workload

import (
	"fmt"
	"time"
)

// task generates a task of any kind, with properties that all tasks can have.
func (g *generator) task(name string, depth int, later []string) fragment {
	kind := g.kind(name, depth)
	var before, after []string
	skip, from, out, export, limit := -1, 0, 0, "", time.Duration(0)
	if g.IntN(6) == 0 {
		skip = g.IntN(3)
		before = append(before, fmt.Sprintf(`if: ".n %% 3 != %d"`, skip))
	}
	if g.IntN(6) == 0 {
		from = 1 + g.IntN(9)
		before = append(before, fmt.Sprintf(`input: {from: "${ {n: (.n + %d)} }"}`, from))
	}
	if kind.folds == "" && g.IntN(6) == 0 {
		out = 2 + g.IntN(5)
		after = append(after, fmt.Sprintf(`output: {as: "${ {n: (.n * %d %% %d)} }"}`, out, modulus))
	} else if kind.folds != "" {
		after = append(after, `output: {as: "`+kind.folds+`"}`)
	}
	if g.IntN(4) == 0 {
		export = string("cde"[g.IntN(3)])
		after = append(after, fmt.Sprintf(`export: {as: "${ $context + {%s: ((($context.%s // 0) * 2 + .n) %% %d)} }"}`, export, export, modulus))
	}
	if kind.long && g.IntN(3) == 0 {
		d, text := g.irregular(200)
		limit = d
		before = append(before, "timeout: {after: "+text+"}")
	}
	then := ""
	if kind.plain && g.IntN(8) == 0 {
		then = append([]string{"exit", "continue", "end"}, later...)[g.IntN(3+len(later))]
		after = append(after, "then: "+then)
	}
	lines := append(before, kind.lines...)
	p := fragment{lines: append([]string{"- " + name + ":"}, indented("    ", append(lines, after...))...)}
	p.run = func(c *modelContext, n int, at time.Duration) modelEnd {
		if skip >= 0 && n%3 == skip {
			return modelEnd{n: n, at: at}
		}
		r := g.within(c, limit, at, func() modelEnd { return kind.run(c, (n + from), at) })
		if r.err != nil || r.never {
			return r
		}
		if out > 0 {
			r.n = r.n * out % modulus
		}
		if export != "" {
			c.with(r.at, export, (c.now()[export]*2+r.n)%modulus)
		}
		if r.then == "" || r.then == "continue" && then != "" {
			r.then = then
		}
		return r
	}
	return p
}

// within applies a time limit to a run; 0 is no limit.
func (g *generator) within(c *modelContext, limit, at time.Duration, run func() modelEnd) modelEnd {
	r := run()
	switch end := at + limit; {
	case limit == 0 || g.never || !r.never && r.at < end:
		return r
	case !r.never && r.at == end || !c.cut(end):
		g.never = true
		return modelEnd{never: true}
	default:
		return modelEnd{at: end, err: &modelError{408}}
	}
}

// kind is the part of a task that is specific to its kind.
type kind struct {
	fragment

	folds string // an expression that turns an output that is a list into a number
	long  bool   // it may take time
	plain bool   // it has no tasks inside
}

func (g *generator) kind(name string, depth int) kind {
	simple := []func(string) kind{g.set, g.wait, g.ask, g.read, g.twins, g.say, g.skipper}
	if depth == 0 {
		return simple[g.IntN(len(simple))](name)
	}
	deep := []func(string, int) kind{g.do, g.loop, g.fork, g.compete, g.try, g.retry, g.visits}
	if i := g.IntN(len(simple) + 2*len(deep) + 3); i < len(simple) {
		return simple[i](name)
	} else if i < len(simple)+3 {
		return []func(string) kind{g.child, g.listen, g.listen}[i-len(simple)](name)
	}
	return deep[g.IntN(len(deep))](name, depth-1)
}

func instantly(n func(c *modelContext, n int) int) func(*modelContext, int, time.Duration) modelEnd {
	return func(c *modelContext, in int, at time.Duration) modelEnd { return modelEnd{n: n(c, in), at: at} }
}

func (g *generator) set(string) kind {
	k := g.IntN(9)
	return kind{plain: true, fragment: fragment{[]string{fmt.Sprintf(`set: {n: "${ .n + %d }"}`, k)}, instantly(func(_ *modelContext, n int) int { return n + k })}}
}

func (g *generator) read(string) kind {
	m := string("cde"[g.IntN(3)])
	return kind{plain: true, fragment: fragment{
		[]string{fmt.Sprintf(`set: {n: "${ (.n * 3 + ($context.%s // 0)) %% %d }"}`, m, modulus)},
		instantly(func(c *modelContext, n int) int { return (n*3 + c.now()[m]) % modulus }),
	}}
}

func (g *generator) say(string) kind {
	return kind{plain: true, folds: "${ $input }", fragment: fragment{
		[]string{`emit: {event: {with: {type: com.example.said, source: /me, data: {n: 1}}}}`}, instantly(func(_ *modelContext, n int) int { return n }),
	}}
}

// skipper is a switch without a default case.
func (g *generator) skipper(string) kind {
	k := g.IntN(3)
	then := []string{"continue", "exit"}[g.IntN(2)]
	return kind{fragment: fragment{
		[]string{fmt.Sprintf(`switch: [{some: {when: ".n %% 3 == %d", then: %s}}, {more: {when: ".n %% 3 != 0", then: continue}}]`, k, then)},
		func(_ *modelContext, n int, at time.Duration) modelEnd {
			if n%3 == k {
				return modelEnd{n: n, at: at, then: then}
			}
			return modelEnd{n: n, at: at}
		},
	}}
}

func (g *generator) wait(string) kind {
	d, text := g.irregular(100)
	return kind{plain: true, long: true, fragment: fragment{
		[]string{"wait: " + text},
		func(_ *modelContext, n int, at time.Duration) modelEnd { return modelEnd{n: n, at: at + d} },
	}}
}

// ask is a call, which may fail.
func (g *generator) ask(name string) kind {
	const good, bad = 3011 * time.Millisecond, 1037 * time.Millisecond
	fails := g.IntN(8) == 0
	host := map[bool]string{true: "bad", false: "good"}[fails]
	return kind{plain: true, long: g.IntN(4) == 0, fragment: fragment{
		[]string{`call: http`, fmt.Sprintf(`with: {method: get, endpoint: "https://%s.example/%s"}`, host, name)},
		func(_ *modelContext, _ int, at time.Duration) modelEnd {
			if fails {
				return modelEnd{at: at + bad, err: &modelError{503}}
			}
			return modelEnd{n: 7, at: at + good}
		},
	}}
}

// twins is a fork with two branches that take no time.
func (g *generator) twins(name string) kind {
	k := g.IntN(9)
	return kind{folds: fold, fragment: fragment{
		[]string{fmt.Sprintf(`fork: {branches: [{%sa: {set: {n: "${ .n + %d }"}}}, {%sb: {set: {n: "${ .n * 2 }"}}}]}`, name, k, name)},
		instantly(func(_ *modelContext, n int) int { return folded(n+k, n*2) }),
	}}
}

// fold turns a list of numbers, some of which may be missing, into a number.
const fold = `${ {n: (reduce .[] as $x (0; (. * 3 + ($x.n? // 0)) % 1000003))} }`

func folded(ns ...int) int {
	out := 0
	for _, n := range ns {
		out = (out*3 + n) % modulus
	}
	return out
}

func (g *generator) child(string) kind {
	if g.IntN(3) == 0 {
		return kind{plain: true, fragment: fragment{
			[]string{`run: {workflow: {namespace: test, name: failing, version: '1.0.0', input: {n: "${ .n }"}}}`},
			func(_ *modelContext, _ int, at time.Duration) modelEnd {
				return modelEnd{at: at + 200*time.Millisecond, err: &modelError{500}}
			},
		}}
	}
	return kind{plain: true, long: true, fragment: fragment{
		[]string{`run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {n: "${ .n }"}}}`},
		func(_ *modelContext, n int, at time.Duration) modelEnd {
			return modelEnd{n: n + 1, at: at + 100*time.Millisecond}
		},
	}}
}

// listen receives events from outside, in one of the modes of the DSL.
func (g *generator) listen(string) kind {
	typ, other := string("abc"[g.IntN(3)]), string("abc"[g.IntN(3)])
	with := func(t string) string { return "{with: {type: com.example." + t + "}}" }
	k := 1 + g.IntN(4)
	mode := g.IntN(5)
	to := []string{
		"one: " + with(typ),
		"any: [" + with(typ) + ", " + with(other) + "]",
		fmt.Sprintf("any: [%s], until: length >= %d", with(typ), k),
		"all: [" + with("a") + ", " + with("b") + "]",
		"any: [" + with("a") + ", " + with("b") + "], until: {one: " + with("c") + "}",
	}[mode]
	return kind{folds: fold, long: true, fragment: fragment{
		[]string{"listen: {to: {" + to + "}}"},
		func(_ *modelContext, _ int, at time.Duration) modelEnd {
			var ns []int
			seen := map[string]bool{}
			for _, e := range g.events {
				if e.at <= at { // an event at this time belongs to the previous task
					continue
				}
				switch {
				case mode == 4 && e.typ == "c":
					return modelEnd{n: folded(ns...), at: e.at}
				case mode <= 2 && e.typ != typ && (mode != 1 || e.typ != other), mode == 3 && (e.typ == "c" || seen[e.typ]):
					continue
				}
				seen[e.typ] = true
				ns = append(ns, e.n)
				if mode < 2 || mode == 2 && len(ns) >= k || mode == 3 && len(ns) == 2 {
					return modelEnd{n: folded(ns...), at: e.at}
				}
			}
			return modelEnd{never: true}
		},
	}}
}
