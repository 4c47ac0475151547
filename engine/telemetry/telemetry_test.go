package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/telemetry"
)

// site is a Telemetry with its log and HTTP handler.
type site struct {
	*telemetry.Telemetry
	log   bytes.Buffer
	pages *httptest.Server
	mini  *miniredis.Miniredis
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{mini: miniredis.RunT(t)}
	registry := prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Telemetry = telemetry.New(log, registry)
	rdb, err := store.Dial(t.Context(), s.mini.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	opts := engine.Defaults()
	opts.Process, opts.Transport = "one", http.DefaultTransport
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(telemetry.Depth(e, log))
	s.pages = httptest.NewServer(s.Handler(e, registry))
	t.Cleanup(s.pages.Close)
	return s
}

func (s *site) page(t *testing.T, path string) (int, string) {
	t.Helper()
	res, err := http.Get(s.pages.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// handle reports one handled event, with activities in between.
func (s *site) handle(service string, e event.Event, between ...delivery.Activity) {
	a := delivery.Activity{Service: service, Consumer: "c", Message: store.Message{ID: "1-0", Tenant: "acme", Event: e}}
	tell := func(what delivery.What) { a.What = what; s.Observe(a) }
	tell(delivery.Began)
	for _, b := range between {
		b.Service, b.Consumer, b.Message = a.Service, a.Consumer, a.Message
		s.Observe(b)
	}
	tell(delivery.Done)
}

// Every documented metric exists from the start.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, page := s.page(t, "/metrics")
	for _, name := range []string{
		"timer_events_processed_total", "timer_registration_duration_seconds", "timer_firing_duration_seconds", "timer_firing_latency_seconds",
		"timer_processing_errors_total", "timer_subscription_errors_total", "timer_event_dlq_total", "timer_zset_size",
		"worker_events_processed_total", "worker_processing_errors_total", "worker_event_dlq_total",
		"executor_events_processed_total", "executor_tasks_processed_total", "executor_processing_errors_total", "executor_event_dlq_total",
	} {
		if !strings.Contains(page, "# TYPE "+name+" ") {
			t.Errorf("metric %s is missing", name)
		}
	}
}

// Each handled event is counted once, by its outcome.
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	started := event.Event{ID: "e", Type: event.ExecutionStarted, Execution: "x-1"}
	s.handle("worker", started)
	s.handle("worker", started, delivery.Activity{What: delivery.Failed, Class: delivery.Recoverable, Err: io.EOF})
	s.handle("worker", started, delivery.Activity{What: delivery.DeadLettered, Class: delivery.Permanent, Err: io.EOF})
	if got, want := s.Counts("worker"), (telemetry.Counts{Succeeded: 1, Failed: 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	_, page := s.page(t, "/metrics")
	for _, line := range []string{
		`worker_events_processed_total{status="failure",type="io.flunq.execution.started"} 2`,
		`worker_processing_errors_total{attempt="1",type="permanent"} 1`,
		`worker_event_dlq_total 1`, `worker_active_events 0`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// A message that is begun twice is active once, and one that is never begun is not active.
func TestActive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	began := delivery.Activity{Service: "worker", Consumer: "c", What: delivery.Began, Message: store.Message{ID: "1-0", Tenant: "acme"}}
	s.Observe(began)
	s.Observe(began)
	if got := s.Counts("worker").Active; got != 1 {
		t.Errorf("%d are active, want 1", got)
	}
	for _, id := range []string{"1-0", "2-0"} {
		s.Observe(delivery.Activity{Service: "worker", Consumer: "c", What: delivery.Broken, Message: store.Message{ID: id, Tenant: "acme"}})
	}
	if got := s.Counts("worker").Active; got != 0 {
		t.Errorf("%d are active, want none", got)
	}
	if _, page := s.page(t, "/metrics"); !strings.Contains(page, "worker_active_events 0\n") {
		t.Error("the metric differs")
	}
}

// Only errors of Redis are counted as such: neither those of a message, nor that a service stops.
func TestRedisErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, err := range []error{errors.New("unexpected end of JSON input"), store.Failed("read", context.Canceled), store.Failed("read", io.EOF)} {
		s.Observe(delivery.Activity{Service: "executor", Consumer: "c", What: delivery.Broken, Message: store.Message{ID: "1-0", Tenant: "acme"}, Err: err})
	}
	if _, page := s.page(t, "/metrics"); !strings.Contains(page, "executor_redis_errors_total 1\n") {
		t.Error("the metric is not 1")
	}
}

// Removed and remaining executions are counted.
func TestRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 2 {
		s.Observe(delivery.Activity{Service: "housekeeping", What: delivery.Removed, Message: store.Message{Tenant: "acme"}, Count: 21})
	}
	if _, err := s.mini.ZAdd("tenant:default:executions:faulted", 1, "x-1"); err != nil {
		t.Fatal(err)
	}
	_, page := s.page(t, "/metrics")
	for _, line := range []string{`flunq_executions_removed_total{tenant="acme"} 42`, `flunq_executions{status="faulted",tenant="default"} 1`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// Messages that are claimed together are one line.
func TestClaimLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, count := range []int{3, 0, 0} { // as a consumer reports them
		s.Observe(delivery.Activity{Service: "worker", Consumer: "c", What: delivery.Claimed, Count: count})
	}
	if text := s.log.String(); strings.Count(text, `"WARN"`) != 1 || !strings.Contains(text, `"msg":"events claimed","service":"worker","consumer":"c","count":3`) {
		t.Errorf("3 messages claimed together are logged as\n%s", text)
	}
}

// A timer's log lines have the documented fields.
func TestTimerLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	due := time.Date(2026, 1, 1, 0, 0, 0, 123e6, time.UTC)
	timer := event.Timer{Tenant: "acme", Workflow: "w", Execution: "x-1", TaskID: "/do/0/nap", FireAt: due, DurationMS: 5000}
	scheduled := event.Event{ID: "e-1", Type: event.TimerScheduled, Tenant: "acme", Workflow: "w", Execution: "x-1", Task: "/do/0/nap"}
	s.handle("timer", scheduled, delivery.Activity{What: delivery.Registered, Timer: &timer})
	s.Observe(delivery.Activity{Service: "timer", Consumer: "c", What: delivery.Fired, Timer: &timer, At: due.Add(7 * time.Millisecond)})
	lines := map[string]map[string]any{}
	for line := range strings.Lines(s.log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		name, _ := record["msg"].(string)
		lines[name] = record
	}
	for _, name := range []string{
		"event_id", "event_type", "timer_id", "workflow_id", "execution_id", "task_id", "fire_at", "duration_ms",
		"processing_duration_ms", "redis_operation", "redis_score",
	} {
		if lines["timer_registered"][name] == nil {
			t.Errorf("a registration's line has no %s", name)
		}
		if lines["timer_fired"][name] == nil && name != "event_id" {
			t.Errorf("a firing's line has no %s", name)
		}
	}
	if late := lines["timer_fired"]["late_ms"]; late != 7.0 {
		t.Errorf("late by %v ms, want 7", late)
	}
}

// The worker's health has the documented fields; without services a process is not healthy, and without
// Redis it is not ready.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, page := s.page(t, "/api/health/worker")
	var health map[string]any
	if err := json.Unmarshal([]byte(page), &health); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"status", "workerCount", "healthyWorkers", "degradedWorkers", "unhealthyWorkers",
		"eventsProcessed", "eventsSucceeded", "eventsFailed", "activeEvents", "timestamp",
	} {
		if _, ok := health[name]; !ok {
			t.Errorf("no field %s in %s", name, page)
		}
	}
	if code, body := s.page(t, "/health"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"status":"unhealthy"`) {
		t.Errorf("healthy without services: %d %s", code, body)
	}
	s.mini.Close()
	if code, body := s.page(t, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready without Redis: %d %s", code, body)
	}
	if code, _ := s.page(t, "/healthz"); code != http.StatusOK {
		t.Errorf("not alive without Redis: %d", code)
	}
}
