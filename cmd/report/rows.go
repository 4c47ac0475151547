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
	label   string // of several runs
	detail  string // of several runs
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
		c.add(c.rowOf(x), 0)
	}
	c.fold()
	return c.rows, c.omitted
}

type rowBuilder struct {
	rows    []*row
	space   int
	omitted int
}

// rowOf returns the row of a run and of the runs inside it.
func (c *rowBuilder) rowOf(x *run) *row {
	return &row{run: x, inside: c.grouped(x, c.chosen(x.children))}
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

// piece is a run or several omitted ones.
type piece struct {
	run     *run
	omitted []*run
}

// chosen returns the runs to show, and pieces for the omitted ones.
func (c *rowBuilder) chosen(children []*run) []piece {
	out := make([]piece, 0, min(len(children), maxInside))
	wrong := 0
	for i, x := range children {
		show := len(children) <= maxInside || i < firstInside || i >= len(children)-lastInside
		if !show && x.wrong() && wrong < wrongInside {
			wrong++
			show = true
		}
		if c.space <= 0 {
			show = false
		}
		switch last := len(out) - 1; {
		case show:
			c.space--
			out = append(out, piece{run: x})
		case last >= 0 && out[last].run == nil:
			out[last].omitted = append(out[last].omitted, x)
		default:
			out = append(out, piece{omitted: []*run{x}})
		}
	}
	return out
}

// wrong reports whether a run or a run inside it failed.
func (r *run) wrong() bool {
	return r.status() == stateFailed || slices.ContainsFunc(r.children, (*run).wrong)
}

// grouped returns the rows of pieces. The runs of one iteration or attempt share a row.
func (c *rowBuilder) grouped(x *run, pieces []piece) []*row {
	several := x.several()
	var out []*row
	var group *row
	for _, p := range pieces {
		if p.run == nil {
			out, group = append(out, rowOfOmitted(p.omitted)), nil
			c.omitted += len(p.omitted)
			continue
		}
		label := ""
		if several {
			label = p.run.group()
		}
		inner := c.rowOf(p.run)
		switch {
		case label == "":
			out, group = append(out, inner), nil
			continue
		case group == nil || group.label != label:
			group = &row{label: label}
			out = append(out, group)
		}
		group.runs = append(group.runs, p.run)
		group.inside = append(group.inside, inner)
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

// rowOfOmitted returns a row for omitted runs.
func rowOfOmitted(runs []*run) *row {
	counts := map[state]int{}
	for _, x := range runs {
		counts[x.status()]++
	}
	text := []string{"not shown"}
	for _, s := range []state{stateDone, stateFailed, stateSkipped, stateCancelled, stateOpen} {
		if counts[s] > 0 {
			text = append(text, fmt.Sprintf("%d %s", counts[s], s.word()))
		}
	}
	return &row{label: "… " + history.Count(len(runs), "more run"), detail: strings.Join(text, ", "), runs: runs, omitted: true}
}

// word returns a state as text.
func (s state) word() string {
	switch s {
	case stateDone:
		return "completed"
	case stateOpen:
		return "not ended"
	default:
		return string(s)
	}
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
