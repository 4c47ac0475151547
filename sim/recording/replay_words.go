package recording

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// Describe describes an event in words that the author of a workflow understands.
func Describe(e event.Event) string {
	switch e.Type {
	case "":
		return "nothing"
	case event.ExecutionStarted:
		var s event.Started
		_ = json.Unmarshal(e.Data, &s) // unreadable data is shown as it is
		return fmt.Sprintf("execution %s of %s.%s starts with input %s", e.Execution, s.Namespace, s.Name, excerpt(s.Input))
	case event.TaskRequested:
		return named(e) + " begins"
	case event.TaskCompleted:
		return named(e) + " " + ending(e)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		return timed(e)
	case event.EventReceived:
		return received(e)
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return closing(e)
	case event.ExecutionMigrated:
		var m event.Migrated
		_ = json.Unmarshal(e.Data, &m) // unreadable data is shown as it is
		return fmt.Sprintf("execution %s is migrated from version %s to %s by %s", e.Execution, m.FromVersion, m.Version, m.By)
	default:
		return fmt.Sprintf("%s %s", strings.TrimPrefix(string(e.Type), event.Prefix), excerpt(e.Data))
	}
}

// named returns the task run of an event in words.
func named(e event.Event) string {
	if e.Task == "" {
		return "the workflow"
	}
	run := event.ParseRun(e.Task)
	return "task " + history.Run(run.Ref[strings.LastIndexByte(run.Ref, '/')+1:], run.Iteration, run.Attempt)
}

// ending describes how a task ended.
func ending(e event.Event) string {
	var c event.Completed
	if json.Unmarshal(e.Data, &c) != nil {
		return "ends with " + excerpt(e.Data)
	}
	switch {
	case c.Status != "":
		return "is " + c.Status
	case c.Error != nil:
		return fmt.Sprintf("fails: %s (%s, status %d)", cut(c.Error.Error()), event.ShortType(c.Error.Type), c.Error.Status)
	case !c.Success:
		return "fails"
	case c.Then != "":
		return "continues with " + c.Then
	default:
		return "ends with " + excerpt(c.Output)
	}
}

// timed describes what a timer is for and what happens to it.
func timed(e event.Event) string {
	var t event.TimerChange
	_ = json.Unmarshal(e.Data, &t) // unreadable data is zero
	what := "wait"
	switch {
	case t.Kind == event.RetryTimer:
		what = "pause before the next retry"
	case t.Kind == event.TimeoutTimer && e.Task == "":
		what = "time limit"
	case t.Kind == event.TimeoutTimer:
		what = strings.TrimSpace(t.Key + " time limit")
	}
	what = fmt.Sprintf("the %s of %s", what, named(e))
	switch e.Type {
	case event.TimerFired:
		return what + " is over" + by(t.By)
	case event.TimerCancelled:
		return what + " is cancelled" + by(t.By)
	default:
		if t.By != "" {
			return what + " is due at " + t.Due().UTC().Format(time.RFC3339Nano) + by(t.By)
		}
		return fmt.Sprintf("%s is set: %s, until %s", what, history.Exact(time.Duration(t.DurationMS)*time.Millisecond), t.FireAt.UTC().Format(time.RFC3339Nano))
	}
}

// by returns ", by " and the operator, if there is one.
func by(operator string) string {
	if operator == "" {
		return ""
	}
	return ", by " + operator
}

func received(e event.Event) string {
	var envelope struct {
		Type   string          `json:"type"`
		Source string          `json:"source"`
		ID     string          `json:"id"`
		Data   json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(e.Data, &envelope) // unreadable data is empty
	return fmt.Sprintf("event %s from %s (id %s) arrives with %s", envelope.Type, envelope.Source, envelope.ID, excerpt(envelope.Data))
}

// closing describes how a workflow ended.
func closing(e event.Event) string {
	var end event.Ended
	_ = json.Unmarshal(e.Data, &end) // unreadable data is empty
	switch {
	case e.Type == event.WorkflowCompleted:
		return "the workflow completes with " + excerpt(end.Output)
	case end.Error != nil:
		text := fmt.Sprintf("the workflow faults: %s (%s, status %d)", cut(end.Error.Error()), event.ShortType(end.Error.Type), end.Error.Status)
		if end.Error.Instance != "" {
			text += " at " + end.Error.Instance
		}
		return text
	case end.Reason != "":
		return "the workflow is cancelled: " + cut(end.Reason)
	default:
		return "the workflow is cancelled"
	}
}

// excerpt returns JSON as messages show it.
func excerpt(data []byte) string {
	if len(data) == 0 {
		return "nothing"
	}
	return cut(string(data))
}

// longest is the maximum length of data in a message, in bytes.
const longest = 160

func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
