package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/telemetry"
)

// Where the counts lack dead events, the metrics do not say that there are none.
func TestSchedulerDepthUncounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(telemetry.SchedulerDepth(telemetry.SchedulerProcess{
		Counts: func(context.Context) ([]schedule.Counts, error) { return []schedule.Counts{{Scheduled: 3}}, nil },
		Owned:  func() int { return 0 }, Publishing: func() int { return 0 }, Uncounted: true,
	}, slog.New(slog.DiscardHandler)))
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Fatal(families, err)
	}
	for _, family := range families {
		if family.GetName() == "scheduler_dead" {
			t.Errorf("%v, want none", family)
		}
	}
}

// The metrics say what the scheduler did, and what is pending in Redis and in the process.
func TestSchedulerMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := telemetry.NewScheduler(slog.New(slog.DiscardHandler), registry)
	registry.MustRegister(telemetry.SchedulerDepth(telemetry.SchedulerProcess{
		Counts: func(context.Context) ([]schedule.Counts, error) {
			return []schedule.Counts{{Partition: 0, Scheduled: 3, Overdue: 2, Firing: 1}, {Partition: 7, Scheduled: 4, Dead: 5}}, nil
		},
		Owned: func() int { return 2 }, Publishing: func() int { return 6 }, Lag: func() map[int32]int64 { return map[int32]int64{1: 9} },
	}, slog.New(slog.DiscardHandler)))
	for attempts, err := range []error{
		nil, errors.New("connection lost"), schedule.ErrUnreachable, schedule.ErrUnavailable, schedule.ErrRefused, schedule.ErrNotPublished,
	} {
		e := &schedule.Event{Status: schedule.Firing, Attempts: attempts, Failures: min(attempts, 4), Content: schedule.Content{Topic: "orders"}}
		if err != nil {
			err = fmt.Errorf("publish: %w", err)
		}
		s.Published(scheduler.Publication{Event: e, Err: err, Lateness: 3 * time.Millisecond, Took: time.Millisecond})
	}
	s.Reconciled(12)
	s.Requested(false, schedule.Conflict)
	s.Requested(true, schedule.NoContent)
	s.Handled("Schedule", "OK", time.Millisecond)
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{
		`scheduler_scheduled_total{result="CONFLICT"} 1`, `scheduler_cancelled_total{result="NO_CONTENT"} 1`,
		`scheduler_fired_total{topic="orders"} 1`, `scheduler_lateness_seconds_count 1`, `scheduler_publish_seconds_count 6`,
		`scheduler_publish_errors_total{class="away"} 1`, `scheduler_publish_errors_total{class="not available"} 1`,
		`scheduler_publish_errors_total{class="not published"} 1`, `scheduler_publish_errors_total{class="refused"} 1`,
		`scheduler_publish_errors_total{class="unknown"} 1`,
		`scheduler_lease_expired_total 1`, `scheduler_reconciled_total 12`,
		`scheduler_pending{partition="0"} 3`, `scheduler_pending{partition="7"} 4`, `scheduler_overdue 2`, `scheduler_processing 1`,
		`scheduler_dead 5`, `scheduler_partitions_owned 2`, `scheduler_semaphore_in_use 6`, `scheduler_feed_lag{partition="1"} 9`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Schedule"} 1`,
	} {
		if !strings.Contains(page.Body.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// Each failure has a line in the log with the documented fields, but not its payload. While the
// sink or a topic is not available, one line says so instead of one for each event.
func TestSchedulerLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := telemetry.NewScheduler(slog.New(slog.NewJSONHandler(&log, nil)), prometheus.NewRegistry())
	e := &schedule.Event{ID: "e-1", Owner: "p-1", Attempts: 2, Content: schedule.Content{
		Topic: "orders", Due: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Payload: []byte("secret"),
		Headers: map[string]string{"authorization": "secret"},
	}}
	for range 50 {
		s.Published(scheduler.Publication{Event: e, Err: schedule.ErrUnreachable})
		s.Published(scheduler.Publication{Event: e, Err: schedule.ErrUnavailable})
		s.Published(scheduler.Publication{Event: e})
	}
	failed := scheduler.Publication{Event: e, Partition: 7, Err: schedule.ErrRefused, Status: schedule.Dead, Lateness: 7 * time.Millisecond}
	s.Published(failed)
	s.Published(failed)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || strings.Contains(log.String(), "secret") {
		t.Fatalf("%d lines, want one that the sink is unreachable, and two failures:\n%s", len(lines), log.String())
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[2]), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"level": "WARN", "event_id": "e-1", "topic": "orders", "partition": 7.0, "execute_at": "2026-01-01T00:00:00Z", "lateness_ms": 7.0,
		"attempt": 3.0, "owner": "p-1", "outcome": "DEAD", "err": "refused",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
