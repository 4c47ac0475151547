package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// age is a time that goes on, for people: whole seconds, two units at most.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + age(-d)
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 1000*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// took is a time that has ended.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + took(-d)
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	default:
		return age(d)
	}
}

// countdown is the time until a moment, which may be past.
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
	// Whoever waits sees 1s until it is over.
	return "in " + age(left+time.Second-time.Nanosecond)
}

// due is the time until a timer fires. One whose moment has passed since it was read
// may have fired: that it is late its source has to say.
func due(now time.Time, r Row) string {
	if r.State != Overdue && !r.At.IsZero() && !now.Before(r.At) {
		return "now"
	}
	return countdown(now, r.At)
}

// since is the time since a moment; none before it.
func since(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return age(max(0, now.Sub(at)))
}

// moment is a time of day in the zone of now, and the day where that is another one.
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

// zoned is a text in which a time stands alone, in the zone of now.
func zoned(now time.Time, text string) string {
	if now.Location() == time.UTC || !strings.HasSuffix(text, "Z") {
		return text
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.In(now.Location()).Format(time.RFC3339Nano)
	}
	return text
}

// number is a count with its thousands apart.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}

// rate is how often something happens in a second.
func rate(n float64) string {
	if n >= 100 || n == 0 {
		return count(int64(n + 0.5))
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// some counts things by their name.
func some(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(int64(n)) + " " + what + "s"
}

// wrapped is a text in lines that are so wide.
func wrapped(text string, room int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			for width(word) > room && room > 0 {
				if line != "" {
					lines, line = append(lines, line), ""
				}
				lines = append(lines, clip(word, room, ""))
				word = skip(word, room)
			}
			switch {
			case line == "":
				line = word
			case width(line)+1+width(word) <= room:
				line += " " + word
			default:
				lines, line = append(lines, line), word
			}
		}
		lines = append(lines, line)
	}
	return lines
}
