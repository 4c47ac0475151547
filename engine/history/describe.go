package history

import (
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
)

// Describe describes an event in a sentence for the author of a workflow: "task charge ends with
// 7", "the wait of task rest is over".
func Describe(e event.Event) string {
	switch e.Type {
	case "":
		return "nothing"
	case event.ExecutionStarted:
		if d := dataOf(e); d != nil {
			return fmt.Sprintf("execution %s of %s.%s ", e.Execution, d.Namespace, d.Name) + Happens(e)
		}
	case event.TaskRequested, event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return subject(e) + " " + Happens(e)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		return happens(e, " of "+subject(e))
	default:
	}
	if strings.HasPrefix(string(e.Type), event.Prefix+"execution.") {
		return "execution " + e.Execution + " " + Happens(e)
	}
	return Happens(e)
}

// subject names the task run of an event.
func subject(e event.Event) string {
	if e.Task == "" {
		return "the workflow"
	}
	run := event.ParseRun(e.Task)
	return "task " + Run(TaskName(run.Ref), run.Iteration, run.Attempt)
}

// TimerName says what a timer is for.
func TimerName(kind event.TimerKind, key string) string {
	switch kind {
	case event.RetryTimer:
		return "pause before the next attempt"
	case event.TimeoutTimer:
		return strings.TrimSpace(key + " timeout")
	case event.InputTimer:
		return "input " + key
	case event.StartTimer, event.DeliveryTimer:
		return string(kind)
	default:
		return "wait"
	}
}

// Happens says what an event does to its task or its execution: "begins", "ends with 7", "the
// wait is over".
func Happens(e event.Event) string { return happens(e, "") }

func happens(e event.Event, ofTimer string) string {
	d := dataOf(e)
	if d == nil {
		return Type(e.Type) + " " + Excerpt(e.Data) // unreadable
	}
	timer := "the " + TimerName(d.Kind, d.Key) + ofTimer
	switch e.Type {
	case event.ExecutionStarted:
		return "starts with input " + Excerpt(d.Input)
	case event.ExecutionMigrated:
		return fmt.Sprintf("is migrated from version %s to %s", d.FromVersion, d.Version) + d.by()
	case event.TaskRequested:
		return "begins"
	case event.TaskCompleted:
		return d.ending()
	case event.TimerScheduled:
		if d.By != "" {
			return timer + " is due at " + d.due().In(e.Time.Location()).Format(time.RFC3339Nano) + d.by()
		}
		return fmt.Sprintf("%s is set: %s, until %s", timer, Milliseconds(d.DurationMS), d.FireAt.In(e.Time.Location()).Format(time.RFC3339Nano))
	case event.TimerFired:
		if d.Kind == event.TimeoutTimer {
			return timer + " expires" + d.by()
		}
		return timer + " is over" + d.by()
	case event.TimerCancelled:
		return timer + " is cancelled" + d.by()
	case event.EventReceived:
		return fmt.Sprintf("event %s from %s (id %s) arrives with %s", d.Type, d.Source, d.ID, Excerpt(d.Data))
	case event.WorkflowCompleted:
		return "completes with " + Excerpt(d.Output)
	case event.WorkflowFailed, event.WorkflowCancelled:
		return d.closing()
	default:
		if what, of := strings.CutPrefix(Type(e.Type), "execution."); of {
			return "is " + what + d.by()
		}
		return Type(e.Type) + " " + Excerpt(e.Data)
	}
}

// ending describes how a task ended.
func (d *Data) ending() string {
	switch {
	case d.Status != "":
		return "is " + d.Status
	case d.Error != nil:
		return fails("fails", d.Error)
	case !d.Success:
		return "fails"
	case d.Then != "":
		return "continues with " + d.Then
	default:
		return "ends with " + Excerpt(d.Output)
	}
}

// closing describes how a workflow ended without an output.
func (d *Data) closing() string {
	switch {
	case d.Error != nil && d.Error.Instance != "":
		return fails("faults", d.Error) + " at " + d.Error.Instance
	case d.Error != nil:
		return fails("faults", d.Error)
	default:
		return "is cancelled" + d.by()
	}
}

func fails(verb string, p *event.Problem) string {
	return fmt.Sprintf("%s: %s (%s, status %d)", verb, Cut(p.Error()), event.ShortType(p.Type), p.Status)
}

// by returns the operator and the reason, if there are any: ", by ada: too late".
func (d *Data) by() string {
	text := ""
	if d.By != "" {
		text = ", by " + d.By
	}
	if d.Reason != "" {
		text += ": " + Cut(d.Reason)
	}
	return text
}

// Excerpt returns JSON shortened for a sentence.
func Excerpt(data []byte) string {
	if len(data) == 0 {
		return "nothing"
	}
	return Cut(string(data))
}

// longest is the maximum length of data in a sentence, in bytes.
const longest = 160

// Cut returns the beginning of a string that is too long for a sentence.
func Cut(text string) string { return excerpt.Of(text, longest) }
