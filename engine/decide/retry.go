package decide

import (
	"strconv"

	"flunq.io/flunq/engine/event"
)

// FaultPoint is the point at which an execution faulted: the failed task and the tasks
// around it, outermost first, in their state at that time.
type FaultPoint struct {
	Root  *Node           `json:"root"`
	Chain []*Node         `json:"chain"`
	Keys  map[string]Data `json:"keys,omitempty"`
	Seen  []string        `json:"seen,omitempty"`
}

// causeChain returns a failed task and the inner tasks that caused its failure, outermost
// first.
func causeChain(n *Node) []*Node {
	var chain []*Node
	for ; n != nil; n = n.cause {
		chain = append(chain, n)
	}
	return chain
}

// activeChain returns the active tasks, outermost first, with one branch of each fork.
func (m *machine) activeChain() []*Node {
	var chain []*Node
	for n := m.Root; len(n.Children) > 0; n = n.Children[0] {
		chain = append(chain, n.Children[0])
	}
	return chain
}

// onRetried continues a faulted execution with the failed task, which restarts with its
// original input and $context. The tasks around it keep their state, but all their timeouts
// restart.
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
			m.enqueue(parent, func() { m.restart(parent, f.Chain[last]) })
		}
	}
}

// restart runs a failed task again.
func (m *machine) restart(parent, failed *Node) {
	if failed.ContextBefore != nil {
		m.Context = failed.ContextBefore.Context
	}
	m.retrySuffix = "r" + strconv.Itoa(m.Retried)
	if skipped := m.begin(parent, failed.task, failed.Raw.V); skipped {
		m.next(parent, parent.At+1, failed.Raw.V)
	}
}

// reactivate makes a chain of tasks active again and returns the innermost, or nil if one of
// them failed.
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

// restoreTimers schedules the timeouts of a reactivated task and renews its subscription.
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
