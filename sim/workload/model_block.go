package workload

import (
	"fmt"
	"maps"
	"time"
)

func (g *generator) do(_ string, depth int) kind {
	body := listed(g.list(depth, 1+g.IntN(3)))
	return kind{long: true, fragment: fragment{nested("do", body.lines), body.run}}
}

// loop is a for task, with or without a while condition.
func (g *generator) loop(name string, depth int) kind {
	turns, stop := g.IntN(4), g.IntN(9)
	item := 0
	first := listedTask{name + "x", fragment{
		[]string{fmt.Sprintf(`- %sx: {set: {n: "${ (.n * 2 + $%si * 5 + $%sx) %% %d }"}}`, name, name, name, modulus)},
		instantly(func(_ *modelContext, n int) int { return (n*2 + item*5 + item + 3) % modulus }),
	}}
	body := listed(append([]listedTask{first}, g.list(depth, 1+g.IntN(2))...))
	lines := []string{fmt.Sprintf(`for: {each: %sx, at: %si, in: "${ [range(3; %d)] }"}`, name, name, turns+3)}
	while := g.IntN(2) == 0
	if while {
		lines = append(lines, fmt.Sprintf(`while: ".n %% 9 != %d"`, stop))
	}
	return kind{long: true, fragment: fragment{append(lines, nested("do", body.lines)...), func(c *modelContext, n int, at time.Duration) modelEnd {
		for i := range turns {
			if while && n%9 == stop {
				break
			}
			// A task inside may itself contain this loop, in a branch.
			before := item
			item = i
			r := body.run(c, n, at)
			item = before
			if r.err != nil || r.never || r.then == "end" {
				return r
			}
			n, at = r.n, r.at
		}
		return modelEnd{n: n, at: at}
	}}}
}

// branches generates the branches of a fork, each with its own copy of $context.
func (g *generator) branches(depth, count int) (tasks []listedTask, lines []string) {
	for range count {
		name := g.name()
		p := g.task(name, depth, nil)
		tasks = append(tasks, listedTask{name, p})
		lines = append(lines, p.lines...)
	}
	return tasks, lines
}

type branched struct {
	modelEnd

	c *modelContext
}

func eachBranch(tasks []listedTask, c *modelContext, n int, at time.Duration) (out []branched) {
	for _, t := range tasks {
		own := &modelContext{log: []change{{at, c.now()}}}
		out = append(out, branched{t.run(own, n, at), own})
	}
	return out
}

// fork waits for all branches, for the first that fails, or for the first that ends the
// workflow.
func (g *generator) fork(_ string, depth int) kind {
	tasks, lines := g.branches(depth, 1+g.IntN(3))
	return kind{long: true, folds: fold, fragment: fragment{nested("fork", nested("branches", lines)), func(c *modelContext, n int, at time.Duration) modelEnd {
		all, stop := eachBranch(tasks, c, n, at), -1
		for i, b := range all {
			if b.never || b.err == nil && b.then != "end" {
				continue
			}
			if stop >= 0 && all[stop].at == b.at {
				g.never = true
			}
			if stop < 0 || b.at < all[stop].at {
				stop = i
			}
		}
		end := modelEnd{at: at}
		for _, b := range all {
			if stop < 0 && b.never {
				return b.modelEnd
			}
			end.at = max(end.at, b.at)
		}
		if stop >= 0 && all[stop].err != nil {
			return all[stop].modelEnd
		}
		if stop >= 0 {
			end.at, end.then = all[stop].at, "end"
		}
		return g.joined(c, end, all, stop)
	}}}
}

// joined merges the results of the branches that have ended.
func (g *generator) joined(c *modelContext, end modelEnd, all []branched, stop int) modelEnd {
	base, merged, ns := c.now(), maps.Clone(c.now()), []int(nil)
	for i, b := range all {
		if i != stop && stop >= 0 && !b.never && b.at == end.at {
			g.never = true
		}
		if b.never || b.at > end.at {
			ns = append(ns, 0)
			continue
		}
		ns = append(ns, b.n)
		for name, v := range b.c.now() {
			if old, had := base[name]; !had || old != v {
				merged[name] = v
			}
		}
	}
	c.put(end.at, merged)
	end.n = folded(ns...)
	return end
}

// compete waits for the first branch that succeeds.
func (g *generator) compete(_ string, depth int) kind {
	tasks, lines := g.branches(depth, 2+g.IntN(2))
	lines = append([]string{"compete: true"}, nested("branches", lines)...)
	return kind{long: true, fragment: fragment{nested("fork", lines), func(c *modelContext, n int, at time.Duration) modelEnd {
		all, best := eachBranch(tasks, c, n, at), -1
		for i, b := range all {
			if b.never {
				continue
			}
			if best >= 0 && b.at == all[best].at {
				g.never = true
			}
			better := best < 0 || b.err == nil && (all[best].err != nil || b.at < all[best].at) || b.err != nil && all[best].err != nil && b.at > all[best].at
			if better {
				best = i
			}
		}
		if best < 0 {
			return modelEnd{never: true}
		}
		r := all[best]
		if r.err != nil { // all have failed, or some never end
			for _, b := range all {
				if b.never {
					return b.modelEnd
				}
			}
			return r.modelEnd
		}
		c.put(r.at, r.c.now())
		if r.then != "end" {
			r.then = ""
		}
		return r.modelEnd
	}}}
}

// visits is a list with a jump backwards, which runs several times.
func (g *generator) visits(name string, depth int) kind {
	visits, counter := 1+g.IntN(3), "k"+name
	work := listedTask{name + "b", g.task(name+"b", depth, nil)}
	again := listedTask{name + "c", fragment{
		[]string{fmt.Sprintf(`- %sc: {switch: [{more: {when: "$context.%s < %d", then: %sa}}, {other: {then: continue}}]}`, name, counter, visits, name)},
		func(c *modelContext, n int, at time.Duration) modelEnd {
			if c.now()[counter] < visits {
				return modelEnd{n: n, at: at, then: name + "a"}
			}
			return modelEnd{n: n, at: at}
		},
	}}
	last := listedTask{name + "d", fragment{[]string{fmt.Sprintf(`- %sd: {set: {n: "${ .n + 2 }"}}`, name)}, instantly(func(_ *modelContext, n int) int { return n + 2 })}}
	body := listed([]listedTask{counting(name+"a", counter), work, again, last})
	return kind{long: true, fragment: fragment{nested("do", body.lines), body.run}}
}
