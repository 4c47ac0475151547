package decide

import (
	"slices"
	"strconv"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Fallen is where a faulted execution stood: the task that failed and those
// around it, outermost first, as they were.
type Fallen struct {
	Root  *Node
	Chain []*Node
	Keys  map[string]Data `json:",omitempty"`
	Seen  []string        `json:",omitempty"`
}

// fallen is where an execution stands that is about to fault; nil where no
// task was at fault or under way, so that there is nothing to go on from.
func (m *machine) fallen() *Fallen {
	chain := slices.Clone(m.failing)
	slices.Reverse(chain)
	if len(chain) == 0 && m.Root != nil {
		for n := m.Root; len(n.Children) > 0; n = n.Children[0] {
			chain = append(chain, n.Children[0])
		}
	}
	if len(chain) == 0 {
		return nil
	}
	// What branches or events have come to is lost with the others inside, so those
	// begin again as a whole.
	for i, n := range chain {
		if n.task.Kind == dsl.Fork || n.task.Kind == dsl.Listen {
			chain = chain[:i+1]
			break
		}
	}
	return &Fallen{Root: m.Root, Chain: chain, Keys: m.Keys, Seen: m.Seen}
}

// takeRetried goes on with a faulted execution from the task that failed, which
// begins again with the input that it had. The tasks around it go on as they were;
// all their time limits begin anew.
func (m *machine) takeRetried() func() {
	if m.Status != Faulted || m.Fallen == nil {
		return nil
	}
	return func() {
		f := m.Fallen
		m.Fallen, m.Error, m.Status = nil, nil, Running
		m.Root, m.Keys, m.Seen = f.Root, f.Keys, f.Seen
		m.Root.closed, m.Root.Children = false, nil
		m.Again++
		if err := m.revive(f.Chain[:len(f.Chain)-1]); err != nil {
			m.fault(problemOf(err), "/")
			return
		}
		failed := f.Chain[len(f.Chain)-1]
		parent := m.Root
		if len(f.Chain) > 1 {
			parent = f.Chain[len(f.Chain)-2]
		}
		m.again = "r" + strconv.Itoa(m.Again)
		m.later(parent, func() { m.begin(parent, failed.task, failed.Raw.V) })
	}
}

// revive makes tasks active again, each inside the one before, and sets their timers.
func (m *machine) revive(chain []*Node) error {
	if m.env.def.Timeout != nil {
		if err := m.scheduleTimeout(m.env.def.Timeout); err != nil {
			return err
		}
	}
	parent := m.Root
	for _, n := range chain {
		n.parent, n.closed, n.reported, n.failed, n.Children, n.Timers = parent, false, false, false, nil, nil
		m.activate(n)
		if err := m.limit(n); err != nil {
			return err
		}
		parent = n
	}
	return nil
}

// limit sets the timers that bound a task with others inside.
func (m *machine) limit(n *Node) error {
	if n.task.Timeout != nil {
		if err := m.schedule(n, event.TimeoutTimer, "", n.task.Timeout); err != nil {
			return err
		}
	}
	if n.task.Kind != dsl.Try || n.Try.Catching {
		return nil
	}
	if err := m.limitTry(n); err != nil {
		return err
	}
	return m.limitAttempt(n)
}
