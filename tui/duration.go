package tui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
