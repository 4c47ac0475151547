package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// click is the last click.
type click struct {
	x, y int
	at   time.Time
}

// twice is the maximum interval of a double click.
const twice = 400 * time.Millisecond

// notches is the number of lines per wheel step.
const notches = 3

// mouse handles mouse events.
func (m *model) mouse(e tea.MouseEvent) tea.Cmd {
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		return m.wheel(-notches)
	case e.Button == tea.MouseButtonWheelDown:
		return m.wheel(notches)
	case e.Action == tea.MouseActionPress && e.Button == tea.MouseButtonLeft:
		return m.click(e.X, e.Y)
	case e.Action == tea.MouseActionMotion && e.Button == tea.MouseButtonLeft && e.Y == m.height-2:
		return m.scrubTo(e.X)
	}
	return nil
}

func (m *model) wheel(lines int) tea.Cmd {
	if m.dialog != nil {
		m.dialog.wheel(lines)
		return nil
	}
	m.shown().wheel(lines)
	return m.visit()
}

func (m *model) click(x, y int) tea.Cmd {
	now := m.options.Now()
	double := m.hits.x == x && m.hits.y == y && now.Sub(m.hits.at) <= twice
	m.hits = click{x, y, now}
	if double {
		m.hits.at = time.Time{}
	}
	body := m.body(area{w: m.width, h: m.height})
	switch {
	case m.dialog != nil:
		return m.clickDialog(x, y)
	case y == 0:
		return m.clickTab(x)
	case y >= body.y && y < body.y+body.h:
		return m.settle(m.shown().click(x, y-body.y, double))
	case m.stand.Clock.Moves && y == m.height-2:
		return m.scrubTo(x)
	}
	return nil
}

// clickDialog passes a dialog the key of a position.
func (m *model) clickDialog(x, y int) tea.Cmd {
	if d, ok := m.dialog.(clickable); ok {
		if k := d.keyAt(x, y); k != "" {
			return m.answer(k)
		}
	}
	return nil
}

func (m *model) clickTab(x int) tea.Cmd {
	for i, tab := range m.tabs {
		if x >= tab.from && x < tab.to {
			return m.goTo(i)
		}
	}
	return nil
}

// scrubTo goes to the time of a position on the timeline.
func (m *model) scrubTo(x int) tea.Cmd {
	if to, ok := m.moving.line.at(x); ok && m.stand.Clock.Seeks {
		return m.move(to)
	}
	return nil
}
