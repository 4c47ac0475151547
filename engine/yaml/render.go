package yaml

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// palette holds the escape sequences of a rendered mistake; all are empty without colour.
type palette struct{ bold, accent, help, reset string }

const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
)

func paletteOf(color bool, accent string) palette {
	if !color {
		return palette{}
	}
	return palette{"\x1b[1m", accent, "\x1b[36m", "\x1b[0m"}
}

// shownWidth is the number of characters shown of a long line.
const shownWidth = 120

// render writes one mistake.
//
//	order.yaml:7:13: unknown call "htp"
//	  7 |       call: htp
//	    |             ^^^
//	    help: did you mean "http"?
func render(w io.Writer, source []byte, m Mistake, l palette) {
	fmt.Fprintf(w, "%s%s:%s %s\n", l.bold, m.place(), l.reset, m.Message)
	number := strconv.Itoa(m.Line)
	margin := strings.Repeat(" ", len(number)+2)
	if line, ok := lineOf(source, m.Line); ok {
		shown, pad, mark := frame(line, m.Column)
		fmt.Fprintf(w, "  %s | %s\n", number, shown)
		fmt.Fprintf(w, "%s | %s%s%s%s\n", margin, strings.Repeat(" ", pad), l.accent, strings.Repeat("^", mark), l.reset)
	}
	if m.Suggestion != "" {
		fmt.Fprintf(w, "%s %shelp:%s %s\n", margin, l.help, l.reset, m.Suggestion)
	}
}

// lineOf returns the text of a line; the first is 1.
func lineOf(source []byte, number int) (string, bool) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(source))
	lines := strings.SplitN(text, "\n", number+1)
	if len(lines) < number {
		return "", false
	}
	return lines[number-1], lines[number-1] != ""
}

// frame shortens a line for display, and returns how many columns precede the carets, and their number.
func frame(line string, column int) (shown string, pad, mark int) {
	runes := []rune(line)
	at := min(max(column-1, 0), len(runes))
	from, to := 0, len(runes)
	if to > shownWidth {
		from = max(0, at-shownWidth/2)
		to = min(to, from+shownWidth)
	}
	end := wordEnd(runes, at, to)
	before := printable(string(runes[from:at]))
	word := printable(string(runes[at:end]))
	after := printable(string(runes[end:to]))
	if from > 0 {
		before = "…" + before
	}
	if to < len(runes) {
		after += "…"
	}
	return before + word + after, width(before), max(1, width(word))
}

// Word returns the word, the quoted string or the ${ } that begins at a column; the first is 1.
func Word(line string, column int) string {
	runes := []rune(line)
	at := min(max(column-1, 0), len(runes))
	return string(runes[at:wordEnd(runes, at, len(runes))])
}

// wordEnd returns the end of the word, the quoted string or the ${ } that begins at a position.
func wordEnd(runes []rune, at, to int) int {
	end := at
	if at < to && (runes[at] == '"' || runes[at] == '\'') {
		if i := slices.Index(runes[at+1:to], runes[at]); i >= 0 {
			return at + i + 2
		}
	}
	if expression := at+1 < to && runes[at] == '$' && runes[at+1] == '{'; expression {
		for open := 0; end < to; end++ {
			switch runes[end] {
			case '{':
				open++
			case '}':
				if open--; open == 0 {
					return end + 1
				}
			}
		}
		end = at
	}
	for end < to && !strings.ContainsRune(" ,]}\t", runes[end]) && (runes[end] != ':' || end+1 < to && !strings.ContainsRune(" \t", runes[end+1])) {
		end++
	}
	return end
}

// printable escapes what Go does not consider printable, such as the control characters that could
// manipulate a terminal. Bytes that are not UTF-8 become U+FFFD.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// width returns the number of columns of printable text: East Asian characters and emoji
// take two.
func width(s string) int {
	columns := 0
	for _, r := range s {
		if r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
			r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
			r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd {
			columns++
		}
		columns++
	}
	return columns
}
