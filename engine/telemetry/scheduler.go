package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
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
	unrecorded                                prometheus.Counter
	rpcTime                                   *prometheus.HistogramVec
}

// NewScheduler returns a Scheduler that logs to log, and registers all its metrics.
func NewScheduler(log *slog.Logger, registry prometheus.Registerer) *Scheduler {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		registry.MustRegister(h)
		return h
	}
	s := &Scheduler{
		log:        log,
		scheduled:  counter("scheduler_scheduled_total", "Requests to schedule an event, by result.", "result"),
		cancelled:  counter("scheduler_cancelled_total", "Requests to cancel an event, by result.", "result"),
		fired:      counter("scheduler_fired_total", "Published events, by topic.", "topic"),
		failed:     counter("scheduler_publish_errors_total", "Failed publications, by what is known about them.", "class"),
		unrecorded: counter("scheduler_lease_expired_total", "Publications whose end was recorded too late, or not at all.").WithLabelValues(),
		lateness:   histogram("scheduler_lateness_seconds", "Seconds from when an event was due until its publication began.", late()),
		publishing: histogram("scheduler_publish_seconds", "Seconds that publishing a batch took.", quick()),
		rpcs:       counter("grpc_server_handled_total", "Answered RPCs, by method and status code.", "grpc_method", "grpc_code"),
	}
	s.rpcTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "grpc_server_handling_seconds", Help: "Seconds until an RPC was answered.", Buckets: quick(),
	}, []string{"grpc_method"})
	registry.MustRegister(s.rpcTime)
	return s
}

// Published records the end of a publication.
func (s *Scheduler) Published(a scheduler.Activity) {
	s.publishing.Observe(a.Took.Seconds())
	fields := []any{
		"event_id", a.Event.ID, "topic", a.Event.Topic, "execute_at", a.Event.Due.UTC().Format(time.RFC3339Nano),
		"lateness_ms", a.Lateness.Milliseconds(), "attempt", a.Event.Attempts + 1, "owner", a.Event.Owner, "outcome", outcome(a),
	}
	if a.Lost {
		s.unrecorded.Inc()
	}
	if a.Err != nil {
		s.failed.WithLabelValues(class(a.Err)).Inc()
		s.log.Warn("event not published", append(fields, "err", a.Err)...)
		return
	}
	s.lateness.Observe(max(a.Lateness, 0).Seconds())
	s.fired.WithLabelValues(s.topics.of(a.Event.Topic)).Inc()
	s.log.Debug("event published", fields...)
}

// outcome says how a publication ended.
func outcome(a scheduler.Activity) string {
	switch {
	case a.End == "":
		return "unknown"
	case a.Lost:
		return "not recorded"
	default:
		return string(a.End)
	}
}

// class says what is known about a publication that failed.
func class(err error) string {
	switch {
	case errors.Is(err, schedule.ErrAway):
		return "away"
	case errors.Is(err, schedule.ErrRefused):
		return "refused"
	case errors.Is(err, schedule.ErrNotPublished):
		return "not published"
	default:
		return "unknown"
	}
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
	counts func(context.Context) ([]schedule.Counts, error)
	owned  func() int
	log    *slog.Logger

	pending, overdue, processing, dead, partitions *prometheus.Desc
}

// SchedulerDepth returns a collector of what counts returns for each partition, and of the
// number of partitions that belong to this process.
func SchedulerDepth(counts func(context.Context) ([]schedule.Counts, error), owned func() int, log *slog.Logger) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &schedulerDepth{
		counts: counts, owned: owned, log: log,
		pending:    describe("scheduler_pending", "Scheduled events that are not yet claimed.", "partition"),
		overdue:    describe("scheduler_overdue", "Events that should have been claimed."),
		processing: describe("scheduler_processing", "Events that a process has claimed."),
		dead:       describe("scheduler_dead", "Dead-lettered events."),
		partitions: describe("scheduler_partitions_owned", "Partitions that belong to this process."),
	}
}

// Describe implements prometheus.Collector.
func (d *schedulerDepth) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.pending, d.overdue, d.processing, d.dead, d.partitions} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It omits metrics that cannot be queried.
func (d *schedulerDepth) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	send(d.partitions, int64(d.owned()))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	counts, err := d.counts(ctx)
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
	send(d.dead, sum.Dead)
}
