package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/yaml"
)

// jumps collects the "then" of all tasks, to check the targets once all tasks are known.
type jumps struct {
	*reader
	open   []jump
	places map[string][]string // task name → references of the tasks with that name
}

// jump is a "then" that names a task.
type jump struct {
	yaml.Pos
	to       string
	siblings *siblings
	branch   bool
}

// siblings holds the names of the tasks of one list.
type siblings struct {
	names []string
	known map[string]yaml.Pos // position of the first task with each name
}

func (s *siblings) has(name string) bool {
	if s == nil {
		return false
	}
	_, ok := s.known[name]
	return ok
}

// check reports every "then" that does not name a task of its list.
func (p *jumps) check() {
	for _, j := range p.open {
		if j.siblings.has(j.to) {
			if j.branch {
				p.Mistake(j.Pos, "put both into a do task, which is one branch", "branches run concurrently: then cannot lead from one to another")
			}
			continue
		}
		if p.Full() {
			p.Omit()
			continue
		}
		candidates := []string{Continue, Exit, End}
		if j.siblings != nil {
			candidates = slices.Concat(j.siblings.names, candidates)
		}
		if elsewhere := p.places[j.to]; len(elsewhere) > 0 {
			p.Mistake(j.Pos, "then can only lead to a task of its own list: "+strings.Join(shortened(candidates[max(0, len(candidates)-20):]), ", "),
				"the task %s is in another list: %s", yaml.Quote(j.to), elsewhere[0])
			continue
		}
		p.Mistake(j.Pos, p.guess(j.to, candidates), "then: no task %s in this list", yaml.Quote(j.to))
	}
}
