package tui

import (
	"testing"
	"time"
)

// What was not late when it was read is not called late, however old that is.
func TestDue(t *testing.T) {
	t.Parallel()
	for want, row := range map[string]Row{
		"":           {State: Waiting},
		"in 3s":      {State: Waiting, At: when.Add(2001 * time.Millisecond)},
		"now":        {State: Waiting, At: when.Add(-time.Minute)},
		"1m00s late": {State: Overdue, At: when.Add(-time.Minute)},
	} {
		if got := due(when, row); got != want {
			t.Errorf("%v: %q, want %q", row, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, " 5m ": 5 * time.Minute,
		"PT1H": time.Hour, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, "p2w": 14 * 24 * time.Hour,
	} {
		if got, err := duration(text); err != nil || got != want {
			t.Errorf("duration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5", "-5m", "P", "PT", "P1M", "P5", "PT1H5", "P9999999999999D", "1e30d"} {
		if got, err := duration(text); err == nil {
			t.Errorf("duration(%q) = %v, want an error", text, got)
		}
	}
}
