// Package history folds the events of an execution into the runs of its tasks, describes events,
// and formats task runs, durations and counts for people.
package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
)

const day = 24 * time.Hour

// Duration formats a duration for people in at most two units, rounded: "1d03h", "4m07s",
// "12.345s", "0.35ms". A thousand days or more are given in days only.
func Duration(d time.Duration) string {
	if d < 0 {
		if text := Duration(-max(d, -maxDuration)); text != "0s" {
			return "-" + text
		}
		return "0s"
	}
	switch {
	case d < time.Millisecond:
		return milliseconds(d.Round(time.Microsecond))
	case d.Round(time.Millisecond) < time.Minute:
		return d.Round(time.Millisecond).String()
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d.Round(time.Minute) < day:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d.Round(time.Hour) < 1000*day:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	default:
		return Number(d.Round(day)/day) + "d"
	}
}

// Between is like Duration for the time from one moment to another, which may be more than the 292 years
// of a time.Duration.
func Between(from, to time.Time) string {
	if d := to.Sub(from); d.Abs() < maxDuration {
		return Duration(d)
	}
	return Milliseconds(event.Milliseconds(from, to))
}

// Milliseconds is like Duration for any number of milliseconds.
func Milliseconds(ms int64) string {
	if d := time.Duration(ms) * time.Millisecond; d.Milliseconds() == ms {
		return Duration(d)
	}
	return Number(ms/day.Milliseconds()) + "d"
}

// maxDuration is the longest duration that can be negated.
const maxDuration = time.Duration(1<<63 - 1)

// milliseconds formats a duration of less than a millisecond, in ASCII.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
}

// Number formats a number for people, with commas between the thousands.
func Number[N ~int | ~int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Count formats a number with its noun: "1 task", "2 tasks", "3 processes".
func Count[N ~int | ~int64](n N, noun string) string {
	return Number(n) + " " + Plural(n, noun)
}

// Plural returns the form of a noun that follows the number n.
func Plural[N ~int | ~int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	for _, end := range []string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(noun, end) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	return noun + "s"
}
