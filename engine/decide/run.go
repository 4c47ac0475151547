package decide

import (
	"strconv"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// setRun derives the run of a node from its parent's. Iterations and attempts are as short
// as possible while every run has a unique name. An ordinary task has neither. A loop adds
// its index to the iteration. A list in which a task jumped back adds "r" and the number of
// jumps, preceded by "r0" for each enclosing list without jumps. A function adds the
// reference of its call. A try adds the number of its retries to the attempt, preceded by
// "0" for each enclosing try without retries:
//
//	#2     in the third iteration of a loop; #2.0 in the first one of a loop inside
//	#r1    after a task of the list has jumped back; #r0.r1 if that was in a list inside
//	@1     in the first retry of a try; @0.1 if that is inside another try
func (n *Node) setRun() {
	p := n.parent
	n.Run.Ref = n.task.Ref
	n.Run.Iteration, n.SkippedLists = p.Run.Iteration, p.SkippedLists
	n.Run.Attempt, n.SkippedTries = p.Run.Attempt, p.SkippedTries
	iteration := p.Run.Iteration
	switch p.task.Kind {
	case dsl.Fork:
		n.id = n.Run.String()
		return
	case dsl.For:
		iteration, n.SkippedLists = join(iteration, strconv.Itoa(p.For.Index)), 0
	case dsl.Listen:
		iteration, n.SkippedLists = join(iteration, strconv.Itoa(p.Listen.Handled)), 0
	case dsl.Call:
		iteration, n.SkippedLists = join(iteration, event.EscapeRef(p.Run.Ref)), 0
	case dsl.Try:
		n.setAttempt()
	}
	if p.Visit == 0 {
		n.SkippedLists++
	} else {
		zeros := strings.Repeat("r0.", n.SkippedLists)
		iteration, n.SkippedLists = join(iteration, zeros+"r"+strconv.Itoa(p.Visit)), 0
	}
	n.Run.Iteration = iteration
	n.id = n.Run.String()
}

// markRetried gives a retried task, and thus all tasks inside it, run names that differ
// from those before the retry.
func (n *Node) markRetried(suffix string) {
	if suffix != "" {
		n.Run.Attempt = join(n.Run.Attempt, suffix)
		n.id = n.Run.String()
	}
}

func (n *Node) setAttempt() {
	if n.parent.Try.Retries == 0 {
		n.SkippedTries++
		return
	}
	zeros := strings.Repeat("0.", n.SkippedTries)
	n.Run.Attempt, n.SkippedTries = join(n.Run.Attempt, zeros+strconv.Itoa(n.parent.Try.Retries)), 0
}

func join(path, segment string) string {
	if path == "" {
		return segment
	}
	return path + "." + segment
}
