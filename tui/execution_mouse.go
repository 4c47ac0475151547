package tui

import tea "github.com/charmbracelet/bubbletea"

// click handles a click on the tree, a pane, or a tab.
func (s *executionScreen) click(x, y int, double bool) tea.Cmd {
	p := &s.places
	switch {
	case p.tree.has(x, y):
		s.inPane = false
		s.tree.to(s.tree.window.offset + y - p.tree.y)
		if double {
			return s.enter()
		}
	case p.tabs.has(x, y):
		for at := range paneCount {
			if x-p.tabs.x < p.ends[at] {
				s.pane, s.inPane, p.seen[at] = at, at != timelinePane, true
				break
			}
		}
	case p.pane.has(x, y) && s.charts():
		if line, ok := s.tree.chartLine(y - p.pane.y); ok {
			s.tree.to(line)
			if double {
				return s.enter()
			}
		}
	case p.pane.has(x, y):
		return s.clickPane(y-p.pane.y, double)
	case p.third.has(x, y):
		s.pane, s.inPane = p.beside, true
	default:
		return nil
	}
	return s.chose()
}

func (s *executionScreen) clickPane(y int, double bool) tea.Cmd {
	s.inPane = true
	on, _ := s.scrolled()
	switch s.pane {
	case documentPane:
		y += s.document.offset
	case historyPane:
		y += s.history.offset
		s.history.follow = false
	case timersPane:
		y += s.due.offset
	case factsPane:
		y += s.facts.offset
	case childrenPane:
		y += s.children.offset
	case dataPane, timelinePane, paneCount:
		y += s.data.view.offset - 1
	}
	on.to(y)
	if double {
		return s.enterPane()
	}
	return nil
}

// wheel scrolls.
func (s *executionScreen) wheel(lines int) {
	on, _ := s.scrolled()
	on.move(lines)
}
