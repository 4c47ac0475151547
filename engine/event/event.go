// Package event is the vocabulary: what can happen to a workflow, and the
// CloudEvents 1.0 form in which Redis carries it.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Type is a CloudEvents type. Those of flunq's own begin with Prefix; all
// others come from outside, or from emit tasks.
type Type string

// Prefix begins the types of the engine's own events.
const Prefix = "io.flunq."

// The engine's own events; the comments say who sends them to whom.
const (
	WorkflowCreated Type = Prefix + "workflow.created" // cli

	ExecutionStarted   Type = Prefix + "execution.started"   // cli or worker → worker
	ExecutionCancelled Type = Prefix + "execution.cancelled" // cli or worker → worker
	ExecutionSuspended Type = Prefix + "execution.suspended" // cli → worker
	ExecutionResumed   Type = Prefix + "execution.resumed"   // cli → worker
	ExecutionRetried   Type = Prefix + "execution.retried"   // cli → worker: a faulted one goes on from where it failed
	ExecutionMigrated  Type = Prefix + "execution.migrated"  // cli → readers, and in histories: it goes on with another document

	ExecutionRestored Type = Prefix + "execution.restored" // in histories only: it is listed as a listener again, or a lost request was sent again

	TaskRequested  Type = Prefix + "task.requested"  // worker → executor
	TaskCompleted  Type = Prefix + "task.completed"  // executor → worker
	TimerScheduled Type = Prefix + "timer.scheduled" // worker → timer
	TimerCancelled Type = Prefix + "timer.cancelled" // worker → timer
	TimerFired     Type = Prefix + "timer.fired"     // timer → worker
	TimerSet       Type = Prefix + "timer.set"       // anybody → timer: one was set that no event had asked for
	EventReceived  Type = Prefix + "event.received"  // in histories only: an event from outside reached a listen task

	WorkflowCompleted Type = Prefix + "workflow.completed" // worker → parent's worker, readers
	WorkflowFailed    Type = Prefix + "workflow.failed"
	WorkflowCancelled Type = Prefix + "workflow.cancelled"

	EventDead Type = Prefix + "event.dlq" // a service → worker: a delivery was given up
	TaskDead  Type = Prefix + "task.dlq"
	TimerDead Type = Prefix + "timer.dlq"
)

// TypeOf is the type that a text names, without keeping the text of one that is
// often read.
func TypeOf(text []byte) Type {
	switch string(text) {
	case string(ExecutionStarted):
		return ExecutionStarted
	case string(TaskRequested):
		return TaskRequested
	case string(TaskCompleted):
		return TaskCompleted
	case string(TimerScheduled):
		return TimerScheduled
	case string(TimerCancelled):
		return TimerCancelled
	case string(TimerFired):
		return TimerFired
	case string(WorkflowCompleted):
		return WorkflowCompleted
	default:
		return Type(text)
	}
}

// Event is a CloudEvent as the engine carries it.
type Event struct {
	ID        string            `json:"id"`
	Source    string            `json:"source"`
	Type      Type              `json:"type"`
	Time      time.Time         `json:"time"`
	Tenant    string            `json:"tenant"`
	Workflow  string            `json:"workflow"` // "namespace.name"
	Execution string            `json:"execution"`
	Task      string            `json:"task"`       // the run of a task, see Run
	Data      json.RawMessage   `json:"data"`       // JSON, or nil
	Ext       map[string]string `json:"extensions"` // further attributes
}

// Attributes beyond CloudEvents' own that the engine gives to its events.
const (
	DefinitionAttribute = "definition" // of a request: the hash of the document
	AttemptAttribute    = "attempt"    // how often a delivery has failed before
	ReplayAttribute     = "replay"     // how often it was brought back from the dead letters
)

// SpecVersion is the version of CloudEvents.
const SpecVersion = "1.0"

// Fields is the event as the fields of a stream entry, name after name with
// its value, always in the same order; empty attributes are left out.
func (e Event) Fields() []string {
	out := make([]string, 0, 20+2*len(e.Ext))
	add := func(name, value string) {
		if value != "" {
			out = append(out, name, value)
		}
	}
	add("id", e.ID)
	add("source", e.Source)
	add("specversion", SpecVersion)
	add("type", string(e.Type))
	if !e.Time.IsZero() {
		add("time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	add("tenantid", e.Tenant)
	add("workflowid", e.Workflow)
	add("executionid", e.Execution)
	add("taskid", e.Task)
	add("data", string(e.Data))
	names := make([]string, 0, len(e.Ext))
	for name := range e.Ext {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(name, e.Ext[name])
	}
	return out
}

// FromFields reads the fields of a stream entry, name after name with its value.
// An entry without a type or with a time that is none is an error, which leaves
// the other attributes readable; they may be missing.
func FromFields(fields []string) (Event, error) {
	var (
		e   Event
		bad error
	)
	for i := 0; i+1 < len(fields); i += 2 {
		switch name, s := fields[i], fields[i+1]; name {
		case "id":
			e.ID = s
		case "source":
			e.Source = s
		case "specversion":
		case "type":
			e.Type = Type(s)
		case "time":
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				bad = fmt.Errorf("attribute time: %w", err)
				break
			}
			e.Time = t.UTC()
		case "tenantid":
			e.Tenant = s
		case "workflowid":
			e.Workflow = s
		case "executionid":
			e.Execution = s
		case "taskid":
			e.Task = s
		case "data":
			e.Data = json.RawMessage(s)
		default:
			if e.Ext == nil {
				e.Ext = map[string]string{}
			}
			e.Ext[name] = s
		}
	}
	if e.Type == "" {
		return e, errors.New("no attribute type")
	}
	return e, bad
}

// FromAttributes reads an event's attributes by their names, as FromFields does.
func FromAttributes(attributes map[string]any) (Event, error) {
	fields := make([]string, 0, 2*len(attributes))
	for name, v := range attributes {
		s, ok := v.(string)
		if !ok {
			return Event{}, fmt.Errorf("attribute %s is %T, want text", name, v)
		}
		fields = append(fields, name, s)
	}
	return FromFields(fields)
}
