package tui

import "flunq.io/flunq/tui/canvas"

// sign is the symbol of a state. A state is never shown by colour alone.
type sign struct {
	glyph string
	ink   canvas.Ink
}

// signs are the signs of the states.
//
//nolint:gochecknoglobals // a constant table
var signs = map[State]struct {
	unicode, ascii string
	ink            canvas.Ink
}{
	Pending:   {"○", ".", canvas.Faint},
	Running:   {"▸", ">", canvas.Busy},
	Waiting:   {"◔", "~", canvas.Calm},
	Suspended: {"■", "=", canvas.Warn},
	Completed: {"✔", "+", canvas.Good},
	Faulted:   {"✘", "!", canvas.Bad},
	Cancelled: {"⊘", "x", canvas.Warn},
	Skipped:   {"–", "-", canvas.Faint},
	Retrying:  {"↻", "%", canvas.Warn},
	Overdue:   {"▲", "^", canvas.Warn},
	Broken:    {"?", "?", canvas.Bad},
	Dead:      {"✝", "X", canvas.Bad},
	Alive:     {"●", "*", canvas.Good},
	Silent:    {"◌", "o", canvas.Faint},
}

// signOf returns the sign of a state.
func signOf(l canvas.Look, s State) sign {
	found, ok := signs[s]
	if !ok {
		return sign{l.Pick("·", "-"), canvas.Normal}
	}
	return sign{l.Pick(found.unicode, found.ascii), found.ink}
}
