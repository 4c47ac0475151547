package decide

import (
	"fmt"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// drop ends a task without completing it: it cancels everything inside the task and removes
// the task from the active ones.
func (m *machine) drop(n *Node) {
	m.dropChildren(n)
	if l := n.Listen; l != nil {
		stopped := l.Stopped
		m.unlisten(n)
		l.Stopped = stopped // so that a retry of the execution subscribes again
	}
	if n.Child != "" {
		m.d.Publish = append(m.d.Publish, m.CancelChild(n.Child, "task "+n.id+" of "+m.Execution+" ended"))
		n.Child = ""
	}
	m.close(n)
}

// dropChildren cancels the tasks inside a task.
func (m *machine) dropChildren(n *Node) {
	for len(n.Children) > 0 {
		child := n.Children[0]
		m.drop(child)
		m.recordCancelled(child)
	}
}

// end cancels everything that is still active.
func (m *machine) end(status Status) {
	m.dropChildren(m.Root)
	m.Root.closed = true
	if m.Timeout != nil {
		m.cancelTimer(*m.Timeout)
		m.Timeout = nil
	}
	m.Status, m.Root, m.inline, m.Keys, m.Seen = status, nil, nil, nil, nil
	m.Paused, m.Deferred, m.CancelledTimers = false, nil, nil
}

func (m *machine) cancelled(reason string) {
	m.end(Cancelled)
	m.publishEnd(event.WorkflowCancelled, event.Ended{Reason: reason})
}

// fault ends the execution with a problem and records no point from which a retry could
// continue. ref becomes the problem's instance if it has none.
func (m *machine) fault(p *event.Problem, ref string) {
	m.end(Faulted)
	m.Error = m.env.publishable(p, ref)
	m.publishEnd(event.WorkflowFailed, event.Ended{Error: m.Error})
}

// faultAt ends the execution as fault does, and keeps a chain of tasks so that a retry can
// continue with the innermost. A fork in the chain restarts as a whole, since its other
// branches are lost.
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

// onCancelled ends an execution on request.
func (m *machine) onCancelled(e event.Event) (func(), error) {
	var ended event.Ended
	if len(e.Data) > 0 {
		if err := DecodeData(e, &ended); err != nil {
			return nil, err
		}
	}
	return func() { m.cancelled(ended.Reason) }, nil
}

// enforceHistoryLimit ends an execution whose history grows beyond its limit while no new
// task starts, for example because of received events or retries.
func (m *machine) enforceHistoryLimit() {
	const more, bytes = 1000, 32 << 20 // allowed beyond the limit, for active tasks
	p := m.historyLimitProblem(more, bytes)
	if p == nil || m.Status.Ended() || m.Root == nil {
		return
	}
	ref := "/"
	if open := m.Open(); len(open) > 0 {
		ref = open[len(open)-1].Run.Ref
	}
	m.fault(p, ref)
}

// historyLimitProblem returns the problem of a history that has reached its limit of entries plus
// entries, or its limit of bytes plus bytes, else nil.
func (m *machine) historyLimitProblem(entries, bytes int) *event.Problem {
	limits := defaultHistory()
	if m.History != nil {
		limits = *m.History
	}
	var detail string
	switch {
	case limits.Entries > 0 && m.Version >= int64(limits.Entries+entries):
		detail = fmt.Sprintf("the history has %d entries (limit LIMIT_HISTORY)", m.Version)
	case limits.Bytes > 0 && m.Bytes >= limits.Bytes+bytes:
		detail = fmt.Sprintf("the history holds %d MiB of data (limit LIMIT_HISTORY_MIB)", m.Bytes>>20)
	default:
		return nil
	}
	return event.NewProblem(event.Runtime, detail)
}
