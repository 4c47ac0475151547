package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// chosenData is the data that the pane shows: it came with an event of the chosen task.
type chosenData struct {
	view   dataView
	before bool  // the task's input, not its output
	event  int64 // an event of the history was chosen instead
	fixed  *Data // a value of the execution was chosen instead

	sources []dataSource // of what is shown, or wanted
	found   bool         // the wanted data is shown
	title   string
	problem string
}

// dataSource is an event that may contain the wanted data.
type dataSource struct {
	version int64
	part    string // possible names of the wanted part, best first; "" for all of the event's data
	note    string // says where it came from, in the title
}

// The parts of an event's data.
const (
	inputPart  = "input"
	resultPart = "error output reason"
)

// foundData is data that was read, and its title; "" if there is none.
type foundData struct {
	title, text string
	items       []dataItem
}

// readFirst returns the first data in the sources, and indexes it.
func readFirst(ctx context.Context, source Source, id string, sources []dataSource) (found foundData, err error) {
	for _, from := range sources {
		text, err := source.Data(ctx, id, from.version)
		if err != nil {
			return found, err
		}
		if from.part == "" {
			return foundData{"data" + from.note, text, itemsOf(text)}, nil
		}
		var members map[string]json.RawMessage
		_ = json.Unmarshal([]byte(text), &members) // without members it contains no part
		for name := range strings.FieldsSeq(from.part) {
			if value, ok := members[name]; ok {
				return foundData{name + from.note, string(value), itemsOf(string(value))}, nil
			}
		}
	}
	return found, nil
}

// lacks notices what is chosen, and reports whether it must be read.
func (d *chosenData) lacks(s *executionScreen) bool {
	if d.fixed != nil {
		d.sources, d.title, d.found, d.problem = nil, d.fixed.Name, true, ""
		d.view.set(d.fixed.Text)
		return false
	}
	if sources := s.dataSources(); !slices.Equal(sources, d.sources) {
		d.sources, d.found, d.problem = sources, false, ""
	}
	if len(d.sources) == 0 {
		d.take(s, nil, foundData{}, nil)
	}
	return !d.found && d.problem == ""
}

// take stores data that was read, unless something else has been chosen meanwhile.
func (d *chosenData) take(s *executionScreen, sources []dataSource, found foundData, err error) {
	switch {
	case !slices.Equal(sources, d.sources):
	case err != nil:
		d.problem = problemOf(err)
	default:
		d.found, d.title = true, cmp.Or(found.title, s.missingData())
		d.view.show(found.text, found.items)
	}
}

// dataSources returns where the chosen data may be found, best first.
func (s *executionScreen) dataSources() []dataSource {
	at := s.tree.chosenRun()
	switch {
	case s.data.event > 0:
		return []dataSource{{s.data.event, "", " of event " + history.Number(s.data.event)}}
	case at < 0:
		return nil
	case s.showsInput():
		return s.sourcesBefore(at)
	}
	ended := s.tree.runs[at].Ended.Version
	return []dataSource{{ended, resultPart, ", event " + history.Number(ended)}}
}

// showsInput reports whether the data of the chosen run is its input.
func (s *executionScreen) showsInput() bool {
	at := s.tree.chosenRun()
	return at >= 0 && (s.data.before || s.tree.runs[at].Ended.Version == 0)
}

// missingData explains why there is no data.
func (s *executionScreen) missingData() string {
	at := s.tree.chosenRun()
	switch {
	case at < 0:
		return "it has not run"
	case s.tree.runs[at].Requested == 0:
		return "it has not begun"
	case s.showsInput():
		return "its input is not in the history"
	default:
		return "it has no output"
	}
}

// dataTitle returns the title of the pane.
func (s *executionScreen) dataTitle() string {
	d := &s.data
	switch {
	case d.fixed != nil || d.event > 0 && d.found:
		return d.title
	case d.problem != "":
		return d.problem
	case d.event > 0:
		return "reading event " + history.Number(d.event)
	}
	name := s.tree.chosenTask().Name
	if at := s.tree.chosenRun(); at == 0 {
		name = "the workflow"
	} else if at > 0 {
		name = s.tree.nameOf(&s.tree.runs[at])
	}
	switch at := s.tree.chosenRun(); {
	case at < 0 || s.tree.runs[at].Requested == 0:
	case s.showsInput() && !d.before:
		name += " has not ended; its input"
	case d.before:
		name = "before " + name
	default:
		name = "after " + name
	}
	if !d.found {
		return name + ": reading"
	}
	return name + ": " + d.title
}

// madeCall describes the call of the shown run; "" if it made none or its input is shown.
func (s *executionScreen) madeCall() string {
	if at := s.tree.chosenRun(); at > 0 && s.data.event == 0 && s.data.fixed == nil && !s.showsInput() {
		return s.tree.runs[at].Call
	}
	return ""
}

// sourcesBefore returns the sources of a run's input, best first: its request, the output of the
// previous task, the input of the task that contains it.
func (s *executionScreen) sourcesBefore(at int32) []dataSource {
	t := s.tree
	var sources []dataSource
	for ; at >= 0; at = t.runs[at].parent() {
		r := &t.runs[at]
		if r.Requested > 0 {
			sources = append(sources, dataSource{r.Requested, inputPart, ", event " + history.Number(r.Requested)})
		}
		if prior := t.prior(at); prior >= 0 {
			p := &t.runs[prior]
			note := " of " + t.tasks.at(p.task).Name + " before it, event " + history.Number(p.Ended.Version)
			return append(sources, dataSource{p.Ended.Version, resultPart, note})
		}
	}
	return sources
}

// prior returns the run whose output is the input of another; -1 if there is none.
func (t *runTree) prior(at int32) int32 {
	r := &t.runs[at]
	if r.parent() < 0 {
		return -1
	}
	p := &t.runs[r.parent()]
	around := t.tasks.at(p.task)
	if around.Kind == "fork" {
		return -1
	}
	handles := caught(t.tasks.at(r.task), around)
	if found := t.lastOf(p.turns[r.turn].runs, at, handles); found >= 0 || handles || r.turn == 0 {
		return found
	}
	if p.turns[r.turn].attempt != p.turns[r.turn-1].attempt {
		return -1 // an attempt begins with the input of the first one
	}
	return t.lastOf(p.turns[r.turn-1].runs, at, false)
}

// lastOf returns the last run, among runs, that succeeded before another one.
func (t *runTree) lastOf(runs []int32, before int32, handles bool) int32 {
	found := int32(-1)
	for _, at := range runs {
		r := &t.runs[at]
		around := t.tasks.at(t.runs[r.parent()].task)
		if at >= before || r.State != Completed || caught(t.tasks.at(r.task), around) != handles {
			continue
		}
		if found < 0 || r.Ended.Version > t.runs[found].Ended.Version {
			found = at
		}
	}
	return found
}

func (s *executionScreen) drawData(a canvas.Area, theme canvas.Theme, focus bool) {
	s.data.lacks(s)
	title := s.dataTitle()
	if focus {
		if path := s.data.view.label(); path != "" && path != "." {
			title += "  " + path
		}
	}
	i := canvas.Accent
	if s.data.problem != "" {
		i = canvas.Bad
	}
	theme.Rest(a, 0, i, title)
	head := s.dataHead()
	if head > 1 {
		theme.Rest(a.Part(0, 1, a.W, 1), 0, canvas.Normal, s.madeCall())
	}
	rest := a.Part(0, head, a.W, a.H-head)
	if s.data.found && s.data.view.text != "" {
		s.data.view.draw(rest, theme, focus)
	}
}

// dataHead returns the number of lines above the data: a title and, if there is room, the call that
// the task made.
func (s *executionScreen) dataHead() int {
	if s.madeCall() != "" && s.areas.pane.H > 2 {
		return 2
	}
	return 1
}
