package tui

import (
	tea "github.com/charmbracelet/bubbletea"
)

// scroller is what the keys of the cursor move.
type scroller interface {
	move(lines int)
	to(line int)
	end()
}

// key takes a key.
func (s *executionScreen) key(k string) (cmd tea.Cmd, handled bool) {
	if s.typed.on {
		return s.typeKey(k), true
	}
	if s.scroll(k) {
		return s.chose(), true
	}
	if cmd, ok := s.act(k); ok {
		return cmd, true
	}
	return s.turnTo(k)
}

// chose says what the choice means to other parts.
func (s *executionScreen) chose() tea.Cmd {
	if !s.inPane {
		s.data.event, s.data.fixed = 0, nil
	}
	return tea.Batch(s.readPage(), s.readData())
}

// scroll moves the cursor of what the keys are about.
func (s *executionScreen) scroll(k string) bool {
	on, page := s.scrolled()
	switch k {
	case "up", "k":
		on.move(-1)
	case "down", "j":
		on.move(1)
	case "pgup", "ctrl+b":
		on.move(-max(1, page-1))
	case "pgdown", "ctrl+f":
		on.move(max(1, page-1))
	case "home", "g":
		if s.inPane && s.pane == historyPane {
			s.history.home()
		} else {
			on.to(0)
		}
	case "end", "G":
		on.end()
	default:
		return false
	}
	return true
}

// scrolled is what the keys are about, and how high that is.
func (s *executionScreen) scrolled() (on scroller, page int) {
	if !s.inPane {
		return s.tree, s.tree.window.height
	}
	s.due.length, s.facts.length, s.children.length = len(s.now.Timers), len(s.allFacts()), len(s.now.Children)
	switch s.pane {
	case documentPane:
		return &s.document, s.document.height
	case historyPane:
		return s.history, s.history.height
	case timersPane:
		return &s.due, s.due.height
	case factsPane:
		return &s.facts, s.facts.height
	case childrenPane:
		return &s.children, s.children.height
	case dataPane, paneCount:
	}
	return &s.data.view, s.data.view.height
}

// act does what changes something outside.
func (s *executionScreen) act(k string) (cmd tea.Cmd, handled bool) {
	switch k {
	case "c":
		return s.want(Cancel), true
	case "z":
		return s.want(Suspend), true
	case "u":
		return s.want(Resume), true
	case "R":
		return s.want(Retry), true
	case "w":
		return s.want(Record), true
	case "F":
		return s.wantTimer(Fire), true
	case "C":
		return s.wantTimer(Cancel), true
	case "M":
		return s.wantTimer(Reschedule), true
	case "y":
		return give(wantCopy{s.id}), true
	case "P":
		if s.now.Execution == "" {
			return give(wantSay{text: "it has no parent", bad: true}), true
		}
		return give(wantOpen{s.now.Execution}), true
	}
	return nil, false
}

// turnTo changes what is shown.
func (s *executionScreen) turnTo(k string) (cmd tea.Cmd, handled bool) {
	switch k {
	case "tab":
		s.turnPane(1)
	case "shift+tab":
		s.turnPane(int(paneCount) - 1)
	case "enter":
		return s.enter(), true
	case "esc":
		return nil, s.leave()
	case "f":
		s.follow()
	case "d":
		s.data.before = !s.data.before
		s.data.event, s.data.fixed, s.pane = 0, nil, dataPane
		s.places.seen[dataPane] = true
		return s.readData(), true
	case "e":
		s.foldAll(allOpen)
	case "E":
		s.foldAll(noneOpen)
	case "/":
		s.beginTyping()
	default:
		return nil, s.foldKey(k)
	}
	return tea.Batch(s.readPage(), s.readData()), true
}

func (s *executionScreen) turnPane(by int) {
	s.pane = (s.pane + pane(by)) % paneCount
	s.places.seen[s.pane] = true
	if s.places.pane.h == 0 {
		s.inPane = true
	}
}

func (s *executionScreen) foldKey(k string) bool {
	open := k == "right" || k == "l"
	if k != "left" && k != "h" && k != " " && !open {
		return false
	}
	switch {
	case s.inPane && s.pane == documentPane && k != " ":
		s.document.scroll(8 * (2*truth(open) - 1))
	case s.inPane && s.pane == dataPane && k == " ":
		s.data.view.turnFold()
	case s.inPane && s.pane == dataPane:
		s.data.view.fold(open)
	case s.inPane:
	case k == " ":
		s.tree.turnFold()
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
		s.history.end()
	}
}

// hints are its keys.
func (s *executionScreen) hints() []hint {
	if s.typed.on {
		return []hint{{"enter", "filter", false}, {"esc", "as before", false}}
	}
	all := []hint{{"tab", "pane", false}, {"enter", "open", false}, {"←→", "fold", false}}
	if s.inPane {
		all = append(all, hint{"esc", "tree", false})
	}
	if _, ok := s.timer(); ok && can(s.src, Fire) {
		all = append(all, hint{"F", "fire", false}, hint{"C", "cancel timer", false}, hint{"M", "move timer", false})
	}
	for _, d := range offered(s.src, Executions, s.now.Row) {
		all = append(all, hint{d.key, d.what, d.verb == Record})
	}
	return append(all,
		hint{"d", "data before/after", false}, hint{"f", "follow", false}, hint{"/", "filter", false},
		hint{"e", "open all", true}, hint{"E", "fold all", true},
		hint{"y", "copy the id", true}, hint{"P", "the parent", true},
		hint{"g G", "first, last", true}, hint{"shift+tab", "pane before", true})
}
