package tui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"

	"flunq.io/flunq/engine/history"
)

// age formats a running duration in whole seconds.
func age(d time.Duration) string { return history.Duration(d.Round(time.Second)) }

// took formats a duration that has ended.
func took(d time.Duration) string { return history.Duration(d) }

// wait formats a remaining duration in whole seconds, rounded up.
func wait(d time.Duration) string {
	return age((d + time.Second - time.Nanosecond).Truncate(time.Second))
}

// countdown formats the time until a moment, which may be past.
func countdown(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	left := at.Sub(now)
	switch {
	case left <= -time.Second:
		return age(-left) + " late"
	case left <= 0:
		return "now"
	}
	return "in " + wait(left)
}

// due formats the time until a timer fires. A timer whose time has passed since it was read may
// have fired: only the source can tell that it is late.
func due(now time.Time, r Row) string {
	if r.State != Overdue && !r.At.IsZero() && !now.Before(r.At) {
		return "now"
	}
	return countdown(now, r.At)
}

// since formats the time since a moment; 0 before it.
func since(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return age(max(0, now.Sub(at)))
}

// moment formats a time of day in the zone of now, with the date if it is another day.
func moment(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	at = at.In(now.Location())
	if now.Format(time.DateOnly) == at.Format(time.DateOnly) {
		return at.Format("15:04:05.000")
	}
	return at.Format("2006-01-02 15:04:05")
}

// zoned converts a text that is a time to the zone of now.
func zoned(now time.Time, text string) string {
	if now.Location() == time.UTC || !strings.HasSuffix(text, "Z") {
		return text
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.In(now.Location()).Format(time.RFC3339Nano)
	}
	return text
}

// count formats a number with thousands separators.
func count(n int64) string { return history.Number(n) }

// rate formats events per second.
func rate(n float64) string {
	if n >= 100 || n == 0 {
		return count(int64(n + 0.5))
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// some formats a number of things.
func some(n int, what string) string { return history.Count(n, what) }

// wrapped splits a text into lines of a width.
func wrapped(text string, avail int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			for width(word) > avail && avail > 0 {
				if line != "" {
					lines, line = append(lines, line), ""
				}
				lines = append(lines, clip(word, avail, ""))
				word = skip(word, avail)
			}
			switch {
			case line == "":
				line = word
			case width(line)+1+width(word) <= avail:
				line += " " + word
			default:
				lines, line = append(lines, line), word
			}
		}
		lines = append(lines, line)
	}
	return lines
}

var errDuration = errors.New("want a duration such as 90s, 1h30m or PT1H")

// duration parses Go's notation, ISO 8601, or days.
func duration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(strings.ToUpper(text), "P") {
		return isoDuration(strings.ToUpper(text[1:]))
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: %w", text, errDuration)
	}
	return d, nil
}

// isoDuration parses what follows the P.
func isoDuration(text string) (time.Duration, error) {
	units := map[string]time.Duration{
		"D": 24 * time.Hour, "W": 7 * 24 * time.Hour,
		"TH": time.Hour, "TM": time.Minute, "TS": time.Second,
	}
	var sum float64
	part, found, rest := "", false, text
	for rest != "" {
		if rest[0] == 'T' {
			part, rest = "T", rest[1:]
			continue
		}
		end := strings.IndexAny(rest, "DWHMS")
		if end < 0 {
			break
		}
		n, err := strconv.ParseFloat(rest[:end], 64)
		unit, ok := units[part+rest[end:end+1]]
		if err != nil || !ok || n < 0 || n > 1e9 {
			break
		}
		sum += n * float64(unit)
		found, rest = true, rest[end+1:]
	}
	if !found || rest != "" || sum > 1e18 {
		return 0, fmt.Errorf("%q: %w", "P"+text, errDuration)
	}
	return time.Duration(sum), nil
}

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
func glyphs(text string, yield func(glyph) bool) {
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
		case contested(r):
			if !flush() || !number(r, yield) {
				return
			}
			have = false
			continue
		}
		if !flush() {
			return
		}
		last, marks, have = glyph{r: r, width: max(1, runeWidth(r))}, 0, true
	}
	flush()
}

// runeWidth returns the width of an uncontested character.
func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	narrow := runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}
	return narrow.RuneWidth(r)
}

// number yields a character as \u and its number.
func number(r rune, yield func(glyph) bool) bool {
	for _, c := range escape(r) {
		if !yield(glyph{r: c, width: 1}) {
			return false
		}
	}
	return true
}

func escape(r rune) string {
	const digits = "0123456789abcdef"
	size := 4
	if r > 0xffff {
		size = 8
	}
	var b strings.Builder
	b.WriteByte('\\')
	b.WriteByte("uU"[size/8])
	for shift := 4 * (size - 1); shift >= 0; shift -= 4 {
		b.WriteByte(digits[r>>shift&15])
	}
	return b.String()
}

// variation reports whether r selects another form of the previous character.
func variation(r rune) bool { return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef }

// contested reports whether a terminal may interpret r, or whether terminals disagree about its
// width: controls, formats, joiners, flags, and marks without a base character.
func contested(r rune) bool {
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

// width returns the number of cells of a text.
func width(text string) int {
	if plain(text) {
		return len(text)
	}
	n := 0
	glyphs(text, func(g glyph) bool { n += g.width; return true })
	return n
}

// plain reports whether a text is printable ASCII.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// cleaned returns a text in which what terminals interpret is shown as numbers.
func cleaned(text string) string {
	var b strings.Builder
	glyphs(text, func(g glyph) bool {
		b.WriteRune(g.r)
		b.WriteString(g.tail)
		return true
	})
	return b.String()
}

// clip cuts a text to a number of cells; the mark shows that something is missing.
func clip(text string, avail int, mark string) string {
	if avail <= 0 {
		return ""
	}
	if len(text) <= avail && plain(text) || width(text) <= avail {
		return text
	}
	avail -= width(mark)
	var b strings.Builder
	n := 0
	glyphs(text, func(g glyph) bool {
		if n += g.width; n > avail {
			return false
		}
		b.WriteRune(g.r)
		b.WriteString(g.tail)
		return true
	})
	return b.String() + mark
}

// skip removes the first cells of a text.
func skip(text string, cells int) string {
	if cells <= 0 {
		return text
	}
	var b strings.Builder
	n := 0
	glyphs(text, func(g glyph) bool {
		if n >= cells {
			b.WriteRune(g.r)
			b.WriteString(g.tail)
		}
		n += g.width
		return true
	})
	return b.String()
}
