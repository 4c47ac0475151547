package tui

import (
	"cmp"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// scroller is something that the cursor keys and clicks move.
type scroller interface {
	canvas.Scroller
	To(line int)
}

// key handles a key.
func (s *executionScreen) key(k string) (cmd tea.Cmd, handled bool) {
	if s.typed.on {
		s.typeKey(k)
		return nil, true
	}
	if on, list := s.scrolled(); canvas.ScrollKey(k, on, max(1, list.Height-1)) {
		return s.chose(), true
	}
	if cmd, ok := s.actionKey(k); ok {
		return cmd, true
	}
	return s.viewKey(k)
}

// chose updates the other parts after a choice.
func (s *executionScreen) chose() tea.Cmd {
	if !s.inPane {
		s.data.event, s.data.fixed = 0, nil
	}
	return s.readData()
}

// scrolled returns the focused part, and its lines.
func (s *executionScreen) scrolled() (on scroller, lines *canvas.List) {
	if !s.inPane {
		return s.tree, &s.tree.window.List
	}
	s.due.Length, s.facts.Length, s.children.Length = len(s.execution.Timers), len(s.allFacts()), len(s.execution.Children)
	switch s.pane {
	case historyPane:
		return s.history, &s.history.List
	case documentPane:
		lines = &s.document.List
	case timersPane:
		lines = &s.due
	case factsPane:
		lines = &s.facts
	case childrenPane:
		lines = &s.children
	case dataPane, timelinePane, paneCount:
		lines = &s.data.view.List
	}
	return lines, lines
}

// actionKey handles the keys of actions.
func (s *executionScreen) actionKey(k string) (cmd tea.Cmd, handled bool) {
	switch k {
	case "y":
		return s.m.copy(s.copied()), true
	case "Y":
		return s.m.copy("id of the execution", s.id), true
	case "B":
		return s.toggleBreak(), true
	case "P":
		if s.execution.Execution == "" {
			s.m.notify("it has no parent", true)
			return nil, true
		}
		return s.m.open(s.execution.Execution), true
	}
	if cmd, ok := s.m.actionKey(k, Executions, s.id); ok {
		return cmd, true
	}
	timer := s.timer()
	cmd, handled = s.m.actionKey(k, Timers, timer.ID)
	if handled && timer.ID == "" {
		s.m.notify("no timer is selected (tab to the timers, or select a task that waits)", true)
	}
	return cmd, handled
}

// toggleBreak sets or clears a breakpoint at the chosen task.
func (s *executionScreen) toggleBreak() tea.Cmd {
	ref := s.tree.chosenTask().Ref
	switch {
	case s.execution.Breaks == nil:
		s.m.notify("breakpoints only stop playback", true)
	case ref == "":
		s.m.notify("no task is selected", true)
	default:
		return s.m.move(Move{Verb: Break, Task: ref})
	}
	return nil
}

// viewKey handles the keys that change what is shown.
func (s *executionScreen) viewKey(k string) (cmd tea.Cmd, handled bool) {
	switch k {
	case "tab":
		s.nextPane(1)
	case "shift+tab":
		s.nextPane(int(paneCount) - 1)
	case "enter":
		return s.enter(), true
	case "esc":
		_, leave := s.leaves()
		if leave != nil {
			leave()
		}
		return nil, leave != nil
	case "f":
		s.follow()
	case "b":
		s.data.before = !s.data.before
		s.data.event, s.data.fixed = 0, nil
		return s.showData(), true
	case "}":
		s.foldAll(allOpen)
	case "{":
		s.foldAll(noneOpen)
	case "/":
		s.typed.on, s.typed.before = true, s.tree.window.typed
		if s.inPane && s.pane == historyPane {
			s.typed.before = s.history.typed
		}
		s.typed.Set(s.typed.before)
	default:
		return nil, s.foldKey(k)
	}
	return s.readData(), true
}

func (s *executionScreen) nextPane(by int) {
	s.pane = (s.pane + pane(by)) % paneCount
	if s.charts() {
		s.inPane = false
	} else if s.areas.pane.H == 0 {
		s.inPane = true
	}
}

func (s *executionScreen) foldKey(k string) bool {
	open := k == "right" || k == "l"
	if k != "left" && k != "h" && !open {
		return false
	}
	switch {
	case s.inPane && s.pane == documentPane:
		s.document.scroll(8 * (2*truth(open) - 1))
	case s.inPane && s.pane == dataPane:
		s.data.view.fold(open)
	case s.inPane:
	case open:
		s.tree.unfold()
	default:
		s.tree.fold()
	}
	return true
}

func (s *executionScreen) foldAll(how fold) {
	if s.inPane && s.pane == dataPane {
		s.data.view.foldAll(how)
		return
	}
	s.tree.foldAll(how)
}

func (s *executionScreen) follow() {
	if !s.inPane || s.pane != historyPane {
		s.tree.setFollow(!s.tree.window.follow)
		return
	}
	if s.history.follow {
		s.history.follow = false
	} else {
		s.history.End()
	}
}

// copied returns what is at the cursor.
func (s *executionScreen) copied() (what, text string) {
	if !s.inPane {
		l := s.tree.chosen()
		switch task := s.tree.chosenTask(); {
		case l.kind == runLine && l.run == 0:
			return "id of the execution", s.id
		case l.kind == plannedLine:
			return "reference of the task", task.Ref
		default:
			return "reference of the task", s.tree.runs[s.tree.chosenRun()].String()
		}
	}
	switch s.pane {
	case documentPane:
		return "line", strings.TrimSpace(canvas.At(s.document.lines, s.document.Cursor))
	case historyPane:
		e := s.history.current()
		return "event", strings.Join(slices.DeleteFunc([]string{e.Type, e.Task, e.Text}, func(t string) bool { return t == "" }), " ")
	case timersPane:
		return "id of the timer", s.timer().ID
	case childrenPane:
		return "id of the child", canvas.At(s.execution.Children, s.children.Cursor).ID
	case factsPane:
		fact := canvas.At(s.allFacts(), s.facts.Cursor)
		if fact.data != nil {
			return fact.name, fact.data.Text
		}
		return cmp.Or(fact.name, "fact"), fact.text
	case dataPane, timelinePane, paneCount:
	}
	return s.data.view.value()
}

// hints returns the keys that do something at present.
func (s *executionScreen) hints() []hint {
	if s.typed.on {
		return []hint{{"enter", "filter", false}, {"esc", "as before", false}}
	}
	all := []hint{{"tab", "pane", false}}
	if what, _ := s.enters(); what != "" {
		all = append(all, hint{"enter", what, false})
	}
	if what := s.folds(); what != "" {
		all = append(all, hint{"←→", what, false})
	}
	if what, _ := s.leaves(); what != "" {
		all = append(all, hint{"esc", what, false})
	}
	if s.timer().ID != "" && can(s.m.source, Fire) {
		all = append(all, hint{"F", "fire", false}, hint{"C", "cancel timer", false}, hint{"M", "move timer", false})
	}
	for _, d := range offered(s.m.source, Executions, s.execution.Row) {
		all = append(all, hint{d.key, d.what, d.verb == Record})
	}
	if s.execution.Breaks != nil {
		all = append(all, hint{"B", "breakpoint on/off", false})
	}
	all = append(all,
		hint{"b", "data before/after", false}, hint{"f", "follow", false}, hint{"/", "filter", false},
		hint{"}", "open all", true}, hint{"{", "fold all", true},
		hint{"g G", "first, last", true}, hint{"shift+tab", "pane before", true})
	if s.execution.Execution != "" {
		all = append(all, hint{"P", "the parent", true})
	}
	return all
}

// folds describes what the left and right arrows do; "" if nothing.
func (s *executionScreen) folds() string {
	switch {
	case !s.inPane:
		return "fold"
	case s.pane == documentPane:
		return "scroll"
	case s.pane == dataPane && s.data.view.folds():
		return "fold"
	default:
		return ""
	}
}

// click handles a click on the tree, a pane, or a tab.
func (s *executionScreen) click(x, y int, double bool) tea.Cmd {
	p := &s.areas
	switch {
	case p.tree.Holds(x, y):
		s.inPane = false
		s.tree.To(s.tree.window.Offset + y - p.tree.Y)
		if double {
			return s.enter()
		}
	case p.tabs.Holds(x, y):
		for at := range paneCount {
			if x-p.tabs.X < p.ends[at] {
				s.pane, s.inPane = at, at != timelinePane
				break
			}
		}
	case p.pane.Holds(x, y) && s.charts():
		if line, ok := s.tree.chartLine(y - p.pane.Y); ok {
			s.tree.To(line)
			if double {
				return s.enter()
			}
		}
	case p.pane.Holds(x, y):
		return s.clickPane(y-p.pane.Y, double)
	case p.third.Holds(x, y):
		s.pane, s.inPane = p.beside, true
	default:
		return nil
	}
	return s.chose()
}

func (s *executionScreen) clickPane(y int, double bool) tea.Cmd {
	s.inPane = true
	on, lines := s.scrolled()
	if s.pane == dataPane {
		y -= s.dataHead()
	}
	on.To(lines.Offset + y)
	if double {
		return s.enter()
	}
	return nil
}

// wheel scrolls.
func (s *executionScreen) wheel(lines int) {
	on, _ := s.scrolled()
	on.Move(lines)
}
