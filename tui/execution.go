package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// executionScreen shows one execution: its tasks as a tree, and beside or below it one of several
// panes about the chosen line.
type executionScreen struct {
	m  *model
	id string

	execution  Execution
	known      bool              // it has been read
	timers     map[string]Row    // the timer that each waiting run waits for, by the run as text
	childOfRun map[string]string // the child execution of each run, by the run as text

	tree     *taskTree
	history  *historyView
	document documentView
	data     chosenData
	facts    canvas.List
	due      canvas.List
	children canvas.List

	pane   pane
	inPane bool // the keys go to the pane
	typed  filterLine

	reads executionReads
	areas executionAreas // the parts that fit on the screen
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
	canvas.Input

	on     bool
	before string
}

func newExecutionScreen(m *model, id string) *executionScreen {
	return &executionScreen{m: m, id: id, tree: newTaskTree(), history: newHistoryView()}
}

func (s *executionScreen) title() string { return s.id }

func (s *executionScreen) typing() bool { return s.typed.on }

// childOf returns the child execution that a run has started, if any.
func (s *executionScreen) childOf(at int32) string {
	if at <= 0 {
		return ""
	}
	return s.childOfRun[s.tree.runs[at].String()]
}

// timer returns the timer for actions: that of the row, or the one that the chosen task waits for.
func (s *executionScreen) timer() Row {
	if s.inPane {
		if s.pane == timersPane {
			return canvas.At(s.execution.Timers, s.due.Cursor)
		}
	} else if at := s.tree.chosenRun(); at > 0 {
		return s.timers[s.tree.runs[at].String()]
	}
	return Row{}
}

// states returns the states of the running tasks, by their lines in the document.
func (s *executionScreen) states() map[int]State {
	lines := map[int]State{}
	for _, r := range s.tree.x.Open() {
		line := s.tree.tasks.at(s.tree.runs[r.Index].task).Line
		if line > 0 && (lines[line] == "" || r.State == Waiting || r.State == Retrying) {
			lines[line] = r.State
		}
	}
	return lines
}

// treeOptions returns what the tree shows in addition to its history.
func (s *executionScreen) treeOptions(now time.Time) treeOptions {
	return treeOptions{top: s.execution.Row, timers: s.timers, children: s.childOfRun, breaks: s.execution.Breaks, now: now, focus: !s.inPane}
}

// enters returns what enter does at present, nil if nothing, and its hint.
func (s *executionScreen) enters() (what string, enter func() tea.Cmd) {
	if s.inPane {
		return s.entersPane()
	}
	l := s.tree.chosen()
	id := s.childOf(s.tree.chosenRun())
	unfold := func() tea.Cmd {
		s.tree.toggleFold()
		return nil
	}
	switch {
	case id != "" && l.kind == runLine:
		return "open the child", func() tea.Cmd { return s.m.open(id) }
	case l.folds && !l.open:
		return "unfold", unfold
	case l.folds && l.kind != runLine:
		return "fold", unfold
	case s.charts():
		return "its data", func() tea.Cmd { return s.showData() }
	default:
		return "to the pane", func() tea.Cmd {
			s.inPane = true
			return nil
		}
	}
}

// showData shows the data pane, and reads what it lacks.
func (s *executionScreen) showData() tea.Cmd {
	s.pane = dataPane
	return s.readData()
}

func (s *executionScreen) entersPane() (what string, enter func() tea.Cmd) {
	switch s.pane {
	case dataPane:
		if s.data.view.folds() {
			return "fold", func() tea.Cmd {
				s.data.view.toggleFold()
				return nil
			}
		}
	case historyPane:
		if e := s.history.current(); e.Version > 0 {
			return "its data", func() tea.Cmd {
				s.data.event, s.data.fixed = e.Version, nil
				return s.showData()
			}
		}
	case childrenPane:
		if child := canvas.At(s.execution.Children, s.children.Cursor); child.ID != "" {
			return "open", func() tea.Cmd { return s.m.open(child.ID) }
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
			t.window.follow, t.window.at = false, lineKey{kind: runLine, run: at}
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

// typeKey edits the filter, which applies immediately.
func (s *executionScreen) typeKey(k string) {
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
}
