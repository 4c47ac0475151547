package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
)

// depth is a collector that queries Redis when it is scraped.
type depth struct {
	descriptions

	engine *engine.Engine
	log    *slog.Logger
	labels tenantLabels

	timers, overdue, length, lag, pending, oldest, dead, bridge, executions, breakers *prometheus.Desc

	// Of a Redis Cluster.
	memory, memoryLimit, replicas, clock, placed, uncovered *prometheus.Desc
}

// Depth returns a collector of the number of timers, stream entries, dead letters and
// executions in Redis, and of the process' circuit breakers that are not closed.
func Depth(e *engine.Engine, log *slog.Logger) prometheus.Collector {
	d := &depth{engine: e, log: log}
	d.timers = d.describe("timer_zset_size", "Pending timers.")
	d.overdue = d.describe("flunq_timers_overdue", "Timers that were due more than a second ago.")
	d.length = d.describe("flunq_stream_length", "Entries of a tenant's stream.", "tenant")
	d.lag = d.describe("flunq_stream_lag", "Entries that a group has not read.", "tenant", "group")
	d.pending = d.describe("flunq_stream_pending", "Entries that a group has read and not acknowledged.", "tenant", "group")
	d.oldest = d.describe("flunq_stream_oldest_pending_seconds", "Seconds since the first pending entry was last delivered, or its lease renewed.", "tenant", "group")
	d.dead = d.describe("flunq_dead_letters", "Dead letters.", "tenant")
	d.bridge = d.describe("bridge_lag", "Entries that the bridge has not yet published or skipped.", "tenant")
	d.executions = d.describe("flunq_executions", "Stored executions, by status; those that have not ended are open.", "tenant", "status")
	d.breakers = d.describe("flunq_circuit_open", "1 for a host whose circuit breaker is open for a tenant's calls, 0.5 while it is half-open.", "tenant", "host")

	d.memory = d.describe("flunq_redis_memory_bytes", "Memory that a master of the Redis Cluster uses.", "master")
	d.memoryLimit = d.describe("flunq_redis_memory_limit_bytes", "maxmemory of a master of the Redis Cluster, 0 without one.", "master")
	d.replicas = d.describe("flunq_redis_replicas", "Replicas of a master of the Redis Cluster that can be reached.", "master")
	d.clock = d.describe("flunq_redis_clock_ahead_seconds", "How far the clock of a master of the Redis Cluster is ahead of the slowest one.", "master")
	d.placed = d.describe("flunq_redis_tenants", "Tenants of this process on a master of the Redis Cluster.", "master")
	d.uncovered = d.describe("flunq_redis_uncovered_slots", "Slots of the Redis Cluster that no master serves.")
	return d
}

// descriptions are the metrics of a collector.
type descriptions []*prometheus.Desc

// describe adds a metric.
func (d *descriptions) describe(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	*d = append(*d, desc)
	return desc
}

// Describe implements prometheus.Collector.
func (d *descriptions) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range *d {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It omits metrics that cannot be queried.
func (d *depth) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.collect(ctx, out); err != nil {
		d.log.WarnContext(ctx, "metrics are incomplete", "err", err)
	}
}

// collect queries Redis. It omits unknown values. The queries run concurrently so that a node that does
// not respond delays none of the others.
func (d *depth) collect(ctx context.Context, out chan<- prometheus.Metric) error {
	all := gauges{values: map[*prometheus.Desc]map[string]*gauge{}}
	defer all.send(out)
	for i, b := range d.engine.Breakers().States() {
		if i < maxCircuits {
			all.add(d.breakers, largest, openness(b.State), d.labels.of(b.Tenant), b.Host)
		}
	}
	tenants := d.engine.Tenants()
	queries := []func() error{
		func() error { return d.timersOf(ctx, tenants, &all) },
		func() error { return d.streamsOf(ctx, tenants, &all) },
		func() error { return d.executionsOf(ctx, tenants, &all) },
	}
	if d.engine.Store.Clustered() {
		queries = append(queries, func() error { return d.cluster(ctx, tenants, &all) })
	}
	errs := make([]error, len(queries))
	var running sync.WaitGroup
	for i, query := range queries {
		running.Go(func() { errs[i] = query() })
	}
	running.Wait()
	return errors.Join(errs...)
}

func (d *depth) timersOf(ctx context.Context, tenants []string, all *gauges) error {
	counts, err := inspect.New(d.engine.Store).Overdue(ctx, tenants, time.Second)
	if err != nil {
		return err
	}
	all.add(d.timers, sum, float64(counts.Count))
	all.add(d.overdue, sum, float64(counts.Overdue))
	return nil
}

func (d *depth) streamsOf(ctx context.Context, tenants []string, all *gauges) error {
	streams, err := inspect.New(d.engine.Store).Streams(ctx, tenants)
	for _, s := range streams {
		tenant := d.labels.of(s.Tenant)
		all.add(d.length, sum, float64(s.Length), tenant)
		all.add(d.dead, sum, float64(s.Dead), tenant)
		for _, g := range s.Groups {
			all.add(d.lag, sum, float64(g.Lag), tenant, g.Name)
			all.add(d.pending, sum, float64(g.Pending), tenant, g.Name)
			if strings.HasPrefix(g.Name, store.BridgePrefix) {
				all.add(d.bridge, sum, float64(max(g.Lag, 0)+g.Pending), tenant)
			}
			all.add(d.oldest, largest, g.Oldest.Idle.Seconds(), tenant, g.Name)
		}
	}
	return err
}

// countedAtOnce is the number of tenants whose executions are counted concurrently.
const countedAtOnce = 16

func (d *depth) executionsOf(ctx context.Context, tenants []string, all *gauges) error {
	errs := make([]error, len(tenants))
	var running sync.WaitGroup
	free := make(chan struct{}, countedAtOnce)
	for i, tenant := range tenants {
		label := d.labels.of(tenant)
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			counts, err := d.engine.Store.Counts(ctx, tenant)
			if err != nil {
				errs[i] = err
				return
			}
			all.add(d.executions, sum, float64(counts.Open), label, "open")
			all.add(d.executions, sum, float64(counts.Completed), label, "completed")
			all.add(d.executions, sum, float64(counts.Faulted), label, "faulted")
			all.add(d.executions, sum, float64(counts.Cancelled), label, "cancelled")
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// cluster sets what is known of each master.
func (d *depth) cluster(ctx context.Context, tenants []string, all *gauges) error {
	set := func(desc *prometheus.Desc, value float64, labels ...string) { all.add(desc, sum, value, labels...) }
	c, err := d.engine.Store.Cluster(ctx)
	if err != nil {
		return err
	}
	set(d.uncovered, float64(c.Uncovered))
	var slowest time.Time
	for _, m := range c.Masters {
		if m.Err == nil {
			slowest = event.Earlier(slowest, m.Time)
		}
	}
	for _, m := range c.Masters {
		set(d.replicas, float64(len(m.Replicas)), m.Address)
		set(d.placed, 0, m.Address)
		if m.Err == nil {
			set(d.memory, float64(m.Used), m.Address)
			set(d.memoryLimit, float64(max(m.Limit, 0)), m.Address)
			set(d.clock, m.Time.Sub(slowest).Seconds(), m.Address)
		}
	}
	for _, tenant := range tenants {
		at, err := d.engine.Store.AddressOf(ctx, tenant)
		if err != nil {
			return err
		}
		set(d.placed, 1, at)
	}
	return nil
}

// maxCircuits is the maximum number of circuit breakers with metrics.
const maxCircuits = 1000

// gauges holds values by description and labels. It is safe for concurrent use.
type gauges struct {
	mu     sync.Mutex
	values map[*prometheus.Desc]map[string]*gauge
}

type gauge struct {
	labels []string
	value  float64
}

// These combine the values of tenants that share a label.
func sum(known, value float64) float64     { return known + value }
func largest(known, value float64) float64 { return max(known, value) }

// add adds a value unless it is negative, which means unknown.
func (g *gauges) add(desc *prometheus.Desc, together func(known, value float64) float64, value float64, labels ...string) {
	if value < 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.values[desc] == nil {
		g.values[desc] = map[string]*gauge{}
	}
	key := strings.Join(labels, "\x00")
	if known := g.values[desc][key]; known != nil {
		value = together(known.value, value)
	}
	g.values[desc][key] = &gauge{labels, value}
}

func (g *gauges) send(out chan<- prometheus.Metric) {
	for desc, all := range g.values {
		for _, one := range all {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, one.value, one.labels...)
		}
	}
}

// openness returns a circuit's state as a number.
func openness(c breaker.Circuit) float64 {
	switch c {
	case breaker.Open:
		return 1
	case breaker.HalfOpen:
		return .5
	default:
		return 0
	}
}
