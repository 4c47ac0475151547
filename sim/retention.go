package sim

import (
	"fmt"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// housekeeping is the kind of the services that remove old data.
const housekeeping = "housekeeping"

// simulatedRetention returns the retention of a simulation: in one of four with several
// processes, streams are trimmed right behind their readers.
func (cfg Config) simulatedRetention() engine.Retention {
	if cfg.Scripted.Retention != nil {
		return *cfg.Scripted.Retention
	}
	n := Choice(cfg.Seed, housekeeping)
	if cfg.Plan == nil || cfg.Processes == 1 || n%4 != 0 {
		return engine.Retention{}
	}
	return engine.Retention{Entries: int((n >> 8) % 16), Age: time.Duration((n>>16)%40_000+1) * time.Millisecond}
}

// recordEnd records whether an execution has ended with a new entry of its history.
func (mon *monitor) recordEnd(key string, fields []string) {
	id, history, ok := mon.executionIn(key)
	if !ok || !history {
		return
	}
	switch typeOf(fields) {
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		mon.endedAt[id] = publicationOf("", fields).Time // not the time of the commit, since its process may have frozen before it
	default: // it was retried, or has begun
		mon.endedAt[id] = time.Time{}
	}
}

// checkRemoved checks that no execution is removed too early, or while its parent is running.
func (mon *monitor) checkRemoved(key string) {
	if key == mon.refused.key {
		return // it was only renamed
	}
	const rule = "nothing is removed before its retention ends"
	id, history, ok := mon.executionIn(key)
	if !ok || history {
		return
	}
	mon.removals[id] = true
	end, longest := mon.endedAt[id], mon.retention.Finished.Shortest()
	switch past := mon.clock.now.Sub(end); {
	case end.IsZero():
		mon.report(rule, id, "it was removed before it ended")
	case longest == 0 || past < longest:
		mon.report(rule, id, "it was removed %v after its end, but is to be kept for %v", past, longest)
	}
	if end, begun := mon.endedAt[Parent(id)]; begun && end.IsZero() {
		mon.report(rule, id, "it was removed before %s ended", Parent(id))
	}
}

// Removed is the status of an execution that was removed after its retention period.
const Removed decide.Status = "removed"

// recordStrayTimer records a timer that fired for an execution that does not exist.
func (mon *monitor) recordStrayTimer(fields []string) {
	if mon.cfg.Plan == nil || typeOf(fields) != event.TimerFired {
		return
	}
	if _, known := mon.endedAt[Field(fields, "executionid")]; known {
		return // the usual case
	}
	values := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	var data event.Fired
	e, err := event.FromAttributes(values)
	if err != nil || decide.DecodeData(e, &data) != nil {
		return
	}
	mon.strayTimers = append(mon.strayTimers, fmt.Sprintf("%s %d", data.Key, data.ScheduledFor.YearDay()-1))
}
