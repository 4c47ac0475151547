package engine

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// While some of the steps fail and others succeed, one entry in ten seconds says so.
func TestStepLog(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	steps := StepLog{Log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 15 {
		steps.Add(t.Context(), now, errors.New("no master"))
		steps.Add(t.Context(), now, nil)
		now = now.Add(time.Second)
	}
	steps.Add(t.Context(), now, nil)
	steps.Add(t.Context(), now.Add(9*time.Second), nil)
	steps.Add(t.Context(), now.Add(10*time.Second), nil)
	got := slices.Collect(strings.Lines(text.String()))
	want := []string{
		"level=ERROR msg=\"step failed\" err=\"no master\" failures=1\n",
		"level=ERROR msg=\"step failed\" err=\"no master\" failures=11\n",
		"level=INFO msg=\"step works again\" failures=15\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged\n%swant\n%s", text.String(), strings.Join(want, ""))
	}
}

// A service whose step takes too long says so, although no step has failed.
func TestSlowStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	slow := serviceHealth{service: Service{Kind: "bridge"}, lastGood: now}
	slow.begin(now)
	if h := slow.health(now.Add(slowAfter)); h.Status != Healthy || h.Err != nil {
		t.Errorf("%s, %v, want %s", h.Status, h.Err, Healthy)
	}
	if h := slow.health(now.Add(slowAfter + 2*time.Second)); h.Status != Degraded || h.Err == nil || h.Err.Error() != "a step of the bridge has been running for 12s" {
		t.Errorf("%s, %v, want %s with a reason", h.Status, h.Err, Degraded)
	}
}
