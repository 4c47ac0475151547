// Package telemetry counts and logs the activities of a process' services, and serves their
// metrics and health over HTTP.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Telemetry holds the counters of one process' services. It is safe for concurrent use.
type Telemetry struct {
	log      *slog.Logger
	services map[string]*meters

	registration, firing, latency prometheus.Observer
	tasks                         *prometheus.CounterVec
	durations                     *prometheus.HistogramVec
	removed, restored, stuck      *prometheus.CounterVec
	inputs                        *prometheus.CounterVec
	labels                        tenantLabels

	mu     sync.Mutex
	active map[string]*work // by service, consumer and message
}

// work is a message that a service is handling.
type work struct {
	began  time.Time
	failed bool
}

// Counts holds the numbers of events that a service has handled and is handling.
type Counts struct {
	Succeeded, Failed, Active int64
}

// Processed returns the number of events that the service has handled.
func (c Counts) Processed() int64 { return c.Succeeded + c.Failed }

// meters are the metrics that all services have.
type meters struct {
	processed, errors                        *prometheus.CounterVec
	subscription, dead, claimed, redisErrors prometheus.Counter
	duration                                 *prometheus.HistogramVec
	active                                   prometheus.Gauge

	counts Counts // guarded by Telemetry.mu
}

// services returns the names of the services that are counted.
func services() []string { return []string{"worker", "executor", "timer"} }

// New returns a Telemetry that logs to log, and registers all its metrics.
func New(log *slog.Logger, registry prometheus.Registerer) *Telemetry {
	t := &Telemetry{log: log, services: map[string]*meters{}, active: map[string]*work{}}
	r := registered(registry)
	for _, name := range services() {
		t.services[name] = newMeters(name, r)
	}
	t.registration = r.histogram("timer_registration_duration_seconds", "Seconds that registering a timer took.", quick()).WithLabelValues()
	t.firing = r.histogram("timer_firing_duration_seconds", "Seconds that firing a batch of timers took, counted for each timer.", quick()).WithLabelValues()
	t.latency = r.histogram("timer_firing_latency_seconds", "Seconds from when a timer was due until it was fired.", late()).WithLabelValues()
	t.tasks = r.counter("executor_tasks_processed_total", "Performed tasks, by type and status.", "task_type", "status")
	t.durations = r.histogram("executor_task_duration_seconds", "Seconds that performing a task took.", long(), "task_type")
	t.removed = r.counter("flunq_executions_removed_total", "Ended executions that this process has removed.", "tenant")
	t.restored = r.counter("flunq_lost_restored_total", "Timers, subscriptions and requests that Redis had lost and this process has restored.", "tenant")
	t.stuck = r.counter("flunq_executions_stuck_total", "Executions found by this process that nothing will wake.", "tenant")
	t.inputs = r.counter("timer_inputs_total", "Handled inputs, by outcome; unknown: there is no such execution.", "outcome")
	for _, outcome := range []store.InputOutcome{store.InputAccepted, store.InputRejected, store.InputCompleted} {
		t.inputs.WithLabelValues(string(outcome))
	}
	t.tasks.WithLabelValues("call", "success")
	t.durations.WithLabelValues("call")
	return t
}

// registered returns a factory of metrics that are registered.
func registered(registry prometheus.Registerer) factory { return factory{promauto.With(registry)} }

type factory struct{ promauto.Factory }

func (f factory) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f factory) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func (f factory) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func newMeters(name string, r factory) *meters {
	m := &meters{
		processed:    r.counter(name+"_events_processed_total", "Handled events, by type and status.", "type", "status"),
		errors:       r.counter(name+"_processing_errors_total", "Failed attempts to handle an event, by class of the error and number of the attempt.", "type", "attempt"),
		subscription: r.counter(name+"_subscription_errors_total", "Failed reads of the stream.").WithLabelValues(),
		dead:         r.counter(name+"_event_dlq_total", "Dead-lettered events.").WithLabelValues(),
		claimed:      r.counter(name+"_events_claimed_total", "Events claimed from silent consumers.").WithLabelValues(),
		redisErrors:  r.counter(name+"_redis_errors_total", "Events and timers whose handling Redis errors interrupted; they are handled again.").WithLabelValues(),
		duration:     r.histogram(name+"_processing_duration_seconds", "Seconds that handling an event took.", long(), "type"),
		active:       r.gauge(name+"_active_events", "Events that are being handled.").WithLabelValues(),
	}
	// Initialize counters to 0 so that they are not absent.
	m.processed.WithLabelValues(string(mainType(name)), "success")
	m.errors.WithLabelValues(string(delivery.Recoverable), "1")
	m.duration.WithLabelValues(string(mainType(name)))
	return m
}

// mainType returns the event type that a service mainly handles.
func mainType(service string) event.Type {
	switch service {
	case "executor":
		return event.TaskRequested
	case "timer":
		return event.TimerScheduled
	default:
		return event.ExecutionStarted
	}
}

// Histogram buckets in seconds: for a round trip or two, for the lateness of timers, and
// for calls.
func quick() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}
}

func late() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 10, 60}
}

func long() []float64 {
	return []float64{.0005, .001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

// Counts returns the counts of a service: worker, executor or timer.
func (t *Telemetry) Counts(service string) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.services[service].counts
}

// Observe records an activity; it is the engine's observer.
func (t *Telemetry) Observe(a delivery.Activity) {
	m := t.services[a.Service]
	if a.What == delivery.Removed {
		t.removed.WithLabelValues(t.labels.of(a.Message.Tenant)).Add(float64(a.Count))
		t.log.Debug("executions removed", "service", a.Service, "consumer", a.Consumer, "tenant_id", a.Message.Tenant, "count", a.Count)
	}
	if a.Service == "sweep" {
		t.swept(a)
	}
	if m == nil {
		return
	}
	now := time.Now()
	switch a.What { //nolint:exhaustive // the others are counted elsewhere
	case delivery.Began:
		t.begin(m, a, now)
	case delivery.Done, delivery.Broken:
		t.end(m, a, now)
	case delivery.Failed, delivery.DeadLettered:
		t.failed(m, a)
	case delivery.Claimed:
		m.claimed.Inc()
		if a.Count > 0 { // one line for all messages that were claimed together
			t.log.Warn("events claimed", "service", a.Service, "consumer", a.Consumer, "count", a.Count)
		}
		t.log.Debug("event claimed", t.fields(a, "crashes", a.Message.Crashes)...)
	case delivery.Took:
		t.inputs.WithLabelValues(string(a.Outcome)).Inc()
	case delivery.Unread:
		m.subscription.Inc()
	case delivery.Unfired:
		m.redisErrors.Inc()
	case delivery.Performed:
		t.performed(a, now)
	case delivery.Registered, delivery.Cancelled:
		t.registered(a, now)
	case delivery.Firing:
		t.firingBegan(a, now)
	case delivery.Fired:
		t.fired(m, a, now)
	}
}

// swept counts and logs what the sweep has found.
func (t *Telemetry) swept(a delivery.Activity) {
	fields := []any{"tenant_id", a.Message.Tenant, "execution_id", a.Message.Event.Execution}
	switch a.What { //nolint:exhaustive // it does nothing else
	case delivery.Restored:
		t.restored.WithLabelValues(t.labels.of(a.Message.Tenant)).Add(float64(a.Count))
		t.log.Warn("restored what an execution waits for and Redis had lost", append(fields, "count", a.Count)...)
	case delivery.Stuck:
		t.stuck.WithLabelValues(t.labels.of(a.Message.Tenant)).Inc()
		t.log.Warn("execution is stuck", append(fields, "err", a.Err)...)
	}
}

// key identifies a message that a consumer is handling.
func key(a delivery.Activity) string {
	return a.Service + " " + a.Consumer + " " + a.Message.Tenant + " " + a.Message.ID
}

// firingBegan records that a consumer fires a batch of timers.
func (t *Telemetry) firingBegan(a delivery.Activity, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active[key(a)] = &work{began: now}
}

// took returns the time since a consumer began what it does, 0 if that is unknown.
func (t *Telemetry) took(a delivery.Activity, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.active[key(a)]; w != nil {
		return now.Sub(w.began)
	}
	return 0
}

// begin records that a consumer handles a message. It may begin one again before it has ended it.
func (t *Telemetry) begin(m *meters, a delivery.Activity, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[key(a)] == nil {
		m.active.Inc()
		m.counts.Active++
	}
	t.active[key(a)] = &work{began: now}
}

// end records that a consumer has finished a message. If Redis failed, it may not have begun it.
func (t *Telemetry) end(m *meters, a delivery.Activity, now time.Time) {
	took := t.took(a, now)
	t.mu.Lock()
	w := t.active[key(a)]
	if w != nil {
		delete(t.active, key(a))
		m.active.Dec()
		m.counts.Active--
	}
	status := "success"
	switch {
	case a.What == delivery.Broken:
		if store.Temporary(a.Err) && !errors.Is(a.Err, context.Canceled) {
			m.redisErrors.Inc()
		}
	case w != nil && w.failed:
		status = "failure"
		m.counts.Failed++
	default:
		m.counts.Succeeded++
	}
	t.mu.Unlock()
	if a.What == delivery.Broken {
		return
	}
	kind := typeOf(a.Message.Event.Type)
	m.processed.WithLabelValues(kind, status).Inc()
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
	t.log.Debug("event processed", t.fields(a, "status", status, "processing_duration_ms", took.Milliseconds())...)
}

// typeOf returns an event's type as a label; all external types share one, since there may be any
// number of them.
func typeOf(typ event.Type) string {
	if own := string(typ); strings.HasPrefix(own, event.Prefix) {
		return own
	}
	return "other"
}

func (t *Telemetry) failed(m *meters, a delivery.Activity) {
	t.mu.Lock()
	if w := t.active[key(a)]; w != nil {
		w.failed = true
	}
	t.mu.Unlock()
	m.errors.WithLabelValues(string(a.Class), strconv.Itoa(a.Message.Attempt+1)).Inc()
	fields := t.fields(a, "attempt", a.Message.Attempt+1, "error_class", a.Class, "err", a.Err)
	if a.What == delivery.DeadLettered {
		m.dead.Inc()
		t.log.Error("event dead-lettered", fields...)
		return
	}
	t.log.Warn("event will be retried", fields...)
}

func (t *Telemetry) performed(a delivery.Activity, now time.Time) {
	status := "success"
	if a.Err != nil {
		status = "failure"
	}
	took := t.took(a, now)
	t.tasks.WithLabelValues(a.Task, status).Inc()
	t.durations.WithLabelValues(a.Task).Observe(took.Seconds())
	t.log.Debug("task performed", t.fields(a, "task_type", a.Task, "status", status, "duration_ms", took.Milliseconds())...)
}

// fields returns the documented fields of a log line.
func (t *Telemetry) fields(a delivery.Activity, more ...any) []any {
	e := a.Message.Event
	out := []any{"service", a.Service, "consumer", a.Consumer}
	add := func(name, value string) {
		if value != "" {
			out = append(out, name, value)
		}
	}
	add("event_id", e.ID)
	add("event_type", string(e.Type))
	add("tenant_id", e.Tenant)
	add("workflow_id", e.Workflow)
	add("execution_id", e.Execution)
	add("task_id", e.Task)
	return append(out, more...)
}
