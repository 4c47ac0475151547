package tui

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// age formats an elapsed time to the second.
func age(d time.Duration) string { return history.Duration(d.Round(time.Second)) }

// wait formats a remaining time, rounded up to the second.
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
	case left > 1000*24*time.Hour: // it may be more than a Duration
		return "in " + history.Between(now, at)
	}
	return "in " + wait(left)
}

// due formats the time until a timer fires. A timer whose time has passed since it was read may
// have fired: only the source knows whether it is late.
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

// zoned converts a time given as text to the zone of now.
func zoned(now time.Time, text string) string {
	if now.Location() == time.UTC || !strings.HasSuffix(text, "Z") {
		return text
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.In(now.Location()).Format(time.RFC3339Nano)
	}
	return text
}

// rate formats events per second.
func rate(n float64) string {
	if n >= 100 || n == 0 {
		return history.Number(int64(n + 0.5))
	}
	if n < 0.1 {
		return strconv.FormatFloat(n, 'g', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// duration parses a duration without months.
func duration(text string) (time.Duration, error) {
	d, err := dsl.ParseSpan(text)
	length, fixed := d.Fixed()
	if err == nil && !fixed {
		err = errors.New("want a duration without months")
	}
	return length, err
}

// sign is the symbol of a state. A state is never shown by colour alone.
type sign struct {
	glyph string
	style canvas.Style
}

// signs are the signs of the states.
//
//nolint:gochecknoglobals // a constant table
var signs = map[State]struct {
	unicode, ascii string
	style          canvas.Style
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
func signOf(theme canvas.Theme, s State) sign {
	found, ok := signs[s]
	if !ok {
		return sign{theme.Pick("·", "-"), canvas.Normal}
	}
	return sign{theme.Pick(found.unicode, found.ascii), found.style}
}
