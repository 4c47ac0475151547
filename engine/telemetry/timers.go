package telemetry

import (
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/timers"
)

// registered logs a timer that was set or cancelled.
func (t *Telemetry) registered(a delivery.Activity, now time.Time) {
	took := t.took(a, now)
	fields := append(t.fields(a), timerFields(*a.Timer)...)
	fields = append(fields, "processing_duration_ms", took.Milliseconds())
	if a.What == delivery.Cancelled {
		t.log.Info("timer_cancelled", append(fields, "redis_operation", "ZREM")...)
		return
	}
	t.registration.Observe(took.Seconds())
	t.log.Info("timer_registered", append(fields, "redis_operation", "ZADD")...)
}

// fired logs a timer that fired, and its lateness.
func (t *Telemetry) fired(m *meters, a delivery.Activity, now time.Time) {
	took := t.took(a, now)
	late := max(a.At.Sub(a.Timer.Due()), 0)
	t.firing.Observe(took.Seconds())
	t.latency.Observe(late.Seconds())
	m.processed.WithLabelValues(string(event.TimerFired), "success").Inc()
	fields := []any{
		"service", a.Service, "consumer", a.Consumer, "event_type", string(event.TimerFired), "tenant_id", a.Timer.Tenant,
		"workflow_id", a.Timer.Workflow, "execution_id", a.Timer.Execution, "task_id", a.Timer.TaskID,
	}
	fields = append(fields, timerFields(*a.Timer)...)
	fields = append(fields, "late_ms", late.Milliseconds(), "processing_duration_ms", took.Milliseconds(), "redis_operation", "XADD, ZREM")
	t.log.Info("timer_fired", fields...)
}

// timerFields returns the documented fields of a timer.
func timerFields(timer event.Timer) []any {
	id, score := timers.ID(timer)
	return []any{
		"timer_id", id, "fire_at", timer.FireAt.UTC().Format(time.RFC3339Nano),
		"duration_ms", timer.DurationMS, "redis_score", score,
	}
}
