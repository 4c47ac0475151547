package report

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
)

// lineView is a line of a document.
type lineView struct {
	Number int
	Text   string
	State  string // hit or miss; "": no task
	Times  int    // on the first line of a task
	Ref    string
	Title  string
}

// lines returns the lines of a document and whether their tasks were reached.
func (p *path) lines(d *document) []lineView {
	texts := strings.Split(strings.TrimSuffix(string(d.def.Source), "\n"), "\n")
	out := make([]lineView, 0, len(texts))
	owners := ownersOf(d.def, texts)
	for i, text := range texts {
		v := lineView{Number: i + 1, Text: clean(strings.TrimRight(text, "\r"))}
		if t := owners[i]; t != nil {
			count := p.nodes[t.Ref]
			v.Ref = fmt.Sprintf("%d:%s", d.index, t.Ref)
			v.State = "miss"
			if count != nil && count.runs > 0 {
				v.State = "hit"
			}
			if t.Pos.Line == i+1 {
				v.Times, v.Title = 0, t.Name+": not reached"
				if count != nil && count.runs > 0 {
					v.Times, v.Title = count.runs, fmt.Sprintf("%s: %s", t.Name, times(count.runs))
				}
				v.Title = clean(v.Title)
			}
		}
		out = append(out, v)
	}
	return out
}

// times formats a number of repetitions.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return history.Number(n) + " times"
}

// ownersOf returns the innermost task of each line.
func ownersOf(def *dsl.Definition, lines []string) []*dsl.Task {
	out := make([]*dsl.Task, len(lines))
	var tasks []*dsl.Task
	for _, t := range def.Tasks() {
		tasks = append(tasks, t)
	}
	slices.SortStableFunc(tasks, func(a, b *dsl.Task) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Column - b.Pos.Column
	})
	for _, t := range tasks {
		for i := t.Pos.Line - 1; i >= 0 && i < len(lines); i++ {
			if i > t.Pos.Line-1 && outside(lines[i], t.Pos.Column) {
				break
			}
			out[i] = t
		}
	}
	return out
}

// outside reports whether a line of YAML ends the block that begins at a column.
func outside(line string, column int) bool {
	text := strings.TrimLeft(line, " ")
	if text == "" || text[0] == '#' {
		return len(line)-len(text) < column-1 && text != ""
	}
	return len(line)-len(text) < column
}
