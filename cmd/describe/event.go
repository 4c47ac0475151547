package describe

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Event converts an event of a history.
func Event(version int64, e event.Event) tui.Event {
	run := event.ParseRun(e.Task)
	out := tui.Event{
		Version: version, At: e.Time, Type: Type(e.Type), Task: e.Task,
		Ref: run.Ref, Iteration: run.Iteration, Attempt: run.Attempt, Text: Brief(e),
	}
	switch e.Type {
	case event.TaskRequested:
		out.State = requested(e)
	case event.TaskCompleted:
		out.State, out.Call = completed(e), call(e)
	case event.TimerScheduled:
		out.State, out.Until = scheduled(e)
	case event.TimerCancelled:
		out.State = unset(e)
	case event.TimerFired:
		out.State = fired(e)
	default:
		out.State = stateAfter(e.Type)
	}
	return out
}

// Type returns an event type without the prefix of the engine.
func Type(typ event.Type) string { return strings.TrimPrefix(string(typ), event.Prefix) }

// stateAfter returns the state of an execution after an event of this type.
func stateAfter(typ event.Type) tui.State {
	switch typ {
	case event.ExecutionStarted, event.ExecutionResumed, event.ExecutionRetried:
		return tui.Running
	case event.ExecutionSuspended:
		return tui.Suspended
	case event.WorkflowCompleted:
		return tui.Completed
	case event.WorkflowFailed:
		return tui.Faulted
	case event.WorkflowCancelled, event.ExecutionCancelled:
		return tui.Cancelled
	default:
		return ""
	}
}

func requested(e event.Event) tui.State {
	var asked event.Requested
	if json.Unmarshal(e.Data, &asked) == nil && asked.TaskType == string(dsl.Listen) {
		return tui.Waiting
	}
	return tui.Running
}

// call describes the call that a task made, "" if there was none.
func call(e event.Event) string {
	var c event.Completed
	if json.Unmarshal(e.Data, &c) != nil || c.Call == nil {
		return ""
	}
	return c.Call.String()
}

func completed(e event.Event) tui.State {
	var c event.Completed
	switch {
	case json.Unmarshal(e.Data, &c) != nil:
		return tui.Completed
	case c.Status == string(tui.Skipped):
		return tui.Skipped
	case c.Status == string(tui.Cancelled):
		return tui.Cancelled
	case c.Error != nil || !c.Success:
		return tui.Faulted
	default:
		return tui.Completed
	}
}

// scheduled returns the state of a run that has set a timer, and when the timer is due. A
// time limit does not change the state.
func scheduled(e event.Event) (tui.State, time.Time) {
	var t event.Timer
	if json.Unmarshal(e.Data, &t) != nil {
		return "", time.Time{}
	}
	switch {
	case e.Task == "", t.Kind == event.TimeoutTimer:
		return "", t.Due()
	case t.Kind == event.RetryTimer:
		return tui.Retrying, t.Due()
	default:
		return tui.Waiting, t.Due()
	}
}

// unset returns the state of a run whose timer an operator has cancelled: it waits without
// an end. If the engine cancels a timer, the run ends anyway.
func unset(e event.Event) tui.State {
	var t event.TimerChange
	if e.Task == "" || json.Unmarshal(e.Data, &t) != nil || t.By == "" || t.Kind == event.TimeoutTimer {
		return ""
	}
	return tui.Waiting
}

func fired(e event.Event) tui.State {
	var t event.Fired
	if e.Task == "" || json.Unmarshal(e.Data, &t) != nil || t.Kind == event.TimeoutTimer {
		return ""
	}
	return tui.Running
}

// longest is the maximum length of Brief, in bytes.
const longest = 400

// Brief returns the beginning of detail, short enough for a terminal.
func Brief(e event.Event) string {
	text := detail(e)
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// byOperator prefixes text with the name of the operator, if there is one.
func byOperator(name, text string) string {
	switch {
	case name == "":
		return text
	case text == "":
		return "by " + name
	default:
		return "by " + name + ": " + text
	}
}

// detail describes the content of an event in a few words, "" if there is nothing to add to
// its type.
func detail(e event.Event) string {
	var d struct {
		event.Completed

		FireAt   time.Time       `json:"fire_at"`
		MovedTo  time.Time       `json:"moved_to"`
		Kind     event.TimerKind `json:"kind"`
		Reason   string          `json:"reason"`
		Listen   []string        `json:"listen"`
		Requests []string        `json:"requests"`
		By       string          `json:"by"`
		Type     string          `json:"type"`
		Source   string          `json:"source"`
		Input    json.RawMessage `json:"input"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return string(e.Data)
	}
	switch {
	case e.Type == event.ExecutionMigrated:
		return migrated(e)
	case d.Error != nil && e.Type == event.TaskCompleted:
		return "failed: " + called(d.Call) + d.Error.Error()
	case d.Error != nil:
		return d.Error.Error()
	case e.Type == event.ExecutionStarted:
		return "input " + string(d.Input)
	case e.Type == event.TaskRequested:
		return d.TaskType
	case !d.FireAt.IsZero():
		text, at := "at", d.FireAt
		if !d.MovedTo.IsZero() {
			at = d.MovedTo
			if e.Type == event.TimerScheduled {
				text = "moved to"
			}
		}
		text = fmt.Sprintf("%s, %s %s", d.Kind, text, at.UTC().Format(time.RFC3339Nano))
		return byOperator(d.By, text)
	case e.Type == event.ExecutionRestored:
		var what []string
		if len(d.Listen) > 0 {
			what = append(what, "listens again for "+strings.Join(d.Listen, " and "))
		}
		if len(d.Requests) > 0 {
			what = append(what, "requests again "+strings.Join(d.Requests, " and "))
		}
		return byOperator(d.By, strings.Join(what, "; "))
	case e.Type == event.EventReceived:
		return d.Type + " from " + d.Source
	case d.Reason != "", d.By != "":
		return byOperator(d.By, d.Reason)
	case d.Then != "":
		return "then " + d.Then
	case d.Status != "":
		return d.Status
	case len(d.Output) > 0:
		return called(d.Call) + string(d.Output)
	default:
		return strings.TrimSpace(called(d.Call))
	}
}

// called describes a call and its status, as a prefix of the result.
func called(c *event.Call) string {
	if c == nil {
		return ""
	}
	return c.String() + "  "
}

// migrated describes the versions of a migration and who requested it.
func migrated(e event.Event) string {
	var m event.Migrated
	_ = json.Unmarshal(e.Data, &m) // an unreadable field stays empty
	text := fmt.Sprintf("from version %s to %s, by %s", m.FromVersion, m.Version, m.By)
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return text
}
