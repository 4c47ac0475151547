package decide

import (
	"strconv"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// setRun names the run of a node from where its parent stands. Iterations and
// attempts are written as short as they can be without two runs sharing a name:
// an ordinary task has neither, a loop adds its index, a list that was jumped
// back in adds "r" and the lap (and then "r0" for each such list above that had
// none), a function adds where it is called, a try adds its retries (and then "0"
// likewise).
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

// segment begins another one of a path.
func segment(path []byte) []byte {
	if len(path) == 0 {
		return path
	}
	return append(path, '.')
}

// setIteration gives the run its iteration, and its id.
func (n *Node) setIteration(iteration []byte) {
	if len(iteration) > len(n.parent.Run.Iteration) {
		// One text is both.
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

// markRetried tells the run of a task that is retried from its run before, and with it
// the runs of all tasks inside.
func (n *Node) markRetried(again string) {
	if again != "" {
		n.Run.Attempt = join(n.Run.Attempt, again)
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
