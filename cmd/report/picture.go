package report

import (
	"fmt"
	"unicode/utf8"

	"flunq.io/flunq/engine/history"
)

// The picture of a workflow for the page's template.
type (
	pictureView struct {
		Width, Height int
		Least         int // minimum readable width
		Frames        []frameView
		Nodes         []nodeView
		Edges         []edgeView
		Says          string
	}
	frameView struct {
		X, Y, W, H int
		Title      string
		State      state
	}
	nodeView struct {
		X, Y, W, H    int
		Kind          string
		State         state
		Round         int
		Lines         []textView
		Count         string
		CountX        int // the left end of the count
		CountW        int
		Ref           string
		Title         string
		Open          bool // there are no details
		CaseLine      int
		Head, Leaning bool
	}
	textView struct {
		X, Y   int
		Text   string
		Class  string
		Anchor string
	}
	edgeView struct {
		Path, Kind string
		Taken      bool
		Label      string
		X, Y       int
		Anchor     string
		Count      string
		CountX     int
		CountY     int
	}
)

// picture draws the workflow and marks the edges that were taken.
func (p *path) picture(d *document) pictureView {
	l := layoutOf(p.graph)
	out := pictureView{Width: l.width, Height: l.high, Least: l.width * 7 / 10}
	p.frames(&out, l.root)
	for i := range p.graph.Nodes {
		n := &p.graph.Nodes[i]
		out.Nodes = append(out.Nodes, p.node(l.boxes[n.ID], d))
	}
	reached := 0
	for _, n := range out.Nodes {
		if n.State != "never" {
			reached++
		}
	}
	for _, w := range l.drawnEdges() {
		out.Edges = append(out.Edges, p.edge(w))
	}
	out.Says = fmt.Sprintf("The graph of %s: %s of %s reached.", d.def.Document.Name, history.Number(reached), history.Count(len(out.Nodes), "node"))
	return out
}

func (p *path) frames(out *pictureView, b *box) {
	if b.node != nil {
		return
	}
	if b.group != nil {
		out.Frames = append(out.Frames, frameView{b.x, b.y, b.w, b.h, cut(b.title()), p.nodes[b.group.ID].state()})
	}
	for _, inner := range b.inside {
		p.frames(out, inner)
	}
}

func (p *path) node(b *box, d *document) nodeView {
	n := b.node
	count := p.nodes[n.ID]
	v := nodeView{
		X: b.x, Y: b.y, W: b.w, H: b.h, Kind: n.Kind, State: count.state(), Round: 6, // pixels
		Ref: fmt.Sprintf("%d:%s", d.index, taskOf(n.ID)), Title: clean(n.Name + " " + n.Detail), Head: b.edge(),
	}
	switch n.Kind {
	case "start", "end", "faulted":
		v.Round, v.Open = b.h/2, true
		v.Ref = ""
		if n.Kind == "start" {
			v.Ref = fmt.Sprintf("%d:", d.index)
		}
	case "if":
		v.Leaning = true
	}
	for i, text := range b.lines {
		class := "name"
		if i > 0 {
			class = "detail"
		}
		v.Lines = append(v.Lines, textView{b.middle(), b.y + 17 + i*lineHeight, text, class, "middle"}) // 17: down to the baseline
	}
	for _, c := range b.cases {
		class := "case"
		if p.edges[c.edge] > 0 {
			class = "case taken"
		}
		v.Lines = append(v.Lines, textView{b.x + b.w - 10, b.y + c.y + 4, c.text, class, "end"}) // 4: down to the baseline
	}
	if len(b.cases) > 0 {
		v.CaseLine = b.y + b.cases[0].y - caseHeight/2 - 1
	}
	if count != nil && count.runs > 1 {
		// The count is on the corner, since inside the box it would cover a long name.
		v.Count = history.Number(count.runs) + "×"
		v.CountW = charWidth*utf8.RuneCountInString(v.Count) + 6 // pixels
		v.CountX = b.x + b.w + 4 - v.CountW
	}
	return v
}

func (p *path) edge(w drawnEdge) edgeView {
	e := p.graph.Edges[w.edge]
	n := p.edges[w.edge]
	v := edgeView{Path: w.svg(), Kind: e.Kind, Taken: n > 0, Label: cut(w.label), X: w.at[0], Y: w.at[1], Anchor: "start"}
	if w.before {
		v.Anchor = "end"
	}
	if e.Kind == "case" && taskOf(e.From) == e.From || w.at == [2]int{} { // the node of a switch contains its cases
		v.Label = ""
	}
	to := p.nodes[e.To]
	switch {
	case n < 2: // a single run needs no number
	case v.Label != "":
		v.Label += " " + history.Number(n) + "×"
	case to == nil || to.runs != n:
		v.Count = history.Number(n) + "×"
		v.CountX, v.CountY = w.middle()
	}
	return v
}
