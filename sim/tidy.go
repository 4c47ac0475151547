package sim

import (
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// housekeeping is the group of those who remove what nobody needs any more.
const housekeeping = "housekeeping"

// tidies says how much is kept in a world: in some of those in which things can go
// wrong, the streams are trimmed at once behind whoever reads them.
func (cfg Config) tidies() engine.Retention {
	const one = 4 // of so many worlds
	if cfg.retention != nil {
		return *cfg.retention
	}
	n := Choice(cfg.Seed, housekeeping)
	if cfg.Plan == nil || cfg.Processes == 1 || n%one != 0 {
		return engine.Retention{}
	}
	return engine.Retention{Entries: int((n >> 8) % 16), Age: time.Duration((n>>16)%40_000+1) * time.Millisecond}
}

// tidied are the executions that have ended, and those that were removed.
type tidied struct {
	over    map[string]time.Time
	removed map[string]bool
}

// written learns of an entry of an execution's history.
func (w *simulation) written(key string, fields []string) {
	id, history, ok := w.executionIn(key)
	if !ok || !history {
		return
	}
	switch typeOf(fields) {
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		w.tidied.over[id] = publicationOf("", fields).Time // whoever has decided it may have stood still before it was written
	default: // it was retried, or has begun
		w.tidied.over[id] = time.Time{}
	}
}

// removed looks for executions that are removed too early, or while what has begun
// them goes on.
func (w *simulation) removed(key string) {
	const rule = "nothing is removed that is to be kept"
	id, history, ok := w.executionIn(key)
	if !ok || history {
		return
	}
	w.tidied.removed[id] = true
	over, longest := w.tidied.over[id], w.retention.Finished.Shortest()
	switch past := w.clock.now.Sub(over); {
	case over.IsZero():
		w.breach(rule, id, "it goes on, and was removed")
	case longest == 0 || past < longest:
		w.breach(rule, id, fmt.Sprintf("it was removed %v after its end, and is kept for %v", past, longest))
	}
	if at := strings.LastIndexByte(id, '.'); at > 0 {
		if over, begun := w.tidied.over[id[:at]]; begun && over.IsZero() {
			w.breach(rule, id, "it was removed, and "+id[:at]+" goes on")
		}
	}
}

// Removed is the status of an execution that was removed as it should be.
const Removed decide.Status = "removed"

// fired notes a timer that has fired for an execution that there is not.
func (w *simulation) fired(fields []string) {
	if w.cfg.Plan == nil || typeOf(fields) != event.TimerFired {
		return
	}
	if _, known := w.tidied.over[field(fields, "executionid")]; known {
		return // as most
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
	w.foreign = append(w.foreign, fmt.Sprintf("%s %d", data.Key, data.ScheduledFor.YearDay()-1))
}
