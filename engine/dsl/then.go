package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/yaml"
)

// jump is a then that names a task.
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

// then parses a flow directive. Its target is checked once all tasks are known.
func (p *parser) then(n *yaml.Node, at place) string {
	to, ok := p.text(n, "then")
	if !ok {
		return ""
	}
	switch to {
	case Continue, Exit, End:
	default:
		p.jumps = append(p.jumps, jump{n.Pos, to, at.siblings, at.branch})
	}
	return to
}

// checkJumps reports every then that names no task of its list.
func (p *parser) checkJumps() {
	for _, j := range p.jumps {
		if j.siblings.has(j.to) {
			if j.branch {
				p.Mistake(j.Pos, "put both into a do task, which is one branch", "branches run side by side: then cannot lead from one to another")
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
			p.Mistake(j.Pos, "then can lead to a task of its own list only: "+strings.Join(shortened(candidates[max(0, len(candidates)-20):]), ", "),
				"the task %s is in another list: %s", yaml.Quote(j.to), elsewhere[0])
			continue
		}
		p.Mistake(j.Pos, p.guess(j.to, candidates), "then: no task %s in this list", yaml.Quote(j.to))
	}
}

// cases parses a switch task.
func (p *parser) cases(t *Task, n *yaml.Node, at place) {
	items := p.list(n, "switch")
	if n.Shape == yaml.List && len(items) == 0 {
		p.Mistake(n.Pos, "add a case: `- name: {when: …, then: …}`", "switch has no cases")
	}
	var fallback *SwitchCase
	for _, item := range items {
		if item.Shape != yaml.Object || len(item.Fields) != 1 {
			p.Mistake(item.Pos, "write it as `- name: {when: …, then: …}`", "a case has exactly one name, with when and then below it")
			continue
		}
		f := item.Fields[0]
		if !p.object(f.Value, "case "+yaml.Quote(f.Key), keys("when", "then").need("then")) {
			continue
		}
		c := p.switchCase(f, at)
		t.Switch = append(t.Switch, c)
		switch {
		case f.Value.Get("when") != nil:
		case fallback != nil:
			p.Mistake(f.Pos, "add `when: …`", "a second case without when: the default is on line %d", fallback.Pos.Line)
		default:
			fallback = &c
		}
	}
}

func (p *parser) switchCase(f yaml.Field, at place) SwitchCase {
	then := f.Value.Get("then")
	c := SwitchCase{Name: f.Key, Pos: f.Pos, Then: p.then(then, at)}
	c.When = p.condition(f.Value.Get("when"), "when", at.local.during())
	if at.looped && c.Then == Exit {
		p.Warn(then.Pos, "to leave the loop, use `while:`", "exit in a for ends this turn, not the loop")
	}
	return c
}
