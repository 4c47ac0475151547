package tui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
