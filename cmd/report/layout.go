package report

import (
	"slices"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/cmd/graph"
)

// box is a node of the picture or a frame around other boxes. The node of a task with inner
// tasks is the head of its frame; that of a join is its foot.
type box struct {
	x, y, w, h int
	node       *graph.Node
	group      *graph.Group
	head, foot *box
	inside     []*box // of a frame
	columns    [][]*box
	around     *box
	index      int // row in the frame around it
	column     int
	lanes      int      // lanes on the right of all columns
	beside     []int    // lanes on the right of each column
	rights     []int    // right ends of the columns, without lanes
	left       bool     // there is a lane on the left
	lines      []string // of the text, the name first
	cases      []port   // of a switch
}

// port is where the edge of a case leaves a switch.
type port struct {
	edge int
	text string
	y    int // the middle of the case
}

// The dimensions of the picture, in pixels.
const (
	charWidth   = 7
	nodeHeight  = 26
	lineHeight  = 15
	caseHeight  = 19
	narrowest   = 96
	widest      = 250
	between     = 26 // vertical distance of nodes
	beside      = 22 // horizontal distance of nodes
	padding     = 14 // of a frame
	laneWidth   = 11
	columnAside = 34
)

// layout places the nodes of a graph.
type layout struct {
	graph *graph.Graph
	boxes map[string]*box // of nodes
	root  *box
	width int
	high  int
}

func layoutOf(g *graph.Graph) *layout {
	l := &layout{graph: g, boxes: map[string]*box{}}
	l.root = l.frame("", nil)
	l.assign()
	l.size(l.root)
	l.put(l.root, 0, 0)
	l.width, l.high = l.root.w, l.root.h
	return l
}

// frame collects the nodes of a group in the order of the document.
func (l *layout) frame(id string, g *graph.Group) *box {
	f := &box{group: g}
	seen := map[string]bool{}
	for i := range l.graph.Nodes {
		n := &l.graph.Nodes[i]
		switch inner := l.below(id, n.Group); {
		case n.Group == id:
			l.node(f, n)
		case inner != nil && !seen[inner.ID]:
			seen[inner.ID] = true
			sub := l.frame(inner.ID, inner)
			f.inside = append(f.inside, sub)
		}
	}
	f.columns = [][]*box{f.inside}
	if g != nil {
		l.divide(f)
	}
	f.beside = make([]int, len(f.columns))
	for c, column := range f.columns {
		for i, inner := range column {
			inner.around, inner.index, inner.column = f, i, c
		}
	}
	return f
}

// below returns the outermost group inside outer that contains a group.
func (l *layout) below(outer, group string) *graph.Group {
	for group != "" {
		i := slices.IndexFunc(l.graph.Groups, func(g graph.Group) bool { return g.ID == group })
		if i < 0 {
			return nil
		}
		if l.graph.Groups[i].Parent == outer {
			return &l.graph.Groups[i]
		}
		group = l.graph.Groups[i].Parent
	}
	return nil
}

// node adds a node to a frame.
func (l *layout) node(f *box, n *graph.Node) {
	b := l.measure(n, f.group != nil && n.ID == f.group.ID)
	l.boxes[n.ID] = b
	switch {
	case f.group != nil && n.ID == f.group.ID:
		f.head, b.around = b, f
	case n.Kind == "join":
		f.foot, b.around = b, f
	default:
		f.inside = append(f.inside, b)
	}
}

// divide places the branches of a fork, or the tasks and the handler of a try, side by
// side.
func (l *layout) divide(f *box) {
	begins := func(b *box) bool { return false }
	switch f.group.Kind {
	case "fork":
		entries := map[string]bool{}
		for _, e := range l.graph.Edges {
			if e.From == f.group.ID {
				entries[e.To] = true
			}
		}
		begins = func(b *box) bool { return b.holds(entries) }
	case "try":
		begins = func(b *box) bool { return b.node != nil && b.node.Kind == "catch" }
	}
	f.columns = nil
	for i, b := range f.inside {
		if i == 0 || begins(b) {
			f.columns = append(f.columns, nil)
		}
		last := len(f.columns) - 1
		f.columns[last] = append(f.columns[last], b)
	}
}

// holds reports whether the first node of a box is one of ids.
func (b *box) holds(ids map[string]bool) bool {
	if b.node != nil {
		return ids[b.node.ID]
	}
	if b.head != nil {
		return ids[b.head.node.ID]
	}
	return len(b.inside) > 0 && b.inside[0].holds(ids)
}

// measure computes the size of a node from its text.
func (l *layout) measure(n *graph.Node, head bool) *box {
	b := &box{node: n}
	b.lines = linesOf(n)
	if n.Kind == "catch" {
		for _, e := range l.graph.Edges {
			if e.From == n.ID && e.Kind == "retry" {
				b.lines = append(b.lines, cut(e.Label))
			}
		}
	}
	w := narrowest
	for i, line := range b.lines {
		space := 24
		if i == 0 {
			space = 64 // for a number on the right, and as much on the left
		}
		w = max(w, textWidth(line, i == 0)+space)
	}
	b.h = nodeHeight + lineHeight*(len(b.lines)-1)
	if n.Kind == "switch" {
		b.h += 4
		for i, e := range l.graph.Edges {
			if e.From == n.ID {
				text := cut(e.Label)
				w = max(w, textWidth(text, false)+34)
				b.cases = append(b.cases, port{i, text, b.h + caseHeight/2})
				b.h += caseHeight
			}
		}
		b.h += 5
	}
	if head || n.Kind == "join" {
		b.w = w
		return b
	}
	b.w = min(w, widest+40)
	return b
}

// linesOf returns the text of a node.
func linesOf(n *graph.Node) []string {
	switch n.Kind {
	case "end", "faulted":
		return []string{n.Kind}
	case "if":
		return []string{"if " + cut(n.Detail)}
	case "catch":
		return []string{"catch", cut(n.Detail)}
	}
	var out []string
	for _, text := range []string{n.Name, n.Detail} {
		if text != "" {
			out = append(out, cut(text))
		}
	}
	return out
}

// maxText is the maximum length of a line in a node.
const maxText = 36

func cut(text string) string { return short(text, maxText) }

func textWidth(text string, strong bool) int {
	n := 0
	for _, c := range text {
		n++
		if utf8.RuneLen(c) > 2 { // most of these are wide
			n++
		}
	}
	if strong {
		return n * (charWidth + 1)
	}
	return n * charWidth
}

// size computes the size of a frame from its content.
func (l *layout) size(b *box) {
	if b.node != nil {
		return
	}
	width, height := 0, 0
	for c, column := range b.columns {
		w, h := 0, 0
		for i, inner := range column {
			l.size(inner)
			w = max(w, inner.w)
			if i > 0 {
				h += between
			}
			h += inner.h
		}
		if c > 0 {
			width += l.aside(b)
		}
		width += w + b.beside[c]*laneWidth
		height = max(height, h)
	}
	width += 2*padding + b.lanes*laneWidth
	if b.left {
		width += 2 * laneWidth
	}
	b.w, b.h = max(width, l.headWidth(b)), height+2*padding
	if b.head != nil {
		b.h += b.head.h + between - padding
	} else if b.group != nil {
		b.h += lineHeight
	}
	if b.foot != nil {
		b.h += b.foot.h + between - padding
	}
}

// aside returns the distance of the columns of a frame.
func (*layout) aside(b *box) int {
	if b.group != nil && b.group.Kind == "try" {
		return columnAside
	}
	return beside
}

// headWidth returns the minimum width of a frame for its title.
func (*layout) headWidth(b *box) int {
	w := 0
	if b.head != nil {
		w = b.head.w
	} else if b.group != nil {
		w = textWidth(b.group.Name, true) + 2*padding
	}
	if b.foot != nil {
		w = max(w, b.foot.w)
	}
	return w
}

// put places a box and its content.
func (l *layout) put(b *box, x, y int) {
	b.x, b.y = x, y
	if b.node != nil {
		return
	}
	top := y + padding
	if b.head != nil {
		b.head.w = b.w
		l.put(b.head, x, y)
		top = y + b.head.h + between
	} else if b.group != nil {
		top += lineHeight
	}
	inner := b.w - b.lanes*laneWidth
	if b.left {
		inner -= 2 * laneWidth
		x += 2 * laneWidth
	}
	widths, total := []int{}, 0
	for _, column := range b.columns {
		w := 0
		for _, one := range column {
			w = max(w, one.w)
		}
		widths = append(widths, w)
		total += w
	}
	for _, n := range b.beside {
		total += n * laneWidth
	}
	total += l.aside(b) * (len(b.columns) - 1)
	at := x + (inner-total)/2
	for c, column := range b.columns {
		down := top
		for _, one := range column {
			l.put(one, at+(widths[c]-one.w)/2, down)
			down += one.h + between
		}
		b.rights = append(b.rights, at+widths[c])
		at += widths[c] + b.beside[c]*laneWidth + l.aside(b)
	}
	if b.foot != nil {
		b.foot.w = b.w
		l.put(b.foot, b.x, b.y+b.h-b.foot.h)
	}
}

// path returns the boxes that contain a box, outermost first, and the box.
func (b *box) path() []*box {
	if b == nil {
		return nil
	}
	return append(b.around.path(), b)
}

// middle returns where vertical edges meet a box.
func (b *box) middle() int { return b.x + b.w/2 }

func (b *box) bottom() int { return b.y + b.h }

// edge reports whether a node is the head or foot of the frame around it.
func (b *box) edge() bool { return b.around != nil && (b.around.head == b || b.around.foot == b) }

// title returns the title of a frame, "" if it has none.
func (b *box) title() string {
	if b.group == nil || b.head != nil {
		return ""
	}
	return strings.TrimSpace(b.group.Name)
}
