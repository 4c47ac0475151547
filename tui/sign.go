package tui

import "flunq.io/flunq/tui/canvas"

// sign is the sign of a state. A state is never shown by colour alone.
type sign struct {
	glyph string
	ink   canvas.Ink
}

// signOf returns the sign of a state.
func signOf(l canvas.Look, s State) sign {
	switch s {
	case Pending:
		return sign{l.Pick("○", "."), canvas.Faint}
	case Running:
		return sign{l.Pick("▸", ">"), canvas.Busy}
	case Waiting:
		return sign{l.Pick("◔", "~"), canvas.Calm}
	case Suspended:
		return sign{l.Pick("■", "="), canvas.Warn}
	case Completed:
		return sign{l.Pick("✔", "+"), canvas.Good}
	case Faulted:
		return sign{l.Pick("✘", "!"), canvas.Bad}
	case Cancelled:
		return sign{l.Pick("⊘", "x"), canvas.Warn}
	case Skipped:
		return sign{l.Pick("–", "-"), canvas.Faint}
	case Retrying:
		return sign{l.Pick("↻", "%"), canvas.Warn}
	case Overdue:
		return sign{l.Pick("▲", "^"), canvas.Warn}
	case Broken:
		return sign{l.Pick("?", "?"), canvas.Bad}
	case Dead:
		return sign{l.Pick("✝", "X"), canvas.Bad}
	case Alive:
		return sign{l.Pick("●", "*"), canvas.Good}
	case Silent:
		return sign{l.Pick("◌", "o"), canvas.Faint}
	default:
		return sign{l.Pick("·", "-"), canvas.Normal}
	}
}
