package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// described describes an event of a run in a few words.
func described(e event.Event, x *run) string {
	switch e.Type {
	case event.ExecutionStarted:
		return "begins"
	case event.TaskRequested:
		return "begins"
	case event.TaskCompleted:
		return x.ending()
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		return timed(e)
	case event.EventReceived:
		var envelope struct {
			Type   string `json:"type"`
			Source string `json:"source"`
		}
		_ = json.Unmarshal(e.Data, &envelope) // empty if it cannot be parsed
		return short("event "+envelope.Type+" from "+envelope.Source, longestDescription)
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return x.ending()
	default:
		return strings.ReplaceAll(strings.TrimPrefix(string(e.Type), event.Prefix), ".", " ")
	}
}

const longestDescription = 140

// ending describes the result of a run.
func (r *run) ending() string {
	if r == nil {
		return "ends"
	}
	switch {
	case r.problem != nil:
		return short("fails: "+r.problem.Error(), longestDescription)
	case r.status == stateCancelled && r.reason != "":
		return short("is cancelled: "+r.reason, longestDescription)
	case r.status == stateSkipped || r.status == stateCancelled:
		return "is " + string(r.status)
	case r.status == stateOpen:
		return "has not ended"
	case r.then != "":
		return "continues with " + r.then
	case r.output != nil:
		return short("ends with "+r.output.text, longestDescription)
	default:
		return "ends"
	}
}

// timed describes an event of a timer.
func timed(e event.Event) string {
	var t event.Timer
	_ = json.Unmarshal(e.Data, &t) // zero if it cannot be parsed
	what := timerName(t.Kind)
	switch e.Type {
	case event.TimerFired:
		return what + " is over"
	case event.TimerCancelled:
		return what + " is cancelled"
	default:
		return fmt.Sprintf("%s of %s is set", what, history.Duration(t.FireAt.Sub(e.Time)))
	}
}

func timerName(kind event.TimerKind) string {
	switch kind {
	case event.RetryTimer:
		return "the pause before the next attempt"
	case event.TimeoutTimer:
		return "the timeout"
	default:
		return "the wait"
	}
}
