package history_test

import (
	"math"
	"testing"
	"time"

	"flunq.io/flunq/engine/history"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{0, "0s"},
		{400 * time.Nanosecond, "0s"},
		{-400 * time.Nanosecond, "0s"},
		{350 * time.Microsecond, "0.35ms"},
		{time.Millisecond, "1ms"},
		{1499 * time.Microsecond, "1ms"},
		{12345 * time.Millisecond, "12.345s"},
		{59*time.Second + 999*time.Millisecond, "59.999s"},
		{59*time.Second + 999600*time.Microsecond, "1m00s"},
		{time.Minute, "1m00s"},
		{89*time.Second + 500*time.Millisecond, "1m30s"},
		{59*time.Minute + 59*time.Second + 500*time.Millisecond, "1h00m"},
		{time.Hour + 29*time.Minute + 30*time.Second, "1h30m"},
		{23*time.Hour + 59*time.Minute + 29*time.Second, "23h59m"},
		{23*time.Hour + 59*time.Minute + 30*time.Second, "1d00h"},
		{day + 2*time.Hour + 59*time.Minute, "1d03h"},
		{2*day + 23*time.Hour + 59*time.Minute + 58*time.Second, "3d00h"},
		{-(day + 2*time.Hour + 59*time.Minute), "-1d03h"},
		{999*day + 23*time.Hour + 45*time.Minute, "1,000d"},
		{36500*day + 13*time.Hour, "36,501d"},
		{math.MaxInt64, "106,751d"},
		{math.MinInt64, "-106,751d"},
	} {
		if got := history.Duration(c.in); got != c.want {
			t.Errorf("Duration(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for years, want := range map[int]string{-1000: "-365,243d", 0: "0.5ms", 1: "365d00h", 292: "106,650d", 293: "107,015d", 7973: "2,912,078d"} {
		if got := history.Between(from, from.AddDate(years, 0, 0).Add(500*time.Microsecond)); got != want {
			t.Errorf("%d years: %q, want %q", years, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "task", "0 tasks"},
		{1, "task", "1 task"},
		{999, "event", "999 events"},
		{1000, "event", "1,000 events"},
		{1234567, "dead letter", "1,234,567 dead letters"},
		{-1234, "event", "-1,234 events"},
		{2, "process", "2 processes"},
		{2, "entry", "2 entries"},
		{2, "day", "2 days"},
	} {
		if got := history.Count(c.n, c.noun); got != c.want {
			t.Errorf("Count(%d, %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
