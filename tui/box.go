package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// dialog is drawn over a screen until it is answered.
type dialog interface {
	draw(a area, l look)
	// key handles a key; the dialog closes when open is false.
	key(k string) (cmd tea.Cmd, open bool)
	take(msg tea.Msg)
	wheel(lines int)
}

// clickable is a dialog in which some positions stand for keys.
type clickable interface{ keyAt(x, y int) string }

// button is a position that stands for a key.
type button struct {
	at  area
	key string
}

// box draws a frame in the middle of an area, and returns its inside.
func (l look) box(a area, title string, w, h int) area {
	w, h = min(w+4, a.w), min(h+2, a.h)
	frame := a.part((a.w-w)/2, (a.h-h)/2, w, h)
	frame.clear()
	side, flat := l.pick("│", "|"), strings.Repeat(l.pick("─", "-"), max(0, w-2))
	frame.put(0, 0, accent, l.pick("╭", "+")+flat+l.pick("╮", "+"))
	for y := 1; y < h-1; y++ {
		frame.put(0, y, accent, side)
		frame.put(w-1, y, accent, side)
	}
	frame.put(0, h-1, accent, l.pick("╰", "+")+flat+l.pick("╯", "+"))
	frame.put(2, 0, accent|strong, " "+clip(title, w-6, l.more())+" ")
	return frame.part(2, 1, w-4, h-2)
}

// scroll is the scroll position of a text.
type scroll struct{ offset, space, lines int }

// move scrolls by lines.
func (s *scroll) move(lines int) {
	s.offset = max(0, min(s.offset+lines, s.lines-s.space))
}

// fit records the number of lines, and how many are visible.
func (s *scroll) fit(lines, room int) {
	s.lines, s.space = lines, room
	s.move(0)
}

// key handles the keys that scroll.
func (s *scroll) key(k string) bool {
	switch k {
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup", "ctrl+b", "ctrl+u":
		s.move(-s.space)
	case "pgdown", "ctrl+f", "ctrl+d", " ":
		s.move(s.space)
	case "home", "g":
		s.move(-s.lines)
	case "end", "G":
		s.move(s.lines)
	default:
		return false
	}
	return true
}

// rest tells how much there is below, if anything.
func (s *scroll) rest(l look) string {
	if below := s.lines - s.offset - s.space; below > 0 {
		return l.pick("↓ ", "v ") + some(below, "more line")
	}
	return ""
}
