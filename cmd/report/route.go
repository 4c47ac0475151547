package report

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/graph"
)

// drawnEdge is an edge of the picture.
type drawnEdge struct {
	edge   int
	kind   edgeKind
	lane   int
	column int  // the column to the left of its lane; -1: all
	frame  *box // the frame that contains the lane
	points [][2]int
	label  string
	at     [2]int // position of the label
	before bool   // the label ends at the position
}

// edgeKind is the course of an edge.
type edgeKind int

const (
	straight edgeKind = iota // down to the next node
	aside                    // along a lane on the right
	back                     // back along the lane on the left, to the head of a frame
	handled                  // from a task of a try to its handler
	retried                  // from the handler of a try to its head
)

// extent is a range of rows along a lane.
type extent struct{ from, to int }

// assign determines which edges need a lane, before their positions are known.
func (l *layout) assign() {
	taken := map[laneGroup][][]extent{}
	for i := range l.graph.Edges {
		e := l.graph.Edges[i]
		frame, kind := l.kindOf(e)
		switch kind {
		case back:
			frame.left = true
		case aside:
			where, use := l.channel(frame, e)
			lane := takeLane(taken, where, use)
			if where.column < 0 {
				frame.lanes = max(frame.lanes, lane+1)
			} else {
				frame.beside[where.column] = max(frame.beside[where.column], lane+1)
			}
		case straight, handled, retried:
		}
	}
}

// laneGroup contains lanes: beside a column of a frame or, if column is -1, beside all of
// them.
type laneGroup struct {
	frame  *box
	column int
}

// channel returns the channel of an edge and the rows along which it runs.
func (l *layout) channel(frame *box, e graph.Edge) (laneGroup, extent) {
	a, b := l.partOf(frame, e.From), l.partOf(frame, e.To)
	use := extent{min(a.index, b.index), max(a.index, b.index)}
	if a.column == b.column && !a.edge() && !b.edge() {
		return laneGroup{frame, a.column}, use
	}
	return laneGroup{frame, -1}, use
}

func takeLane(taken map[laneGroup][][]extent, frame laneGroup, use extent) int {
	lanes := taken[frame]
	for i, lane := range lanes {
		if !slices.ContainsFunc(lane, func(s extent) bool { return s.from <= use.to && use.from <= s.to }) {
			taken[frame][i] = append(lane, use)
			return i
		}
	}
	taken[frame] = append(lanes, []extent{use})
	return len(lanes)
}

// kindOf returns the frame and the course of an edge.
func (l *layout) kindOf(e graph.Edge) (*box, edgeKind) {
	from, to := l.boxes[e.From], l.boxes[e.To]
	if to.edge() && to.around.head == to && slices.Contains(from.path(), to.around) {
		if e.Kind == "retry" {
			return to.around, retried
		}
		return to.around, back
	}
	frame, a, b := l.meet(from, to)
	switch {
	case frame.head == from || frame.foot == to:
		return frame, straight
	case e.To == taskOf(e.To)+"#catch" && a.column < b.column:
		return frame, handled
	case b.index == a.index+1 && a.column == b.column && leaves(from, a):
		return frame, straight
	default:
		return frame, aside
	}
}

// meet returns the innermost frame around two boxes and the parts of it that contain them.
func (l *layout) meet(from, to *box) (frame, a, b *box) {
	x, y := from.path(), to.path()
	i := 0
	for i < len(x)-1 && i < len(y)-1 && x[i+1] == y[i+1] {
		i++
	}
	return x[i], x[min(i+1, len(x)-1)], y[min(i+1, len(y)-1)]
}

// leaves reports whether an edge from a node can leave a frame downwards: nothing is below
// the node, and the edge is not a case of a switch.
func leaves(node, frame *box) bool {
	if len(node.cases) > 0 && node != frame {
		return false
	}
	for b := node; b != frame; b = b.around {
		if b.edge() {
			continue // from the head of a frame, the edge continues after the frame
		}
		column := b.around.columns[b.column]
		if b.index != len(column)-1 || b.around.foot != nil {
			return false
		}
	}
	return true
}

// partOf returns the part of a frame that contains a node.
func (l *layout) partOf(frame *box, id string) *box {
	b := l.boxes[id]
	for b.around != nil && b.around != frame {
		b = b.around
	}
	return b
}

// drawnEdges returns the edges with their points.
func (l *layout) drawnEdges() []drawnEdge {
	taken := map[laneGroup][][]extent{}
	out := make([]drawnEdge, 0, len(l.graph.Edges))
	for i, e := range l.graph.Edges {
		w := drawnEdge{edge: i, label: e.Label}
		w.frame, w.kind = l.kindOf(e)
		if w.kind == aside {
			where, use := l.channel(w.frame, e)
			w.column, w.lane = where.column, takeLane(taken, where, use)
		}
		l.draw(&w, e)
		out = append(out, w)
	}
	return out
}

// draw computes the points of an edge.
func (l *layout) draw(w *drawnEdge, e graph.Edge) {
	from, to := l.boxes[e.From], l.boxes[e.To]
	switch w.kind {
	case straight:
		l.drawDown(w, from, to)
	case aside:
		l.drawAside(w, from, to)
	case back:
		x := w.frame.x + laneWidth
		down := l.exit(from) + between/3 // below the node
		if part := l.partOf(w.frame, e.From); leaves(from, part) {
			down = part.bottom() + between/3 // below everything that contains it
		}
		w.points = [][2]int{{from.middle(), l.exit(from)}, {from.middle(), down}, {x, down}, {x, to.bottom()}}
		w.at, w.before = [2]int{from.middle() - 8, down - 3}, true // above the line
	case handled:
		x := to.x - columnAside/2
		w.points = [][2]int{{from.x + from.w, from.y + from.h/2}, {x, from.y + from.h/2}, {x, to.y + to.h/2}, {to.x, to.y + to.h/2}}
	case retried:
		x := from.middle() + 18 // beside the edge to the handler
		w.points = [][2]int{{x, from.y}, {x, to.bottom()}}
		w.label = ""
	}
}

// exit returns where an edge leaves a node: below it or, from a head, below its frame.
func (l *layout) exit(from *box) int {
	if from.edge() && from.around.head == from {
		return from.around.bottom()
	}
	return from.bottom()
}

// drawDown draws an edge downwards, with a bend if necessary.
func (l *layout) drawDown(w *drawnEdge, from, to *box) {
	x, y, end := from.middle(), from.bottom(), to.middle()
	switch {
	case from.edge() && from.around == w.frame: // from a head into its frame
		x = to.middle()
		if to.node.Kind == "catch" {
			x -= 18 // beside the edge back
			end = x
		}
	case to.edge() && to.around == w.frame: // to a foot
		y = l.exit(from)
		end = x
	default:
		y = l.exit(from)
	}
	if abs(x-end) < 3 { // too close for a bend
		x = end
		w.points = [][2]int{{x, y}, {x, to.y}}
		w.at = [2]int{x + 6, (y+to.y)/2 + 4} // beside the line
		if to.node.Kind == "catch" {
			w.before, w.at[0] = true, x-6 // the edge back is on the other side
		}
		return
	}
	turn := to.y - between/2 // halfway
	w.points = [][2]int{{x, y}, {x, turn}, {end, turn}, {end, to.y}}
	w.at = [2]int{x + 6, y + 12} // beside the line
}

// drawAside draws an edge along a lane on the right.
func (l *layout) drawAside(w *drawnEdge, from, to *box) {
	x, y := from.x+from.w, from.y+from.h/2
	if from.edge() && from.around.head == from {
		x = from.around.x + from.around.w
	}
	for _, c := range from.cases {
		if c.edge == w.edge {
			y = c.y + from.y
			w.label = ""
		}
	}
	lane := w.frame.x + w.frame.w - padding - laneWidth*(w.frame.lanes-1-w.lane)
	if w.column >= 0 {
		lane = w.frame.rights[w.column] + laneWidth*(w.lane+1)
	}
	end := to.y + min(to.h/2, nodeHeight/2)
	edge := to.x + to.w
	w.points = [][2]int{{x, y}, {lane, y}, {lane, end}, {edge, end}}
	w.at = [2]int{x + 5, y - 4} // above the line
}

// svg returns the line through the points, with rounded corners.
func (w *drawnEdge) svg() string {
	const corner = 7
	var out strings.Builder
	fmt.Fprintf(&out, "M%d %d", w.points[0][0], w.points[0][1])
	for i := 1; i < len(w.points)-1; i++ {
		before, p, behind := w.points[i-1], w.points[i], w.points[i+1]
		r := min(corner, distance(before, p)/2, distance(p, behind)/2)
		a, b := towards(p, before, r), towards(p, behind, r)
		fmt.Fprintf(&out, "L%d %dQ%d %d %d %d", a[0], a[1], p[0], p[1], b[0], b[1])
	}
	last := w.points[len(w.points)-1]
	fmt.Fprintf(&out, "L%d %d", last[0], last[1])
	return out.String()
}

// middle returns a position beside the longest segment of an edge.
func (w *drawnEdge) middle() (x, y int) {
	long := -1
	for i := 1; i < len(w.points); i++ {
		a, b := w.points[i-1], w.points[i]
		if d := distance(a, b); d > long {
			long = d
			x, y = (a[0]+b[0])/2+4, (a[1]+b[1])/2+4 // beside it
			if a[1] == b[1] {
				y += 7 // below it: there may be a node above
			}
		}
	}
	return x, y
}

func distance(a, b [2]int) int { return abs(a[0]-b[0]) + abs(a[1]-b[1]) }

func abs(n int) int { return max(n, -n) }

// towards returns a point at a distance from one point, in the direction of another.
func towards(from, to [2]int, by int) [2]int {
	return [2]int{from[0] + sign(to[0]-from[0])*by, from[1] + sign(to[1]-from[1])*by}
}

func sign(n int) int { return min(max(n, -1), 1) }
