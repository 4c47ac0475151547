package decide

import (
	"strconv"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// FaultPoint is where a faulted execution stood: the task that failed and those
// around it, outermost first, as they were.
type FaultPoint struct {
	Root  *Node           `json:"root"`
	Chain []*Node         `json:"chain"`
	Keys  map[string]Data `json:"keys,omitempty"`
	Seen  []string        `json:"seen,omitempty"`
}

// faultAt ends the execution as fault does, so that a retry can go on from the
// innermost task of a chain. Of a fork the other branches are lost, so that it
// begins again as a whole.
func (m *machine) faultAt(chain []*Node, p *event.Problem, ref string) {
	for i, n := range chain {
		if n.task.Kind == dsl.Fork {
			chain = chain[:i+1]
			break
		}
	}
	var faulted *FaultPoint
	if len(chain) > 0 {
		faulted = &FaultPoint{Root: m.Root, Chain: chain, Keys: m.Keys, Seen: m.Seen}
	}
	m.fault(p, ref)
	m.Faulted = faulted
}

// causeChain are a task that failed and those inside that it failed of, outermost first.
func causeChain(n *Node) []*Node {
	var chain []*Node
	for ; n != nil; n = n.cause {
		chain = append(chain, n)
	}
	return chain
}

// activeChain are the tasks that are active, outermost first, of a fork one branch.
func (m *machine) activeChain() []*Node {
	var chain []*Node
	for n := m.Root; len(n.Children) > 0; n = n.Children[0] {
		chain = append(chain, n.Children[0])
	}
	return chain
}

// onRetried goes on with a faulted execution from the task that failed, which
// begins again with the input and the $context that it had. The tasks around it
// go on as they were; all their time limits begin anew.
func (m *machine) onRetried() func() {
	if m.Status != Faulted || m.Faulted == nil {
		return nil
	}
	return func() {
		f := m.Faulted
		m.Faulted, m.Error, m.Status = nil, nil, Running
		m.Root, m.Keys, m.Seen = f.Root, f.Keys, f.Seen
		m.Root.closed, m.Root.Children = false, nil
		m.Retried++
		if value := m.env.def.Timeout; value != nil {
			if err := m.scheduleTimeout(value); err != nil {
				m.fault(problemOf(err), "/timeout")
				m.Faulted = f
				return
			}
		}
		last := len(f.Chain) - 1
		if parent := m.reactivate(f.Chain[:last]); parent != nil {
			m.enqueueFunc(parent, func() { m.restart(parent, f.Chain[last]) })
		}
	}
}

// restart runs a task that failed once more.
func (m *machine) restart(parent, failed *Node) {
	if failed.ContextBefore != nil {
		m.Context = failed.ContextBefore.Context
	}
	m.retrySuffix = "r" + strconv.Itoa(m.Retried)
	if skipped := m.begin(parent, failed.task, failed.Raw.V); skipped {
		m.next(parent, parent.At+1, failed.Raw.V)
	}
}

// reactivate makes tasks active again, each inside the one before, and returns the
// innermost; nil if one of them failed at that.
func (m *machine) reactivate(chain []*Node) *Node {
	parent := m.Root
	for _, n := range chain {
		n.parent, n.cause, n.closed, n.reported, n.failed = parent, nil, false, false, false
		n.Children, n.Timers = nil, nil
		m.activate(n)
		if err := m.restoreTimers(n); err != nil {
			m.fail(n, problemOf(err))
			return nil
		}
		parent = n
	}
	return parent
}

// restoreTimers sets the timers that bound a task with others inside, and listens again.
func (m *machine) restoreTimers(n *Node) error {
	if n.task.Timeout != nil {
		if err := m.schedule(n, event.TimeoutTimer, "", n.task.Timeout); err != nil {
			return err
		}
	}
	if n.Listen != nil && !n.Listen.Stopped {
		types, err := m.listenTypes(n)
		if err != nil {
			return err
		}
		m.d.listen(types)
	}
	if n.Try == nil || n.Try.Catching {
		return nil
	}
	if err := m.limitTry(n); err != nil {
		return err
	}
	return m.limitAttempt(n)
}
