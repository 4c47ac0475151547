package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// Scheduler counts and logs what the scheduler of a process does. It is safe for concurrent
// use.
type Scheduler struct {
	log    *slog.Logger
	topics tenantLabels // the first hundred topics

	scheduled, cancelled, fired, failed, rpcs *prometheus.CounterVec
	lateness, publishing                      prometheus.Observer
	expired, reconciled                       prometheus.Counter
	rpcTime                                   *prometheus.HistogramVec

	unavailable atomic.Int64 // when it was last logged that the sink or a topic is not available, in nanoseconds
}

// NewScheduler returns a Scheduler that logs to log, and registers all its metrics.
func NewScheduler(log *slog.Logger, registry prometheus.Registerer) *Scheduler {
	r := registered(registry)
	return &Scheduler{
		log:        log,
		scheduled:  r.counter("scheduler_scheduled_total", "Requests to schedule an event, by result.", "result"),
		cancelled:  r.counter("scheduler_cancelled_total", "Requests to cancel an event, by result.", "result"),
		fired:      r.counter("scheduler_fired_total", "Published events, by topic.", "topic"),
		failed:     r.counter("scheduler_publish_errors_total", "Failed publications, by what is known about them.", "class"),
		expired:    r.counter("scheduler_lease_expired_total", "Events claimed again because the outcome of an earlier publication was unknown.").WithLabelValues(),
		reconciled: r.counter("scheduler_reconciled_total", "Open events in DynamoDB that the index in Redis lacked.").WithLabelValues(),
		lateness:   r.histogram("scheduler_lateness_seconds", "Seconds from when an event was due until its publication began.", late()).WithLabelValues(),
		publishing: r.histogram("scheduler_publish_seconds", "Seconds that publishing a batch of events took, counted for each event.", quick()).WithLabelValues(),
		rpcs:       r.counter("grpc_server_handled_total", "Answered RPCs, by method and status code.", "grpc_method", "grpc_code"),
		rpcTime:    r.histogram("grpc_server_handling_seconds", "Seconds until an RPC was answered.", quick(), "grpc_method"),
	}
}

// Published records the outcome of a publication. While the sink or a topic is not available, that is
// logged every ten seconds instead of for each event.
func (s *Scheduler) Published(p scheduler.Publication) {
	const pause = 10 * time.Second
	s.publishing.Observe(p.Took.Seconds())
	if p.Event.Status == schedule.Firing && p.Event.Attempts > p.Event.Failures {
		s.expired.Inc()
	}
	level := slog.LevelDebug
	if p.Err == nil {
		s.lateness.Observe(max(p.Lateness, 0).Seconds())
		s.fired.WithLabelValues(s.topics.of(p.Event.Topic)).Inc()
	} else {
		s.failed.WithLabelValues(class(p.Err)).Inc()
		level = slog.LevelWarn
		waits := errors.Is(p.Err, schedule.ErrUnreachable) || errors.Is(p.Err, schedule.ErrUnavailable)
		if now, last := time.Now().UnixNano(), s.unavailable.Load(); waits && (now-last < int64(pause) || !s.unavailable.CompareAndSwap(last, now)) {
			level = slog.LevelDebug
		}
	}
	ctx := context.Background()
	if !s.log.Enabled(ctx, level) {
		return
	}
	fields := []any{
		"event_id", p.Event.ID, "topic", p.Event.Topic, "partition", p.Partition, "execute_at", p.Event.Due.UTC().Format(time.RFC3339Nano),
		"lateness_ms", p.Lateness.Milliseconds(), "attempt", p.Event.Attempts + 1, "owner", p.Event.Owner, "outcome", outcome(p),
	}
	if p.Err != nil {
		s.log.Log(ctx, level, "event not published", append(fields, "err", p.Err)...)
		return
	}
	s.log.Log(ctx, level, "event published", fields...)
}

// outcome returns how a publication ended.
func outcome(p scheduler.Publication) string {
	switch {
	case p.Status == "":
		return "unknown"
	case p.Unrecorded:
		return "not recorded"
	default:
		return string(p.Status)
	}
}

// class returns what is known about a failed publication.
func class(err error) string {
	switch {
	case errors.Is(err, schedule.ErrUnreachable):
		return "away"
	case errors.Is(err, schedule.ErrUnavailable):
		return "not available"
	case errors.Is(err, schedule.ErrRefused):
		return "refused"
	case errors.Is(err, schedule.ErrNotPublished):
		return "not published"
	default:
		return "unknown"
	}
}

// Reconciled records that the index lacked open events.
func (s *Scheduler) Reconciled(lacked int) {
	s.reconciled.Add(float64(lacked))
	s.log.Debug("events added to the index in Redis, which lacked them", "events", lacked)
}

// Requested records the outcome of a request to schedule or, with cancel, to cancel an event.
func (s *Scheduler) Requested(cancel bool, code schedule.Code) {
	counter := s.scheduled
	if cancel {
		counter = s.cancelled
	}
	counter.WithLabelValues(code.String()).Inc()
}

// Handled records an answered RPC. The method is its name without the service.
func (s *Scheduler) Handled(method, code string, took time.Duration) {
	s.rpcs.WithLabelValues(method, code).Inc()
	s.rpcTime.WithLabelValues(method).Observe(took.Seconds())
}

// schedulerDepth is a collector that queries Redis when it is scraped.
type schedulerDepth struct {
	descriptions

	process SchedulerProcess
	log     *slog.Logger

	pending, overdue, processing, dead, partitions, semaphore, lag *prometheus.Desc
}

// SchedulerProcess provides the metrics of a process when they are scraped.
type SchedulerProcess struct {
	Counts     func(context.Context) ([]schedule.Counts, error)
	Uncounted  bool                   // the counts lack dead events, which are in a table
	Owned      func() int             // partitions
	Publishing func() int             // batches
	Lag        func() map[int32]int64 // messages of each partition of the feed; nil: there is no feed
}

// SchedulerDepth returns a collector of what is pending in Redis and in a process.
func SchedulerDepth(process SchedulerProcess, log *slog.Logger) prometheus.Collector {
	d := &schedulerDepth{process: process, log: log}
	d.pending = d.describe("scheduler_pending", "Scheduled events that are not yet claimed.", "partition")
	d.overdue = d.describe("scheduler_overdue", "Events that should have been claimed.")
	d.processing = d.describe("scheduler_processing", "Events that a process has claimed.")
	d.dead = d.describe("scheduler_dead", "Dead-lettered events.")
	d.partitions = d.describe("scheduler_partitions_owned", "Partitions that belong to this process.")
	d.semaphore = d.describe("scheduler_semaphore_in_use", "Batches that this process is publishing.")
	d.lag = d.describe("scheduler_feed_lag", "Messages of a partition of the feed that this process has not read yet.", "partition")
	return d
}

// Collect implements prometheus.Collector. It omits metrics that cannot be queried.
func (d *schedulerDepth) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	send(d.partitions, int64(d.process.Owned()))
	send(d.semaphore, int64(d.process.Publishing()))
	if d.process.Lag != nil {
		for partition, messages := range d.process.Lag() {
			send(d.lag, messages, strconv.Itoa(int(partition)))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	counts, err := d.process.Counts(ctx)
	if err != nil {
		d.log.WarnContext(ctx, "metrics of the scheduler are incomplete", "err", err)
		return
	}
	for _, c := range counts {
		send(d.pending, c.Scheduled, strconv.Itoa(c.Partition))
	}
	sum := schedule.Sum(counts)
	send(d.overdue, sum.Overdue)
	send(d.processing, sum.Firing)
	if !d.process.Uncounted {
		send(d.dead, sum.Dead)
	}
}
