package dsl

import (
	"slices"

	"flunq.io/flunq/engine/yaml"
)

// reachability follows the flow through lists of tasks, and warns about tasks that are never
// reached and about cycles that never end.
type reachability struct {
	*reader
	timed   bool           // the workflow has a timeout
	endless map[*Task]bool // whether the end of a list is never reached, by the list's first task
}

// leaving represents the end of a list.
const leaving = -1

// ended represents the end of the workflow.
const ended = -2

// check warns about tasks of a list that are never reached, and about cycles that never end. It
// records in p.endless whether the end of the list is unreachable; fields are the tasks as written.
func (p *reachability) check(list TaskList, fields []yaml.Field) {
	if len(list) == 0 {
		return
	}
	index := make(map[string]int, len(list))
	for i, t := range list {
		index[t.Name] = i
	}
	ways := make([][]int, len(list))
	for i, t := range list {
		to, known := p.successors(list, i, index)
		if !known {
			p.endless[list[0]] = false
			return
		}
		ways[i] = to
		if t.Then == t.Name && t.If == nil && !p.timed && t.Timeout == nil && t.Kind != Switch && t.Kind != Raise {
			p.Warn(ruleEndless, fields[i].Value.Get("then").Pos, "branch with a switch, or give the workflow a timeout",
				"the task %s jumps back to itself: it never ends", yaml.Quote(t.Name))
		}
	}
	reached := make([]bool, len(list)+1)
	walk(ways, 0, reached)
	p.endless[list[0]] = !reached[len(list)]
	for i, t := range list {
		if reached[i] {
			continue
		}
		p.Warn(ruleUnreachable, t.Pos, "lead to it with `then: "+yaml.Short(t.Name)+"`, or remove it", "the task %s is never reached", yaml.Quote(t.Name))
		walk(ways, i, reached)
	}
	p.warnCycles(list, fields, ways, index)
}

// walk marks the tasks that are reachable from one; the last mark is for the end of the list.
func walk(ways [][]int, from int, reached []bool) {
	open := []int{from}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i == leaving {
			reached[len(ways)] = true
			continue
		}
		if i == ended || reached[i] {
			continue
		}
		reached[i] = true
		open = append(open, ways[i]...)
	}
}

// successors returns the indexes of the tasks that may follow a task. known is false if a then does
// not name a task, which is reported elsewhere.
func (p *reachability) successors(list TaskList, i int, index map[string]int) (to []int, known bool) {
	t := list[i]
	next := leaving
	if i+1 < len(list) {
		next = i + 1
	}
	known = true
	follow := func(then string) {
		switch then {
		case "", Continue:
			to = append(to, next)
		case Exit:
			to = append(to, leaving)
		case End:
			to = append(to, ended)
		default:
			target, is := index[then]
			known = known && is
			to = append(to, target)
		}
	}
	if t.If != nil {
		to = append(to, next)
	}
	if t.Kind == Switch {
		fallback := false
		for _, c := range t.Switch {
			follow(c.Then)
			fallback = fallback || c.When == nil
		}
		if fallback {
			return to, known
		}
	}
	if t.Try != nil && t.Try.Catch.Then != "" {
		follow(t.Try.Catch.Then)
	}
	if !p.neverEnds(t) {
		follow(t.Then)
	}
	return to, known
}

// neverEnds reports whether a task never ends normally.
func (p *reachability) neverEnds(t *Task) bool {
	never := func(list TaskList) bool { return len(list) > 0 && p.endless[list[0]] }
	switch t.Kind {
	case Raise:
		return true
	case Do:
		return never(t.Do)
	case Try:
		caught := &t.Try.Catch
		return never(t.Try.Try) && (caught.Then != "" || caught.Do != nil && never(caught.Do))
	case Fork:
		each := t.Fork.Branches
		if len(each) == 0 {
			return false
		}
		if t.Fork.Compete {
			return !slices.ContainsFunc(each, func(b *Task) bool { return !p.neverEnds(b) || b.If != nil })
		}
		return slices.ContainsFunc(each, func(b *Task) bool { return p.neverEnds(b) && b.If == nil })
	default:
		return false
	}
}

// warnCycles warns, at the jump back, about tasks that lead only to each other.
func (p *reachability) warnCycles(list TaskList, fields []yaml.Field, ways [][]int, index map[string]int) {
	const limit = 500 // each jump back is followed, so the time is quadratic
	if p.timed || len(list) > limit {
		return
	}
	for i, t := range list {
		target, is := index[t.Then]
		if !is || target >= i || t.If != nil {
			continue
		}
		reached := make([]bool, len(list)+1)
		walk(ways, target, reached)
		leaves := reached[len(list)]
		for j, in := range reached[:len(list)] {
			if in && (slices.Contains(ways[j], ended) || len(ways[j]) == 0 || list[j].Timeout != nil) {
				leaves = true
			}
		}
		if !leaves {
			p.Warn(ruleEndless, fields[i].Value.Get("then").Pos, "leave the cycle with a switch, or give the workflow a timeout",
				"the tasks from %s to %s form a cycle: the workflow never ends", yaml.Quote(list[target].Name), yaml.Quote(t.Name))
		}
	}
}
