package tui

import (
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// press handles a key, or several characters that came at once.
func (m *model) press(k tea.KeyMsg) tea.Cmd {
	if k.Alt && (k.Type == tea.KeyEsc || !m.typing()) {
		// No key is used together with alt: this one followed an escape quickly.
		k.Alt = false
		return tea.Batch(m.key("esc"), m.press(k))
	}
	if k.Type != tea.KeyRunes || k.Alt {
		return m.key(k.String())
	}
	if k.Paste && !m.typing() {
		return nil // pasted text is not a command
	}
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		if k.Paste && r < ' ' {
			r = ' '
		}
		cmds = append(cmds, m.key(string(r)))
	}
	return tea.Batch(cmds...)
}

// typing reports whether characters are text.
func (m *model) typing() bool {
	if m.dialog != nil {
		t, ok := m.dialog.(typist)
		return ok && t.typing()
	}
	t, ok := m.shown().(typist)
	return ok && t.typing()
}

// key offers a key to the dialog, the text input, the time bar and the screen, in this order, and
// then handles the global keys.
func (m *model) key(k string) tea.Cmd {
	if k == "ctrl+c" {
		return tea.Quit
	}
	m.said = notice{}
	if m.dialog != nil {
		return m.answer(k)
	}
	if !m.typing() {
		if cmd, ok := m.timeKey(k); ok {
			return cmd
		}
	}
	if cmd, ok := m.shown().key(k); ok {
		return m.settle(cmd)
	}
	return m.anywhere(k)
}

// answer passes a key to the dialog.
func (m *model) answer(k string) tea.Cmd {
	before := m.dialog
	cmd, open := before.key(k)
	if !open {
		m.dialog = nil
	}
	return m.settle(cmd)
}

// anywhere handles the global keys.
func (m *model) anywhere(k string) tea.Cmd {
	switch k {
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+l":
		return tea.ClearScreen
	case "?":
		m.dialog = m.help()
	case ":":
		m.dialog = newCommandLine(m)
	case "L":
		return m.turnZone()
	case "r":
		m.asked = time.Time{}
		return tea.Batch(m.tell(thingsDone{}), m.visit())
	case "esc", "backspace":
		return m.back()
	case "e":
		if can(m.source, Emit) {
			return m.act(Action{Verb: Emit})
		}
	case "1", "2", "3", "4", "5":
		return m.goTo(int(k[0] - '1'))
	}
	return nil
}

// everywhere returns the global keys.
func (m *model) everywhere() []hint {
	all := []hint{
		{"1–5", "go to a place", true},
		{"esc", "back", true},
		{"tab", "next part of the screen", true},
		{"y", "copy what the cursor is on", true},
		{"Y", "copy the id of the execution", true},
		{"L", "times in UTC or local", true},
		{"r", "read again", true},
		{":", "type a command", true},
		{"e", "emit an event", true},
		{"ctrl+l", "draw again", true},
		{"?", "these keys", true},
		{"q", "quit", true},
	}
	if can(m.source, Emit) {
		return all
	}
	return slices.DeleteFunc(all, func(h hint) bool { return h.keys == "e" })
}
