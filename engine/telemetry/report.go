package telemetry

import (
	"context"
	"time"

	"flunq.io/flunq/engine"
)

// Intervals says how often a process logs its state.
type Intervals struct {
	Health  time.Duration // interval between checks for a change of the services' health
	Metrics time.Duration // interval between logs of the services' counts
}

// Report logs the services' health and counts until ctx ends.
func (t *Telemetry) Report(ctx context.Context, e *engine.Engine, every Intervals) {
	health, metrics := time.NewTicker(every.Health), time.NewTicker(every.Metrics)
	defer health.Stop()
	defer metrics.Stop()
	last := engine.Healthy
	for {
		select {
		case <-ctx.Done():
			return
		case <-health.C:
			last = t.logChange(ctx, e, last)
		case <-metrics.C:
			for _, service := range services() {
				if c := t.Counts(service); c.Processed() > 0 {
					t.log.InfoContext(ctx, "metrics", "service", service, "events_processed", c.Processed(),
						"events_succeeded", c.Succeeded, "events_failed", c.Failed, "active_events", c.Active)
				}
			}
		}
	}
}

// logChange logs a change of the overall status.
func (t *Telemetry) logChange(ctx context.Context, e *engine.Engine, last engine.Status) engine.Status {
	_, total := groups(e)
	status := total.Status
	switch status {
	case last:
	case engine.Healthy:
		t.log.InfoContext(ctx, "all services are healthy", "instances", total.Instances)
	default:
		t.log.WarnContext(ctx, "not all services are healthy", "status", status, "healthy", total.Healthy,
			"degraded", total.Degraded, "unhealthy", total.Unhealthy, "err", total.LastError)
	}
	return status
}
