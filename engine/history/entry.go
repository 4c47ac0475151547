package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
)

// State is the state of an execution or of a run of a task.
type State string

// The states.
const (
	Pending   State = "pending"
	Running   State = "running"
	Waiting   State = "waiting"
	Retrying  State = "retrying" // it waits before the next attempt
	Suspended State = "suspended"
	Completed State = "completed"
	Faulted   State = "faulted"
	Cancelled State = "cancelled"
	Skipped   State = "skipped"
)

// Ended reports whether the state is final.
func (s State) Ended() bool {
	return s == Completed || s == Faulted || s == Cancelled || s == Skipped
}

// Entry is a summary of a history event: the task run that it is about, and the state of that run
// after it.
type Entry struct {
	Version        int64 // its number in the history
	At             time.Time
	Type           string // without the engine's prefix
	Task           string // id of the task run; "" for the execution itself
	Ref, Iteration string // of that run
	Attempt        string
	State          State     // of that run after the event; "" if unchanged
	Call           string    // of a completed call: the request, and the status of the response
	Text           string    // see Detail
	Until          time.Time // when a timer is due
	Data           *Data     // nil if it could not be read, or is not kept
}

// Data holds the members of the data of all types of events.
type Data struct {
	event.Completed // also used for fields of event.Requested and event.Ended with the same names

	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Version    string          `json:"version"`
	Definition string          `json:"definition"`
	Parent     string          `json:"parent"`
	ParentTask string          `json:"parent_task"`
	Input      json.RawMessage `json:"input"`
	Reset      *event.Reset    `json:"reset"`

	Kind    event.TimerKind `json:"kind"`
	Key     string          `json:"key"`
	FireAt  time.Time       `json:"fire_at"`
	MovedTo time.Time       `json:"moved_to"`

	By          string          `json:"by"`
	Reason      string          `json:"reason"`
	FromVersion string          `json:"from_version"`
	Listen      []string        `json:"listen"`
	Requests    []string        `json:"requests"`
	Type        string          `json:"type"` // of an external event
	Source      string          `json:"source"`
	ID          string          `json:"id"`
	Data        json.RawMessage `json:"data"`
}

// due returns when a timer is due.
func (d *Data) due() time.Time { return event.Timer{FireAt: d.FireAt, MovedTo: d.MovedTo}.Due() }

// Read reads an event of a history.
func Read(version int64, e event.Event) Entry {
	run := event.ParseRun(e.Task)
	out := Entry{
		Version: version, At: e.Time, Type: Type(e.Type), Task: e.Task, Ref: run.Ref, Iteration: run.Iteration, Attempt: run.Attempt,
	}
	out.Data = dataOf(e)
	out.Text = detail(e, out.Data)
	out.State = stateAfter(e, out.Data)
	if out.Data != nil && e.Type == event.TaskCompleted && out.Data.Call != nil {
		out.Call = out.Data.Call.String()
	}
	if out.Data != nil && e.Type == event.TimerScheduled {
		out.Until = out.Data.due()
	}
	return out
}

// is reports whether an entry is an event of a type.
func (e Entry) is(typ event.Type) bool { return e.Type == Type(typ) }

// dataOf returns the data of an event, or nil if it cannot be read.
func dataOf(e event.Event) *Data {
	d := new(Data)
	if len(e.Data) > 0 && json.Unmarshal(e.Data, d) != nil {
		return nil
	}
	return d
}

// Type returns an event type without the prefix of the engine.
func Type(typ event.Type) string { return strings.TrimPrefix(string(typ), event.Prefix) }

// stateAfter returns the state of the task run, or of the execution, that an event is about.
func stateAfter(e event.Event, d *Data) State {
	switch e.Type {
	case event.ExecutionStarted, event.ExecutionResumed, event.ExecutionRetried:
		return Running
	case event.ExecutionSuspended:
		return Suspended
	case event.WorkflowCompleted:
		return Completed
	case event.WorkflowFailed:
		return Faulted
	case event.WorkflowCancelled, event.ExecutionCancelled:
		return Cancelled
	case event.TaskRequested:
		if d != nil && d.TaskType == listens {
			return Waiting
		}
		return Running
	case event.TaskCompleted:
		return stateOf(d)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		return stateByTimer(e, d)
	default:
		return ""
	}
}

// stateOf returns the state of a run that has ended.
func stateOf(d *Data) State {
	switch {
	case d == nil:
		return Completed
	case d.Status == string(Skipped), d.Status == string(Cancelled):
		return State(d.Status)
	case d.Error != nil || !d.Success:
		return Faulted
	default:
		return Completed
	}
}

// stateByTimer returns the state of a run after an event of one of its timers. A timeout does not
// change it.
func stateByTimer(e event.Event, d *Data) State {
	switch {
	case e.Task == "" || d == nil || d.Kind == event.TimeoutTimer:
		return ""
	case e.Type == event.TimerFired:
		return Running
	case e.Type == event.TimerCancelled && d.By == "":
		return "" // the engine cancels timers of runs that end
	case e.Type == event.TimerScheduled && d.Kind == event.RetryTimer:
		return Retrying
	default: // without its timer it waits forever
		return Waiting
	}
}

// longestDetail is the maximum length of Detail, in bytes.
const longestDetail = 400

// Detail says briefly what an event contains beyond its type; "" if nothing.
func Detail(e event.Event) string { return detail(e, dataOf(e)) }

func detail(e event.Event, d *Data) string {
	if d == nil {
		return excerpt.Of(string(e.Data), longestDetail)
	}
	return excerpt.Of(d.detail(e.Type, e.Time.Location()), longestDetail)
}

func (d *Data) detail(typ event.Type, zone *time.Location) string {
	switch {
	case typ == event.ExecutionMigrated:
		return fmt.Sprintf("from version %s to %s, ", d.FromVersion, d.Version) + byOperator(d.By, d.Reason)
	case d.Error != nil && typ == event.TaskCompleted:
		return "failed: " + called(d.Call) + d.Error.Error()
	case d.Error != nil:
		return d.Error.Error()
	case typ == event.ExecutionStarted && d.Reset != nil:
		return byOperator(d.Reset.By, "reset of "+d.Reset.Execution+" to "+d.Reset.Task+", input "+string(d.Input))
	case typ == event.ExecutionStarted:
		return "input " + string(d.Input)
	case typ == event.TaskRequested:
		return d.TaskType
	case !d.FireAt.IsZero():
		at := "at "
		if !d.MovedTo.IsZero() && typ == event.TimerScheduled {
			at = "moved to "
		}
		return byOperator(d.By, string(d.Kind)+", "+at+d.due().In(zone).Format(time.RFC3339Nano))
	case typ == event.ExecutionRestored:
		var what []string
		if len(d.Listen) > 0 {
			what = append(what, "listens again for "+strings.Join(d.Listen, " and "))
		}
		if len(d.Requests) > 0 {
			what = append(what, "requests again "+strings.Join(d.Requests, " and "))
		}
		return byOperator(d.By, strings.Join(what, "; "))
	case typ == event.EventReceived:
		return d.Type + " from " + d.Source
	case d.Reason != "", d.By != "":
		return byOperator(d.By, d.Reason)
	case d.Then != "":
		return "then " + d.Then
	case d.Status != "":
		return d.Status
	default:
		return strings.TrimSpace(called(d.Call) + string(d.Output))
	}
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

// called describes a call and its status, as a prefix of the result.
func called(c *event.Call) string {
	if c == nil {
		return ""
	}
	return c.String() + "  "
}
