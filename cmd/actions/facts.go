package actions

import (
	"math"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// TimerFacts describes a timer, given the status of its execution. Some values may be empty.
func TimerFacts(p timers.Pending, status string, moment func(time.Time) string) [][2]string {
	kind, problem, set := string(p.Kind), "", ""
	if p.Err != nil {
		kind, problem = "", p.Err.Error()
	}
	if !p.MovedTo.IsZero() {
		set = moment(p.FireAt)
	}
	return [][2]string{
		{"due at", moment(p.Moment())},
		{"kind", kind},
		{"tenant", p.Tenant},
		{"workflow", p.Workflow},
		{"execution", withStatus(p.Execution, status)},
		{"task", history.Task(p.TaskID)},
		{"task name", p.TaskName},
		{"key", p.Key},
		{"event", InputType(p)},
		{"duration", Milliseconds(p.DurationMS)},
		{"problem", problem},
		{"set for", set},
		{"then", Consequence(p, status)},
	}
}

// DeadLetterFacts describes a dead letter, given the status of its execution. Some values may be
// empty.
func DeadLetterFacts(l stream.DeadLetter, status string, moment func(time.Time) string) [][2]string {
	return [][2]string{
		{"service", l.Service},
		{"reason", l.Reason},
		{"attempts", positive(l.Attempts)},
		{"replays", positive(l.Replayed)},
		{"first failure", moment(l.FirstFailure)},
		{"last failure", moment(l.LastFailure)},
		{"came from", strings.TrimSpace(l.SourceStream + " " + l.SourceID)},
		{"type", string(l.Event.Type)},
		{"event", l.Event.ID},
		{"workflow", l.Event.Workflow},
		{"execution", withStatus(l.Event.Execution, status)},
		{"task", history.Task(l.Event.Task)},
	}
}

// InputType returns the type of the event that a timer delivers; "" if it delivers none.
func InputType(p timers.Pending) string {
	if p.Kind != event.InputTimer || p.Err != nil {
		return ""
	}
	in, _ := p.ReadInput() // it was read already
	return string(in.Type)
}

// Milliseconds formats the recorded duration of a timer, whose limit is that of time.Duration; "" unless it
// is positive.
func Milliseconds(ms int64) string {
	switch {
	case ms <= 0:
		return ""
	case ms == math.MaxInt64/int64(time.Millisecond):
		return "over " + history.Milliseconds(ms)
	}
	return history.Milliseconds(ms)
}

func withStatus(execution, status string) string {
	if status == "" {
		return execution
	}
	return execution + " (" + status + ")"
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// ReplayOutlook describes what replaying a dead letter does, given the status of its execution.
func ReplayOutlook(l stream.DeadLetter, status string) string {
	ofBridge, fromOutside := strings.HasPrefix(l.Service, store.BridgePrefix), l.Event.Ext[cloudevents.OriginAttribute] != ""
	switch {
	case l.Err != nil:
		return "it cannot be replayed, only dropped: " + l.Err.Error()
	case ofBridge && !fromOutside:
		return "a replay returns it to its stream, and the bridge publishes it again"
	case l.Unreadable != nil:
		return "its event cannot be read, so a replay only makes another dead letter"
	case status == string(decide.Faulted):
		return "the execution has faulted, so a replay has no effect: 'flunq retry " + l.Event.Execution + "' continues it"
	case examine.Ended(status):
		return "the execution has ended (" + status + "), so a replay has no effect"
	case ofBridge:
		return "a replay starts no workflow ('flunq start' does), but hands the event to executions that listen for it"
	case l.Event.Execution != "" && status == "":
		return "a replay returns it to its stream; its execution is unknown here"
	default:
		return "a replay returns it to its stream, where it is handled again"
	}
}
