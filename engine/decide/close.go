package decide

import (
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// closer ends active tasks, with everything inside them, and the execution.
type closer struct{ listener }

// cancel ends a task that is no longer needed.
func (c *closer) cancel(n *Node) {
	c.drop(n)
	c.recordCancelled(n)
}

// drop ends a task without completing it: it cancels everything inside the task and removes
// the task from the active ones.
func (c *closer) drop(n *Node) {
	c.dropChildren(n)
	if l := n.Listen; l != nil {
		stopped := l.Stopped
		c.unlisten(n)
		l.Stopped = stopped // so that a retry of the execution subscribes again
	}
	if n.Child != "" {
		c.cancelChild(n)
	}
	c.close(n)
}

// dropChildren cancels the tasks inside a task.
func (c *closer) dropChildren(n *Node) {
	for len(n.Children) > 0 {
		c.cancel(n.Children[0])
	}
}

// end cancels everything that is still active.
func (c *closer) end(status Status) {
	c.dropChildren(c.Root)
	c.Root.closed = true
	if c.Timeout != nil {
		c.cancelTimer(*c.Timeout)
		c.Timeout = nil
	}
	c.Status, c.Root, c.inline, c.Keys, c.Seen = status, nil, nil, nil, nil
	c.Paused, c.Deferred, c.CancelledTimers = false, nil, nil
}

func (c *closer) cancelled(reason string) {
	c.end(Cancelled)
	c.publishEnd(event.WorkflowCancelled, event.Ended{Reason: reason})
}

// fault ends the execution with a problem and records no point from which a retry could
// continue. ref becomes the problem's instance if it has none.
func (c *closer) fault(p *event.Problem, ref string) {
	c.end(Faulted)
	c.Error = c.env.publishable(p, ref)
	c.publishEnd(event.WorkflowFailed, event.Ended{Error: c.Error})
}

// faultAt ends the execution as fault does, and keeps a chain of tasks so that a retry can
// continue with the innermost. A fork in the chain restarts as a whole, since its other
// branches are lost.
func (c *closer) faultAt(chain []*Node, p *event.Problem, ref string) {
	for i, n := range chain {
		if n.task.Kind == dsl.Fork {
			chain = chain[:i+1]
			break
		}
	}
	var faulted *FaultPoint
	if len(chain) > 0 {
		faulted = &FaultPoint{Root: c.Root, Chain: chain, Keys: c.Keys, Seen: c.Seen}
	}
	c.fault(p, ref)
	c.Faulted = faulted
}

// onCancelled ends an execution on request.
func (c *closer) onCancelled(e event.Event) (func(), error) {
	var ended event.Ended
	if len(e.Data) > 0 {
		if err := DecodeData(e, &ended); err != nil {
			return nil, err
		}
	}
	return func() { c.cancelled(ended.Reason) }, nil
}

// enforceHistoryLimit ends an execution whose history grows beyond its limit while no new
// task starts, for example because of received events or retries.
func (c *closer) enforceHistoryLimit() {
	const more, bytes = 1000, 32 << 20 // allowed beyond the limit, for active tasks
	p := c.historyLimitProblem(more, bytes)
	if p == nil || c.Status.Ended() || c.Root == nil {
		return
	}
	ref := "/"
	if open := c.Open(); len(open) > 0 {
		ref = open[len(open)-1].Run.Ref
	}
	c.fault(p, ref)
}
