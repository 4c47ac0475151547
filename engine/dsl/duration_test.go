package dsl_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	start := time.Date(2024, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		in   any
		text string
		end  string
	}{
		{"PT5S", "PT5S", "2024-01-31T12:00:05Z"},
		{"PT0.1S", "PT0.1S", "2024-01-31T12:00:00.1Z"},
		{"P1D", "P1D", "2024-02-01T12:00:00Z"},
		{"P1M", "P1M", "2024-02-29T12:00:00Z"},
		{"P1Y1M", "P1Y1M", "2025-02-28T12:00:00Z"},
		{"P1W", "P7D", "2024-02-07T12:00:00Z"},
		{"P0.5Y", "P6M", "2024-07-31T12:00:00Z"},
		{"P0.5D", "PT12H", "2024-02-01T00:00:00Z"},
		{"PT36H", "PT36H", "2024-02-02T00:00:00Z"},
		{"PT0S", "PT0S", "2024-01-31T12:00:00Z"},
		{"PT0.0000000001S", "PT0.000000001S", "2024-01-31T12:00:00.000000001Z"},
		{"P99999999999999999999Y", "", "9999-12-31T23:59:59.999999999Z"},
		{"PT99999999999999999999H", "", "9999-12-31T23:59:59.999999999Z"},
		{"P2000YT9000000H", "", "5050-10-19"},
		{"1h30m", "PT1H30M", "2024-01-31T13:30:00Z"},
		{"2030-01-01T00:00:00+01:00", "2030-01-01T00:00:00+01:00", "2029-12-31T23:00:00Z"},
		{"2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2024-01-31T12:00:00Z"},
		{map[string]any{"days": 1, "milliseconds": 1500}, "P1DT1.5S", "2024-02-01T12:00:01.5Z"},
		{map[string]any{"seconds": 2.0}, "PT2S", "2024-01-31T12:00:02Z"},
		{map[string]any{"hours": new(big.Int).Lsh(big.NewInt(1), 200)}, "", "9999-12-31T23:59:59.999999999Z"},
		{map[string]any{"days": math.MaxInt}, "", "9999-12-31T23:59:59.999999999Z"},
	} {
		d, err := dsl.ParseDuration(c.in)
		if err != nil {
			t.Errorf("%v: %v", c.in, err)
			continue
		}
		if c.text != "" && d.String() != c.text {
			t.Errorf("%v is %s, want %s", c.in, d, c.text)
		}
		if got := d.From(start).Format(time.RFC3339Nano); !strings.HasPrefix(got, c.end) {
			t.Errorf("%v ends at %s, want %s", c.in, got, c.end)
		}
		if d.Go != (c.in == "1h30m") {
			t.Errorf("%v: Go is %v", c.in, d.Go)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []any{
		"", "P", "PT", "P1DT", "P1H", "PT1D", "-PT1S", "P-1D", "PT-1S", "-1h", "5", "5 minutes", "PT1S1M", "P1.D", strings.Repeat("9", 500),
		nil, true, 5, -5, 2.5,
		[]any{},
		map[string]any{},
		map[string]any{"day": 1},
		map[string]any{"Seconds": 1},
		map[string]any{"seconds": -1},
		map[string]any{"seconds": 0.5},
		map[string]any{"seconds": "1"},
		map[string]any{"seconds": nil},
	} {
		if d, err := dsl.ParseDuration(in); err == nil {
			t.Errorf("%v is %v, want an error", in, d)
		}
	}
}

// Durations as people type them: with days and weeks, but without timestamps.
func TestParseSpan(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 2 * day, " 5m ": 5 * time.Minute, "0": 0, "1w2d12h": 9*day + 12*time.Hour,
		"PT1H": time.Hour, "P1DT2H3M4.5S": day + 2*time.Hour + 3*time.Minute + 4500*time.Millisecond, "P2W": 14 * day,
	} {
		d, err := dsl.ParseSpan(text)
		if got, ok := d.Fixed(); err != nil || !ok || got != want {
			t.Errorf("%q is %v, %v, %v, want %v", text, got, ok, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5", "-5m", "P", "PT", "P5", "1dP1D", "1d 5", "2d0", "12h2d", "1e30d", "2026-01-01T00:00:00Z", "1.5d"} {
		if d, err := dsl.ParseSpan(text); err == nil {
			t.Errorf("%q is %v, want an error", text, d)
		}
	}
	for _, text := range []string{"P1M", "999999w", "P9999999999999D"} {
		d, err := dsl.ParseSpan(text)
		if length, ok := d.Fixed(); err != nil || ok {
			t.Errorf("%q is %v, %v: it has no length of its own", text, length, err)
		}
	}
	march := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if month, err := dsl.ParseSpan("P1M"); err != nil || month.Before(march) != march.AddDate(0, 0, -31) {
		t.Errorf("a month before March is %v, %v", month.Before(march), err)
	}
}
