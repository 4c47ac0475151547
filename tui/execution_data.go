package tui

import (
	"encoding/json"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// chosenData is the data that the pane shows: it came with an event of the chosen task.
type chosenData struct {
	view   dataView
	before bool  // the task's input, not its output
	event  int64 // an event of the history was chosen instead
	fixed  *Data // a value of the execution was chosen instead

	at      dataKey // what is shown, or wanted
	sources []dataSource
	kept    eventData // that was read last
	found   bool      // the wanted data is shown
	title   string
	problem string
}

// dataKey identifies data.
type dataKey struct {
	run                int32 // -1: none; -2: another value is shown
	before             bool
	event              int64
	requested, settled int64 // the events that began and ended the run
}

// dataSource is an event that may contain the wanted data.
type dataSource struct {
	version int64
	kind    dataKind
	note    string // says where it came from, in the title
}

// dataKind names the wanted part of an event's data.
type dataKind byte

const (
	allData dataKind = iota
	inputData
	resultData
)

// members returns the possible names of the part, best first.
func (p dataKind) members() []string {
	switch p {
	case inputData:
		return []string{"input"}
	case resultData:
		return []string{"error", "output", "reason"}
	default:
		return nil
	}
}

// eventData is a part of an event's data, as it was found.
type eventData struct {
	version int64
	kind    dataKind
	name    string // "" if there is none
	text    string
	items   []dataItem
}

// forget drops what was read, when another history is shown.
func (d *chosenData) forget() { d.kept, d.at, d.event = eventData{}, dataKey{run: -2}, 0 }

// want returns where to read the missing data. Data that was read is shown.
func (d *chosenData) want(s *executionScreen) (source dataSource, lacks bool) {
	if d.fixed != nil {
		d.title = d.fixed.Name
		d.view.set(d.fixed.Text)
		d.at.run = -2
		return source, false
	}
	if at := s.dataKey(); at != d.at {
		d.at, d.sources, d.problem, d.found = at, s.dataSources(at), "", false
	}
	for ; len(d.sources) > 0 && !d.found; d.sources = d.sources[1:] {
		source := d.sources[0]
		part := &d.kept
		if part.version != source.version || part.kind != source.kind {
			return source, d.problem == ""
		}
		if part.name != "" {
			d.found, d.title = true, part.name+source.note
			d.view.show(part.text, part.items)
			return source, false
		}
	}
	if !d.found {
		d.found, d.title = true, s.missingData()
		d.view.show("", nil)
	}
	return source, false
}

// take stores data that was read.
func (d *chosenData) take(s *executionScreen, found eventData, err error) {
	if err != nil {
		d.problem = problemOf(err)
		return
	}
	d.kept = found
	d.want(s)
}

// eventDataOf finds a part in an event's data, and indexes it.
func eventDataOf(source dataSource, text string) eventData {
	found := eventData{version: source.version, kind: source.kind}
	if source.kind == allData {
		found.name, found.text, found.items = "data", text, itemsOf(text)
		return found
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil {
		return found
	}
	for _, name := range source.kind.members() {
		if value, ok := members[name]; ok {
			found.name, found.text = name, string(value)
			found.items = itemsOf(found.text)
			return found
		}
	}
	return found
}

// dataKey returns the key of the data to show.
func (s *executionScreen) dataKey() dataKey {
	if s.data.event > 0 {
		return dataKey{run: -1, event: s.data.event}
	}
	at := s.tree.chosenRun()
	if at < 0 {
		return dataKey{run: -1}
	}
	r := &s.tree.runs[at]
	return dataKey{run: at, before: s.data.before || r.Ended.Version == 0, requested: r.Requested, settled: r.Ended.Version}
}

// dataSources returns where data may be found, best first.
func (s *executionScreen) dataSources(at dataKey) []dataSource {
	if at.event > 0 {
		return []dataSource{{at.event, allData, " of event " + history.Number(at.event)}}
	}
	if at.run < 0 {
		return nil
	}
	if at.before {
		return s.sourcesBefore(at.run)
	}
	return []dataSource{{at.settled, resultData, ", event " + history.Number(at.settled)}}
}

// missingData explains why there is no data.
func (s *executionScreen) missingData() string {
	at := s.data.at
	switch {
	case at.run < 0:
		return "it has not run"
	case at.requested == 0:
		return "it has not begun"
	case at.before:
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
	case d.event > 0:
		return "reading event " + history.Number(d.event)
	case d.problem != "":
		return d.problem
	}
	name := s.tree.chosenTask().Name
	if at := s.tree.chosenRun(); at == 0 {
		name = "the workflow"
	} else if at > 0 {
		name = s.tree.nameOf(&s.tree.runs[at])
	}
	switch {
	case d.at.run < 0 || d.at.requested == 0:
	case d.at.before && !d.before:
		name += " has not ended; its input"
	case d.at.before:
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
	if at := s.tree.chosenRun(); at > 0 && s.data.event == 0 && s.data.fixed == nil && !s.data.at.before {
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
			sources = append(sources, dataSource{r.Requested, inputData, ", event " + history.Number(r.Requested)})
		}
		if prior := t.prior(at); prior >= 0 {
			p := &t.runs[prior]
			note := " of " + t.tasks.at(p.task).Name + " before it, event " + history.Number(p.Ended.Version)
			return append(sources, dataSource{p.Ended.Version, resultData, note})
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
	s.data.want(s)
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
	if (s.data.found || s.data.fixed != nil) && s.data.view.text != "" {
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
