package report

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/excerpt"
)

// The data of a workflow: its source, and its graph with the path of the run through it.
type (
	documentData struct {
		Index  int         `json:"index"` // the prefix of its references
		Name   string      `json:"name"`
		Lines  []string    `json:"lines"`
		Owners []int       `json:"owners"` // the task of each line, from 1; 0: none
		Tasks  []taskData  `json:"tasks"`
		Nodes  []nodeData  `json:"nodes"`
		Edges  []edgeData  `json:"edges"`
		Groups []groupData `json:"groups"`
	}
	taskData struct {
		Ref  string `json:"ref"`
		Name string `json:"name"`
		Line int    `json:"line"`
		Runs int    `json:"runs,omitempty"`
	}
	nodeData struct {
		graph.Node

		State state `json:"state"`
		Runs  int   `json:"runs,omitempty"`
	}
	edgeData struct {
		graph.Edge

		Times int `json:"times,omitempty"`
	}
	groupData struct {
		graph.Group

		State state `json:"state"`
	}
)

// document returns the data of a workflow.
func (r *Recording) document(d *document) documentData {
	p := r.pathOf(d)
	out := documentData{
		Index: d.index, Name: excerpt.Escaped(d.def.Document.Name + " " + d.def.Document.Version), Tasks: []taskData{}, Edges: []edgeData{}, Groups: []groupData{},
	}
	for _, n := range p.graph.Nodes {
		n.Name, n.Detail, n.Line = excerpt.Escaped(n.Name), excerpt.Escaped(n.Detail), 0 // the tasks have the lines
		out.Nodes = append(out.Nodes, nodeData{n, p.nodes[n.ID].state(), p.nodes[n.ID].times()})
	}
	for i, e := range p.graph.Edges {
		e.Label = excerpt.Escaped(e.Label)
		out.Edges = append(out.Edges, edgeData{e, p.edges[i]})
	}
	for _, g := range p.graph.Groups {
		g.Name = excerpt.Escaped(g.Name)
		out.Groups = append(out.Groups, groupData{g, p.nodes[g.ID].state()})
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(d.def.Source), "\n"), "\n") {
		out.Lines = append(out.Lines, excerpt.Escaped(strings.TrimRight(line, "\r")))
	}
	out.Owners = make([]int, len(out.Lines))
	var tasks []*dsl.Task // in the order of the source
	for _, t := range d.def.Tasks() {
		tasks = append(tasks, t)
	}
	slices.SortStableFunc(tasks, func(a, b *dsl.Task) int { return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Column-b.Pos.Column) })
	for _, t := range tasks {
		out.Tasks = append(out.Tasks, taskData{t.Ref, excerpt.Escaped(t.Name), t.Pos.Line, p.nodes[t.Ref].times()})
		for i := range blockAt(out.Lines, t.Pos.Line, t.Pos.Column) {
			out.Owners[i] = len(out.Tasks) // inner tasks follow and replace it
		}
	}
	return out
}

// blockAt yields the indexes of the lines of the YAML block that begins at a position.
func blockAt(lines []string, line, column int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := line - 1; i >= 0 && i < len(lines); i++ {
			if i >= line && outside(lines[i], column) || !yield(i) {
				return
			}
		}
	}
}

// outside reports whether a line of YAML ends the block that begins at a column.
func outside(line string, column int) bool {
	text := strings.TrimLeft(line, " ")
	if text == "" || text[0] == '#' {
		return len(line)-len(text) < column-1 && text != ""
	}
	return len(line)-len(text) < column
}
