package decide

import (
	"strconv"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// place names the run of a node from where its parent stands. Iterations and
// attempts are written as short as they can be without two runs sharing a name:
// an ordinary task has neither, a loop adds its index, a list that was jumped
// back in adds "r" and the lap (and then "r0" for each such list above that had
// none), a function adds where it is called, a try adds its retries (and then "0"
// likewise).
func (n *Node) place() {
	p := n.parent
	n.Run.Ref = n.task.Ref
	n.Run.Iteration, n.Gap = p.Run.Iteration, p.Gap
	n.Run.Attempt, n.Spare = p.Run.Attempt, p.Spare
	switch p.task.Kind {
	case dsl.Fork:
		n.id = n.Run.String()
		return
	case dsl.For:
		n.Run.Iteration, n.Gap = join(n.Run.Iteration, strconv.Itoa(p.For.Index)), 0
	case dsl.Listen:
		n.Run.Iteration, n.Gap = join(n.Run.Iteration, strconv.Itoa(p.Listen.Handled)), 0
	case dsl.Call:
		n.Run.Iteration, n.Gap = join(n.Run.Iteration, event.EscapeRef(p.Run.Ref)), 0
	case dsl.Try:
		n.placeAttempt()
	}
	if p.Lap == 0 {
		n.Gap++
	} else {
		zeros := strings.Repeat("r0.", n.Gap)
		n.Run.Iteration, n.Gap = join(n.Run.Iteration, zeros+"r"+strconv.Itoa(p.Lap)), 0
	}
	n.id = n.Run.String()
}

// mark tells the run of a task that is retried from its run before, and with it
// the runs of all tasks inside.
func (n *Node) mark(again string) {
	if again != "" {
		n.Run.Attempt = join(n.Run.Attempt, again)
		n.id = n.Run.String()
	}
}

func (n *Node) placeAttempt() {
	if n.parent.Try.Retries == 0 {
		n.Spare++
		return
	}
	zeros := strings.Repeat("0.", n.Spare)
	n.Run.Attempt, n.Spare = join(n.Run.Attempt, zeros+strconv.Itoa(n.parent.Try.Retries)), 0
}

func join(path, segment string) string {
	if path == "" {
		return segment
	}
	return path + "." + segment
}
