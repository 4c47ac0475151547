// Package describe converts documents and histories for the terminal UI.
package describe

import (
	"slices"
	"strings"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/tui"
)

// Document converts a definition.
func Document(def *dsl.Definition) *tui.Document {
	d := &tui.Document{Name: def.ID() + ":" + def.Document.Version, Text: string(def.Source)}
	index := map[string]int{}
	for ref, t := range def.Tasks() {
		index[ref] = len(d.Tasks)
		d.Tasks = append(d.Tasks, tui.Task{Ref: ref, Name: t.Name, Kind: string(t.Kind), Detail: does(t), Line: t.Pos.Line})
	}
	for _, t := range def.Tasks() {
		task := &d.Tasks[index[t.Ref]]
		children := slices.Concat(t.Lists()...)
		if t.Call != nil && t.Call.Function != nil {
			children = append(children, t.Call.Function)
		}
		for _, child := range children {
			if at, ok := index[child.Ref]; ok {
				task.Children = append(task.Children, at)
			}
		}
	}
	for _, t := range def.Do {
		if at, ok := index[t.Ref]; ok {
			d.Roots = append(d.Roots, at)
		}
	}
	return d
}

// does says what a task does, without its kind.
func does(t *dsl.Task) string {
	detail := strings.TrimPrefix(strings.TrimPrefix(graph.Detail(t), string(t.Kind)), " ")
	if t.If != nil {
		detail = strings.TrimPrefix(detail+", if "+t.If.Source(), ", ")
	}
	return detail
}
