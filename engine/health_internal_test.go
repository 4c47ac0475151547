package engine

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/redistest"
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

// An executor does not fail as long as it waits for a call, or performs one, and is healthy again when it does so after
// it has failed.
func TestIdleExecutor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	idle := serviceHealth{service: Service{Kind: "executor"}, lastGood: now}
	now = now.Add(2 * deadAfter)
	idle.end(now, errors.New("Redis is full"))
	if h := idle.health(now.Add(time.Second)); h.Status != Degraded {
		t.Errorf("%s after the first failure, want %s", h.Status, Degraded)
	}
	now = now.Add(2 * deadAfter)
	idle.end(now, errors.New("Redis is full"))
	idle.begin(now)
	if h := idle.health(now.Add(time.Second)); h.Status != Unhealthy || h.Err == nil {
		t.Errorf("%s, %v, want %s with a reason", h.Status, h.Err, Unhealthy)
	}
	if h := idle.health(now.Add(slowAfter + time.Second)); h.Status != Healthy || h.Err != nil || h.Failures != 0 {
		t.Errorf("%+v, want %s", h, Healthy)
	}
}

// The heartbeat tells other processes which services have failed for long, and why.
func TestHeartbeatOfFailingService(t *testing.T) {
	t.Parallel()
	breakers, err := breaker.New(breaker.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	h := Health{Kind: "bridge", Status: Degraded, Err: errors.New("topic x does not exist")}
	beat := heartbeat{
		store: store.New(redistest.Start(t), store.Options{}), breakers: breakers, health: func() []Health { return []Health{h} },
		entry: processes.Process{Name: "p", Services: []processes.Service{{Name: "worker"}, {Name: "bridge"}}},
	}
	for status, want := range map[Status]string{Degraded: "", Unhealthy: "topic x does not exist", Healthy: ""} {
		h.Status, beat.wait = status, 0
		if _, err := beat.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, _, err := processes.In(beat.store).All(t.Context())
		if err != nil || len(all) != 1 || all[0].Service("bridge").Failing != want || all[0].Service("worker").Failing != "" {
			t.Errorf("%s: %+v, %v", status, all, err)
		}
	}
}
