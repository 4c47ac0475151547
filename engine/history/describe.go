package history

import (
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
)

// Describe describes an event in a sentence that the author of a workflow understands: "task
// charge ends with 7", "the wait of task rest is over".
func Describe(e event.Event) string {
	switch e.Type {
	case "":
		return "nothing"
	case event.ExecutionStarted, event.ExecutionMigrated:
		return "execution " + e.Execution + " " + Happens(e)
	case event.TaskRequested, event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return subject(e) + " " + Happens(e)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		if d := dataOf(e); d != nil {
			return "the " + TimerName(d.Kind, d.Key) + " of " + subject(e) + " " + Happens(e)
		}
	default:
	}
	return Happens(e)
}

// subject names the task run of an event.
func subject(e event.Event) string {
	if e.Task == "" {
		return "the workflow"
	}
	run := event.ParseRun(e.Task)
	return "task " + Run(run.Ref[strings.LastIndexByte(run.Ref, '/')+1:], run.Iteration, run.Attempt)
}

// TimerName says what a timer is for.
func TimerName(kind event.TimerKind, key string) string {
	switch kind {
	case event.RetryTimer:
		return "pause before the next attempt"
	case event.TimeoutTimer:
		return strings.TrimSpace(key + " time limit")
	default:
		return "wait"
	}
}

// Happens says what an event does to its task, its timer or its execution: "begins", "ends
// with 7", "is over".
func Happens(e event.Event) string {
	d := dataOf(e)
	if d == nil {
		return Type(e.Type) + " " + Excerpt(e.Data) // unreadable
	}
	switch e.Type {
	case event.ExecutionStarted:
		return fmt.Sprintf("of %s.%s starts with input %s", d.Namespace, d.Name, Excerpt(d.Input))
	case event.ExecutionMigrated:
		return fmt.Sprintf("is migrated from version %s to %s by %s", d.FromVersion, d.Version, d.By)
	case event.TaskRequested:
		return "begins"
	case event.TaskCompleted:
		return d.ending()
	case event.TimerScheduled:
		if d.By != "" {
			return "is due at " + d.due().UTC().Format(time.RFC3339Nano) + by(d.By)
		}
		return fmt.Sprintf("is set: %s, until %s", Exact(time.Duration(d.DurationMS)*time.Millisecond), d.FireAt.UTC().Format(time.RFC3339Nano))
	case event.TimerFired:
		return "is over" + by(d.By)
	case event.TimerCancelled:
		return "is cancelled" + by(d.By)
	case event.EventReceived:
		return fmt.Sprintf("event %s from %s (id %s) arrives with %s", d.Type, d.Source, d.ID, Excerpt(d.Data))
	case event.WorkflowCompleted:
		return "completes with " + Excerpt(d.Output)
	case event.WorkflowFailed, event.WorkflowCancelled:
		return d.closing()
	default:
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
	case d.Reason != "":
		return "is cancelled: " + Cut(d.Reason)
	default:
		return "is cancelled"
	}
}

func fails(verb string, p *event.Problem) string {
	return fmt.Sprintf("%s: %s (%s, status %d)", verb, Cut(p.Error()), event.ShortType(p.Type), p.Status)
}

// by returns ", by " and the operator, if there is one.
func by(operator string) string {
	if operator == "" {
		return ""
	}
	return ", by " + operator
}

// Excerpt returns JSON as sentences show it.
func Excerpt(data []byte) string {
	if len(data) == 0 {
		return "nothing"
	}
	return Cut(string(data))
}

// longest is the maximum length of data in a sentence, in bytes.
const longest = 160

// Cut returns the beginning of a text that is too long for a sentence.
func Cut(text string) string { return cut(text, longest) }

// cut returns the beginning of a text of more than some bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
