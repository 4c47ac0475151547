package canvas

import (
	"fmt"
	"iter"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// glyph is a character as a cell can contain it: all terminals agree on its width, and it cannot
// move the cursor or change the direction of text.
type glyph struct {
	r     rune
	tail  string // combining marks
	width int
}

// maxMarks is the maximum number of combining marks on a character.
const maxMarks = 3

// glyphs yields the characters of a text. A character that terminals treat differently, or
// interpret, is shown as its number.
func glyphs(text string) iter.Seq[glyph] {
	return func(yield func(glyph) bool) {
		var last glyph
		marks, have := 0, false
		flush := func() bool { return !have || yield(last) }
		for _, r := range text {
			switch {
			case r == '\t' || r == '\n':
				r = ' '
			case have && unicode.Is(unicode.Mn, r) && !variation(r):
				if marks++; marks <= maxMarks {
					last.tail += string(r)
				}
				continue
			case Contested(r):
				if !flush() {
					return
				}
				have = false
				for _, c := range escape(r) {
					if !yield(glyph{r: c, width: 1}) {
						return
					}
				}
				continue
			}
			if !flush() {
				return
			}
			last, marks, have = glyph{r: r, width: max(1, runeWidth(r))}, 0, true
		}
		flush()
	}
}

// runeWidth returns the width of an uncontested character.
func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	narrow := runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}
	return narrow.RuneWidth(r)
}

// escape returns a character as \u and its number.
func escape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// variation reports whether r selects another form of the previous character.
func variation(r rune) bool { return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef }

// Contested reports whether a terminal may interpret r, or whether terminals disagree about its
// width: controls, formats, joiners, flags, and marks without a base character.
func Contested(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.M, r), variation(r):
		return true
	case r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Co, r):
		return true
	case r >= 0x1160 && r <= 0x11ff, r >= 0xd7b0 && r <= 0xd7ff: // parts of syllables
		return true
	case r >= 0x1f1e6 && r <= 0x1f1ff, r >= 0x1f3fb && r <= 0x1f3ff: // flags, skin tones
		return true
	default:
		return r >= 0x300 && runeWidth(r) == 0
	}
}

// Width returns the number of cells that text takes.
func Width(text string) int {
	if Plain(text) {
		return len(text)
	}
	n := 0
	for g := range glyphs(text) {
		n += g.width
	}
	return n
}

// Plain reports whether text is printable ASCII.
func Plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Cleaned returns text with every character that terminals interpret replaced by its number.
func Cleaned(text string) string {
	var b strings.Builder
	for g := range glyphs(text) {
		b.WriteRune(g.r)
		b.WriteString(g.tail)
	}
	return b.String()
}

// Clip truncates text to width cells; mark shows that something is missing.
func Clip(text string, width int, mark string) string {
	if width <= 0 {
		return ""
	}
	if len(text) <= width && Plain(text) || Width(text) <= width {
		return text
	}
	width -= Width(mark)
	var b strings.Builder
	n := 0
	for g := range glyphs(text) {
		if n += g.width; n > width {
			break
		}
		b.WriteRune(g.r)
		b.WriteString(g.tail)
	}
	return b.String() + mark
}

// Skip removes the first cells of text.
func Skip(text string, cells int) string {
	if cells <= 0 {
		return text
	}
	var b strings.Builder
	n := 0
	for g := range glyphs(text) {
		if n >= cells {
			b.WriteRune(g.r)
			b.WriteString(g.tail)
		}
		n += g.width
	}
	return b.String()
}

// Wrapped splits text into lines of at most width cells.
func Wrapped(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			for Width(word) > width && width > 0 {
				if line != "" {
					lines, line = append(lines, line), ""
				}
				lines = append(lines, Clip(word, width, ""))
				word = Skip(word, width)
			}
			switch {
			case line == "":
				line = word
			case Width(line)+1+Width(word) <= width:
				line += " " + word
			default:
				lines, line = append(lines, line), word
			}
		}
		lines = append(lines, line)
	}
	return lines
}
