package canvas

import "flunq.io/flunq/engine/history"

// ListPosition is the cursor in a list of which some lines are visible.
type ListPosition struct{ Cursor, Offset, Height int }

// Clamp keeps the cursor on a line of the list, and that line visible.
func (p *ListPosition) Clamp(length int) {
	p.Cursor = max(0, min(p.Cursor, length-1))
	p.Offset = max(p.Cursor-p.Height+1, min(p.Offset, p.Cursor))
	p.Offset = max(0, min(p.Offset, length-p.Height))
}

// Scroll is the scroll position of a text.
type Scroll struct{ Offset, Space, lines int }

// Move scrolls by lines.
func (s *Scroll) Move(lines int) {
	s.Offset = max(0, min(s.Offset+lines, s.lines-s.Space))
}

// Fit records the number of lines, and how many are visible.
func (s *Scroll) Fit(lines, avail int) {
	s.lines, s.Space = lines, avail
	s.Move(0)
}

// Key handles the keys that scroll.
func (s *Scroll) Key(k string) bool {
	switch k {
	case "up", "k":
		s.Move(-1)
	case "down", "j":
		s.Move(1)
	case "pgup", "ctrl+b", "ctrl+u":
		s.Move(-s.Space)
	case "pgdown", "ctrl+f", "ctrl+d", " ":
		s.Move(s.Space)
	case "home", "g":
		s.Move(-s.lines)
	case "end", "G":
		s.Move(s.lines)
	default:
		return false
	}
	return true
}

// Rest tells how much there is below, if anything.
func (s *Scroll) Rest(l Look) string {
	if below := s.lines - s.Offset - s.Space; below > 0 {
		return l.Pick("↓ ", "v ") + history.Count(below, "more line")
	}
	return ""
}
