package tui

import (
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// executionScreen shows one execution: its tasks as a tree, and beside or below it one of several
// panes about the chosen line.
type executionScreen struct {
	executionReader

	facts    canvas.List
	due      canvas.List
	children canvas.List

	pane   pane
	inPane bool // the keys go to the pane
	typed  filterLine
}

// executionReader reads what the screen of an execution shows: the execution, its history page
// by page, and the data of the chosen task.
type executionReader struct {
	src Source
	id  string

	now     Execution
	known   bool // it has been read
	timers  map[string]Row
	parents map[string]string // the child execution of each run, as text

	tree     *taskTree
	history  *historyView
	document documentView
	data     dataPart

	reads  executionReads
	places executionPlaces // the parts that fit on the screen
}

// pane is one of the panes beside the tree.
type pane int

const (
	dataPane     pane = iota
	timelinePane      // also takes the place of the tree
	documentPane
	historyPane
	timersPane
	factsPane
	childrenPane
	paneCount
)

// filterLine is the input of a filter.
type filterLine struct {
	canvas.Field

	on     bool
	before string
}

func newExecutionScreen(src Source, id string) screen {
	return &executionScreen{executionReader: executionReader{src: src, id: id, tree: newTaskTree(), history: newHistoryView()}}
}

func (rd *executionReader) title() string { return rd.id }

func (s *executionScreen) typing() bool { return s.typed.on }

// show stores the execution; had is the version of the tree when it was requested.
func (rd *executionReader) show(x Execution, had int64) {
	rd.now, rd.known = x, true
	rd.tree.read(x.Document)
	if x.Version < had || rd.tree.x.Version < had {
		rd.reads.rebuild = true
	}
	rd.document.read(x.Document)
	rd.timers, rd.parents = map[string]Row{}, map[string]string{}
	for _, r := range x.Timers {
		if limits(r.Kind) {
			continue
		}
		if known, ok := rd.timers[r.Task]; !ok || r.At.Before(known.At) {
			rd.timers[r.Task] = r
		}
	}
	for _, r := range x.Children {
		if r.Task != "" {
			rd.parents[r.Task] = r.ID
		}
	}
}

// add adds later events.
func (rd *executionReader) add(after int64, events []Event) {
	if rd.reads.rebuild && after == 0 {
		rd.reads.rebuild = false
		rd.tree.reset()
		rd.history.reset()
		rd.data.forget()
	}
	rd.tree.add(events)
	rd.history.feed(events)
}

// limits reports whether a timer is only a time limit, which does not say when a run continues.
func limits(kind string) bool {
	return strings.HasPrefix(kind, "timeout") || strings.HasPrefix(kind, "delivery")
}

// childOf returns the child execution that a run has started, if any.
func (rd *executionReader) childOf(at int32) string {
	if at <= 0 {
		return ""
	}
	return rd.parents[rd.tree.runs[at].String()]
}

// timer returns the timer for actions: that of the row, or the one that the chosen task waits for.
func (s *executionScreen) timer() Row {
	if s.inPane {
		if s.pane == timersPane {
			return canvas.At(s.now.Timers, s.due.Cursor)
		}
	} else if at := s.tree.chosenRun(); at > 0 {
		return s.timers[s.tree.runs[at].String()]
	}
	return Row{}
}

// states returns the states of the running tasks, by their lines in the document.
func (rd *executionReader) states() map[int]State {
	lines := map[int]State{}
	for _, r := range rd.tree.x.Open() {
		line := rd.tree.tasks.at(rd.tree.runs[r.Index].task).Line
		if line > 0 && (lines[line] == "" || r.State == Waiting || r.State == Retrying) {
			lines[line] = r.State
		}
	}
	return lines
}

// look returns what the tree shows in addition to its history.
func (s *executionScreen) look(now time.Time) treeLook {
	how := treeLook{top: s.now.Row, timers: s.timers, breaks: s.now.Breaks, now: now, focus: !s.inPane}
	if len(s.parents) > 0 {
		how.child = func(run string) bool { return s.parents[run] != "" }
	}
	return how
}

// enters returns what enter does at present, nil if nothing, and its hint.
func (s *executionScreen) enters() (what string, enter func() tea.Cmd) {
	if s.inPane {
		return s.entersPane()
	}
	l := s.tree.chosen()
	id := s.childOf(s.tree.chosenRun())
	unfold := func() tea.Cmd {
		s.tree.turnFold()
		return nil
	}
	switch {
	case id != "" && l.kind == runPlace:
		return "open the child", func() tea.Cmd { return give(wantOpen{id}) }
	case l.folds && !l.open:
		return "unfold", unfold
	case l.folds && l.kind != runPlace:
		return "fold", unfold
	case s.charts():
		return "its data", func() tea.Cmd { return s.showPane(dataPane) }
	default:
		return "to the pane", func() tea.Cmd {
			s.inPane = true
			return nil
		}
	}
}

// showPane shows a pane, and reads its missing data.
func (s *executionScreen) showPane(p pane) tea.Cmd {
	s.pane = p
	s.places.seen[p] = true
	return s.readData()
}

func (s *executionScreen) entersPane() (what string, enter func() tea.Cmd) {
	switch s.pane {
	case dataPane:
		if s.data.view.folds() {
			return "fold", func() tea.Cmd {
				s.data.view.turnFold()
				return nil
			}
		}
	case historyPane:
		if e := s.history.current(); e.Version > 0 {
			return "its data", func() tea.Cmd {
				s.data.event, s.data.fixed = e.Version, nil
				return s.showPane(dataPane)
			}
		}
	case childrenPane:
		if child := canvas.At(s.now.Children, s.children.Cursor); child.ID != "" {
			return "open", func() tea.Cmd { return give(wantOpen{child.ID}) }
		}
	case factsPane:
		if fact := canvas.At(s.allFacts(), s.facts.Cursor); fact.data != nil {
			return "all of it", func() tea.Cmd {
				s.data.fixed, s.pane = fact.data, dataPane
				return nil
			}
		}
	case timersPane:
		if timer := s.timer(); timer.ID != "" {
			return "its task", func() tea.Cmd {
				s.tree.goTo(timer.Task)
				return nil
			}
		}
	case timelinePane, documentPane, paneCount:
	}
	return "", nil
}

// enter does what enters says.
func (s *executionScreen) enter() tea.Cmd {
	if _, enter := s.enters(); enter != nil {
		return enter()
	}
	return nil
}

// goTo chooses a run by its string form.
func (t *taskTree) goTo(run string) {
	for _, r := range t.x.Open() {
		if r.String() == run {
			at := int32(r.Index)
			t.window.follow, t.window.at = false, treePlace{kind: runPlace, run: at}
			t.reveal(at)
			t.changes++
			t.arrange()
			return
		}
	}
}

// leaves returns what esc does within this screen, nil if it leaves the screen, and its hint.
func (s *executionScreen) leaves() (what string, leave func()) {
	switch {
	case s.inPane && s.pane == historyPane && s.history.typed != "", !s.inPane && s.tree.window.typed != "":
		return "show all", func() { s.filtered().narrow("") }
	case s.inPane && s.data.event > 0 && s.pane == dataPane:
		return "history", func() { s.data.event, s.pane = 0, historyPane }
	case s.inPane && s.data.fixed != nil && s.pane == dataPane:
		return "facts", func() { s.data.fixed, s.pane = nil, factsPane }
	case s.inPane:
		return "tree", func() { s.inPane = false }
	case s.charts():
		return "tree", func() { s.pane = dataPane }
	default:
		return "", nil
	}
}

// filtered returns what a filter applies to.
func (s *executionScreen) filtered() interface{ narrow(typed string) } {
	if s.inPane && s.pane == historyPane {
		return s.history
	}
	return s.tree
}

func (s *executionScreen) beginTyping() {
	s.typed.on, s.typed.before = true, s.tree.window.typed
	if s.inPane && s.pane == historyPane {
		s.typed.before = s.history.typed
	}
	s.typed.Set(s.typed.before)
}

// typeKey edits the filter, which applies immediately.
func (s *executionScreen) typeKey(k string) tea.Cmd {
	switch k {
	case "enter":
		s.typed.on = false
	case "esc":
		s.typed.on = false
		s.typed.Set(s.typed.before)
	default:
		s.typed.Key(k)
	}
	s.filtered().narrow(s.typed.Text())
	return s.readPage()
}

// sourcesBefore returns the sources of a run's input, best first: its request, the output of the
// previous task, the input of the task that contains it.
func (rd *executionReader) sourcesBefore(at int32) []dataSource {
	t := rd.tree
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

// prior returns the run whose output is another one's input; -1 if there is none.
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
