package tui

import (
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// executionScreen is one execution: its tasks as a tree, and beside or below it one of several
// panes about the chosen line.
type executionScreen struct {
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
	facts    paneList
	due      paneList
	children paneList

	pane   pane
	inPane bool // the keys go to the pane
	typed  filterLine
	reads  executionReads
	places executionPlaces
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
	field

	on     bool
	before string
}

func newExecutionScreen(src Source, id string) screen {
	return &executionScreen{src: src, id: id, tree: newTaskTree(), history: newHistoryView()}
}

func (s *executionScreen) title() string { return s.id }

func (s *executionScreen) typing() bool { return s.typed.on }

// show stores the execution; had is the version of the tree when it was requested.
func (s *executionScreen) show(x Execution, had int64) {
	s.now, s.known = x, true
	s.tree.read(x.Document)
	if x.Version < had || s.tree.version < had {
		s.reads.rebuild = true
	}
	s.document.read(x.Document)
	s.timers, s.parents = map[string]Row{}, map[string]string{}
	for _, r := range x.Timers {
		if limits(r.Kind) {
			continue
		}
		if known, ok := s.timers[r.Task]; !ok || r.At.Before(known.At) {
			s.timers[r.Task] = r
		}
	}
	for _, r := range x.Children {
		if r.Task != "" {
			s.parents[r.Task] = r.ID
		}
	}
}

// add adds later events.
func (s *executionScreen) add(after int64, events []Event) {
	if s.reads.rebuild && after == 0 {
		s.reads.rebuild = false
		s.tree.reset()
		s.history.reset()
		s.data.forget()
	}
	s.tree.add(events)
	s.history.feed(events)
}

// limits reports whether a timer is only a time limit, which does not tell when a run continues.
func limits(kind string) bool {
	return strings.HasPrefix(kind, "timeout") || strings.HasPrefix(kind, "delivery")
}

// childOf returns the child execution that a run has started, if any.
func (s *executionScreen) childOf(at int32) string {
	if at <= 0 {
		return ""
	}
	r := &s.tree.runs[at]
	return s.parents[runName(s.tree.tasks.at(r.key.task).Ref, r.key)]
}

// timer returns the timer for actions: that of the row, or the one that the chosen task waits for.
func (s *executionScreen) timer() (Row, bool) {
	if s.inPane && s.pane == timersPane {
		if s.due.cursor < len(s.now.Timers) {
			return s.now.Timers[s.due.cursor], true
		}
		return Row{}, false
	}
	if s.inPane {
		return Row{}, false
	}
	at := s.tree.chosenRun()
	if at <= 0 {
		return Row{}, false
	}
	r := &s.tree.runs[at]
	timer, ok := s.timers[runName(s.tree.tasks.at(r.key.task).Ref, r.key)]
	return timer, ok
}

// want returns a command that asks for an action.
func (s *executionScreen) want(verb Verb) tea.Cmd {
	return give(wantAction{Action{Verb: verb, Table: Executions, IDs: []string{s.id}}})
}

func (s *executionScreen) wantTimer(verb Verb) tea.Cmd {
	timer, ok := s.timer()
	if !ok || timer.ID == "" {
		return give(wantSay{text: "no timer is chosen (tab to the timers, or choose a task that waits)", bad: true})
	}
	return give(wantAction{Action{Verb: verb, Table: Timers, IDs: []string{timer.ID}}})
}

// states returns the states of the running tasks, by their lines in the document.
func (s *executionScreen) states() map[int]State {
	lines := map[int]State{}
	for at := range s.tree.active {
		r := &s.tree.runs[at]
		line := s.tree.tasks.at(r.key.task).Line
		if line > 0 && (lines[line] == "" || r.state == Waiting || r.state == Retrying) {
			lines[line] = r.state
		}
	}
	return lines
}

// look returns what the tree shows besides its history.
func (s *executionScreen) look(now time.Time) treeLook {
	how := treeLook{top: s.now.Row, timers: s.timers, now: now, focus: !s.inPane}
	if len(s.parents) > 0 {
		how.child = func(run string) bool { return s.parents[run] != "" }
	}
	return how
}
