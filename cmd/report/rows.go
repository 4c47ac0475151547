package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/history"
)

// Bounds of the rows of a chart, in total and inside one run. Of the runs inside one run
// the chart shows the first, the last and failed ones.
const (
	maxRows     = 1500
	maxInside   = 150
	firstInside = 80
	lastInside  = 20
	wrongInside = 50
	maxUnfolded = 40 // rows visible at first
)

// row is a line of the chart.
type row struct {
	run     *run   // nil: the row represents several runs
	label   string // of an iteration or an attempt
	inside  []*row
	runs    []*run // those of an iteration or an attempt, or omitted runs
	omitted bool
	depth   int
	parent  int // counted from 1; 0: none
	folded  bool
}

// chartRows returns the rows of all runs in order, and the number of omitted runs.
func (r *Recording) chartRows() (rows []*row, omitted int) {
	c := &rowBuilder{space: maxRows}
	for _, x := range r.roots {
		c.add(&row{run: x, inside: c.inside(x)}, 0)
	}
	c.fold()
	return c.rows, c.omitted
}

type rowBuilder struct {
	rows    []*row
	space   int
	omitted int
}

// inside returns the rows inside that of a run.
func (c *rowBuilder) inside(x *run) []*row {
	rows := c.chosen(x.children)
	for _, one := range rows {
		if one.run != nil {
			one.inside = c.inside(one.run)
		}
	}
	if x.several() {
		return grouped(rows)
	}
	return rows
}

// index returns the iteration of a run in brackets, "" if there is only one.
func (r *run) index() string {
	if r.parent == nil || r.Ref == "" {
		return ""
	}
	if turn := r.iterationLabel(); turn != "" {
		return "[" + turn + "]"
	}
	return ""
}

// chosen returns the rows of the runs to show, and rows for the omitted ones.
func (c *rowBuilder) chosen(children []*run) []*row {
	out := make([]*row, 0, min(len(children), maxInside))
	wrong := 0
	for i, x := range children {
		show := len(children) <= maxInside || i < firstInside || i >= len(children)-lastInside
		if !show && x.wrong() && wrong < wrongInside {
			wrong++
			show = true
		}
		if show && c.space > 0 {
			c.space--
			out = append(out, &row{run: x})
			continue
		}
		c.omitted++
		if last := len(out) - 1; last < 0 || !out[last].omitted {
			out = append(out, &row{omitted: true})
		}
		left := out[len(out)-1]
		left.runs = append(left.runs, x)
	}
	return out
}

// wrong reports whether a run or a run inside it failed.
func (r *run) wrong() bool {
	return r.status() == stateFailed || slices.ContainsFunc(r.children, (*run).wrong)
}

// grouped puts the rows of each iteration or attempt into a row of their own.
func grouped(rows []*row) (out []*row) {
	for _, one := range rows {
		label := ""
		if one.run != nil {
			label = one.run.group()
		}
		if label == "" {
			out = append(out, one)
			continue
		}
		if last := len(out) - 1; last < 0 || out[last].label != label {
			out = append(out, &row{label: label})
		}
		group := out[len(out)-1]
		group.runs, group.inside = append(group.runs, one.run), append(group.inside, one)
	}
	return out
}

// several reports whether the runs inside x belong to iterations of more than one task or
// to several attempts.
func (r *run) several() bool {
	groups, tasks := map[string]bool{}, map[string]bool{}
	for _, child := range r.children {
		groups[child.group()] = true
		tasks[child.Ref] = true
	}
	delete(groups, "")
	switch r.Kind {
	case "try":
		return len(groups) > 1
	case "for", "listen":
		return len(tasks) > 1 && len(groups) > 0
	default:
		return false
	}
}

// group names the iteration or attempt to which a run belongs.
func (r *run) group() string {
	if r.parent == nil || r.Ref == "" {
		return ""
	}
	switch r.parent.Kind {
	case "for", "listen":
		return "[" + firstOf(r.iterationLabel()) + "]"
	case "try":
		if caught(r.parent.Ref, r.Ref) {
			return "catch"
		}
		return cmp.Or(history.Attempt(r.retry()), "attempt 1")
	default:
		return ""
	}
}

func firstOf(path string) string {
	if segments := history.Parts(path); len(segments) > 0 {
		return segments[0]
	}
	return "0"
}

// ends says how the omitted runs of a row ended.
func (r *row) ends() string {
	counts := map[state]int{}
	for _, x := range r.runs {
		counts[x.status()]++
	}
	text := []string{"not shown"}
	for _, s := range []struct {
		state state
		word  string
	}{{stateDone, "completed"}, {stateFailed, "failed"}, {stateSkipped, "skipped"}, {stateCancelled, "cancelled"}, {stateOpen, "not ended"}} {
		if n := counts[s.state]; n > 0 {
			text = append(text, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	return strings.Join(text, ", ")
}

// add adds a row and the rows inside it to the chart.
func (c *rowBuilder) add(x *row, parent int) {
	id := len(c.rows) + 1
	x.parent = parent
	if parent > 0 {
		x.depth = c.rows[parent-1].depth + 1
	}
	if x.run != nil {
		x.run.row = id
	}
	c.rows = append(c.rows, x)
	for _, inner := range x.inside {
		c.add(inner, id)
	}
}

// fold hides inner rows of a long chart, the deepest first and failed ones last.
func (c *rowBuilder) fold() {
	visible, deepest := len(c.rows), 0
	for _, x := range c.rows {
		deepest = max(deepest, x.depth)
	}
	for _, failed := range []bool{false, true} {
		for depth := deepest - 1; depth > 0 && visible > maxUnfolded; depth-- {
			for _, x := range c.rows {
				if x.depth == depth && !x.folded && len(x.inside) > 0 && (failed || x.fine()) {
					x.folded = true
					visible -= x.shown()
				}
			}
		}
	}
}

// fine reports whether nothing failed in a row.
func (r *row) fine() bool {
	return (r.run == nil || !r.run.wrong()) && !slices.ContainsFunc(r.runs, (*run).wrong)
}

// shown returns the number of visible rows inside a row.
func (r *row) shown() int {
	n := 0
	for _, inner := range r.inside {
		n++
		if !inner.folded {
			n += inner.shown()
		}
	}
	return n
}
