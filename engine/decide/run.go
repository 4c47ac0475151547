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
// "0" for each enclosing try without retries.
func (n *Node) setRun() {
	p := n.parent
	n.Run.Ref = n.task.Ref
	n.Run.Iteration, n.SkippedLists = p.Run.Iteration, p.SkippedLists
	n.Run.Attempt, n.SkippedTries = p.Run.Attempt, p.SkippedTries
	var buffer [128]byte
	text := append(buffer[:0], p.Run.Iteration...)
	switch p.task.Kind {
	case dsl.Fork:
		n.id = n.Run.String()
		return
	case dsl.For:
		text, n.SkippedLists = strconv.AppendInt(segment(text), int64(p.For.Index), 10), 0
	case dsl.Listen:
		text, n.SkippedLists = strconv.AppendInt(segment(text), int64(p.Listen.Handled), 10), 0
	case dsl.Call:
		text, n.SkippedLists = append(segment(text), event.EscapeRef(p.Run.Ref)...), 0
	case dsl.Try:
		n.setAttempt()
	}
	if p.Visit == 0 {
		n.SkippedLists++
	} else {
		for text = segment(text); n.SkippedLists > 0; n.SkippedLists-- {
			text = append(text, "r0."...)
		}
		text = strconv.AppendInt(append(text, 'r'), int64(p.Visit), 10)
	}
	n.setIteration(text)
}

// segment appends the separator of a path, unless the path is empty.
func segment(path []byte) []byte {
	if len(path) == 0 {
		return path
	}
	return append(path, '.')
}

// setIteration sets the iteration of the run, and the id.
func (n *Node) setIteration(iteration []byte) {
	if len(iteration) > len(n.parent.Run.Iteration) {
		// One allocation holds both strings.
		var buffer [256]byte
		id := append(append(append(buffer[:0], event.EscapeRef(n.Run.Ref)...), '#'), iteration...)
		n.id = string(id)
		n.Run.Iteration = n.id[len(id)-len(iteration):]
		if n.Run.Attempt == "" {
			return
		}
	}
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
