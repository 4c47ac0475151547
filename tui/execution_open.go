package tui

import tea "github.com/charmbracelet/bubbletea"

// enter opens what is chosen: a child execution, a folded line, or its pane.
func (s *executionScreen) enter() tea.Cmd {
	if s.inPane {
		return s.enterPane()
	}
	l := s.tree.chosen()
	if id := s.childOf(s.tree.chosenRun()); id != "" && l.kind == runPlace {
		return give(wantOpen{id})
	}
	if l.folds && (l.kind != runPlace || !l.open) {
		s.tree.turnFold()
		return nil
	}
	if s.charts() {
		s.pane = dataPane
		s.places.seen[dataPane] = true
		return s.readData()
	}
	s.inPane = true
	return nil
}

func (s *executionScreen) enterPane() tea.Cmd {
	switch s.pane {
	case dataPane:
		s.data.view.turnFold()
	case historyPane:
		if e := s.history.current(); e.Version > 0 {
			s.data.event, s.data.fixed, s.pane = e.Version, nil, dataPane
			s.places.seen[dataPane] = true
			return s.readData()
		}
	case childrenPane:
		if s.children.cursor < len(s.now.Children) {
			return give(wantOpen{s.now.Children[s.children.cursor].ID})
		}
	case factsPane:
		if all := s.allFacts(); s.facts.cursor < len(all) && all[s.facts.cursor].data != nil {
			s.data.fixed, s.pane = all[s.facts.cursor].data, dataPane
		}
	case timersPane:
		if s.due.cursor < len(s.now.Timers) {
			s.tree.goTo(s.now.Timers[s.due.cursor].Task)
		}
	case timelinePane, documentPane, paneCount:
	}
	return nil
}

// goTo chooses a run by its text.
func (t *taskTree) goTo(run string) {
	for at := range t.active {
		if r := &t.runs[at]; runName(t.tasks.at(r.key.task).Ref, r.key) == run {
			t.window.follow, t.window.at = false, treePlace{kind: runPlace, run: at}
			t.reveal(at)
			t.changes++
			t.arrange()
			return
		}
	}
}

// leave goes back one step within this screen, if there is one.
func (s *executionScreen) leave() bool {
	switch {
	case s.inPane && s.pane == historyPane && s.history.typed != "":
		s.history.narrow("")
	case s.inPane && s.data.event > 0 && s.pane == dataPane:
		s.data.event, s.pane = 0, historyPane
	case s.inPane && s.data.fixed != nil && s.pane == dataPane:
		s.data.fixed, s.pane = nil, factsPane
	case s.inPane:
		s.inPane = false
	case s.tree.window.typed != "":
		s.tree.narrow("")
	case s.charts():
		s.pane = dataPane
	default:
		return false
	}
	return true
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
	s.typed.set(s.typed.before)
}

// typeKey edits the filter, which applies at once.
func (s *executionScreen) typeKey(k string) tea.Cmd {
	switch k {
	case "enter":
		s.typed.on = false
	case "esc":
		s.typed.on = false
		s.typed.set(s.typed.before)
	default:
		s.typed.key(k)
	}
	s.filtered().narrow(s.typed.text())
	return s.readPage()
}
