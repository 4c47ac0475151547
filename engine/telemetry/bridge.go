package telemetry

import (
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"flunq.io/flunq/engine/bridge"
)

// Bridge counts and logs what the bridge of a process does. It is safe for concurrent use.
type Bridge struct {
	log     *slog.Logger
	tenants tenantLabels
	topics  tenantLabels

	published, received, failed *prometheus.CounterVec
	lag                         *prometheus.GaugeVec
}

// NewBridge returns a Bridge that logs to log, and registers all its metrics.
func NewBridge(log *slog.Logger, registry prometheus.Registerer) *Bridge {
	r := registered(registry)
	return &Bridge{
		log:       log,
		published: r.counter("bridge_published_total", "Events that the bridge has published, by tenant.", "tenant"),
		received:  r.counter("bridge_received_total", "Messages that the bridge has read, by topic and result.", "topic", "result"),
		failed:    r.counter("bridge_errors_total", "Failures of the bridge, by class.", "class"),
		lag:       r.gauge("bridge_feed_lag", "Messages that the bridge has not read, by topic and partition.", "topic", "partition"),
	}
}

// Observe records what the bridge has done.
func (b *Bridge) Observe(a bridge.Activity) {
	n := float64(a.Count)
	if a.Err != nil {
		b.failed.WithLabelValues(string(a.What)).Add(n)
	}
	switch a.What {
	case bridge.Published:
		b.published.WithLabelValues(b.tenants.of(a.Tenant)).Add(n)
	case bridge.Received, bridge.Repeated, bridge.Rejected:
		b.received.WithLabelValues(b.topics.of(a.Topic), string(a.What)).Add(n)
	default: // the service reports a broker that is away
	}
	switch a.What {
	case bridge.Refused, bridge.Rejected:
		b.log.Warn("dead-lettered by the bridge", "tenant", a.Tenant, "topic", a.Topic, "what", a.What, "err", a.Err)
	case bridge.Lost: // once, while the service may be reporting other errors
		b.log.Error("not received by the bridge", "err", a.Err)
	default:
	}
}

// Lag records how many messages of each partition are unread.
func (b *Bridge) Lag(lags map[string]int64) {
	b.lag.Reset()
	for name, lag := range lags {
		at := strings.LastIndexByte(name, '/')
		b.lag.WithLabelValues(b.topics.of(name[:at]), name[at+1:]).Add(float64(lag)) // topics may share a label
	}
}
