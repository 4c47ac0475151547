// Package event defines the events of workflows, and their CloudEvents 1.0 form in Redis.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Type is a CloudEvents type. The types of the engine's own events begin with Prefix; events of any
// other type come from outside or from an emit task.
type Type string

// Prefix is the prefix of the types of the engine's own events.
const Prefix = "io.flunq."

// LifecyclePrefix is the prefix of the types of lifecycle events in tenants' streams. Only bridges
// read them, and publish them with SpecificationPrefix, as the specification names them.
const (
	LifecyclePrefix     = Prefix + "lifecycle."
	SpecificationPrefix = "io.serverlessworkflow."
)

// The engine's own events. The comments name the sender and the service that handles the event: its
// function Handles, and State.Apply of package decide if that is the worker. Readers are programs that
// follow a tenant's stream.
const (
	ExecutionStarted   Type = Prefix + "execution.started"   // cli or worker → worker
	ExecutionCancelled Type = Prefix + "execution.cancelled" // cli or worker → worker
	ExecutionSuspended Type = Prefix + "execution.suspended" // cli → worker
	ExecutionResumed   Type = Prefix + "execution.resumed"   // cli → worker
	ExecutionRetried   Type = Prefix + "execution.retried"   // cli → worker: retry a faulted execution from the failed task
	ExecutionMigrated  Type = Prefix + "execution.migrated"  // cli → readers, and in histories: continue with another document

	ExecutionRestored Type = Prefix + "execution.restored" // in histories only: a lost subscription was restored, or a lost request was sent again

	TaskRequested  Type = Prefix + "task.requested"  // worker → executor
	TaskCompleted  Type = Prefix + "task.completed"  // executor → worker
	TimerScheduled Type = Prefix + "timer.scheduled" // worker → timer
	TimerCancelled Type = Prefix + "timer.cancelled" // worker → timer
	TimerFired     Type = Prefix + "timer.fired"     // timer → worker
	TimerSet       Type = Prefix + "timer.set"       // any process → timer: a timer was set without a TimerScheduled
	EventReceived  Type = Prefix + "event.received"  // in histories only: an external event reached a listen task

	WorkflowCompleted Type = Prefix + "workflow.completed" // worker → readers; the parent of a child execution gets a TaskCompleted
	WorkflowFailed    Type = Prefix + "workflow.failed"    // worker → readers
	WorkflowCancelled Type = Prefix + "workflow.cancelled" // worker → readers

	EventDead Type = Prefix + "event.dlq" // other flunq.io programs → worker: a message was dead-lettered
	TaskDead  Type = Prefix + "task.dlq"  // executor → worker: a request was dead-lettered
	TimerDead Type = Prefix + "timer.dlq" // timer → worker: an event about a timer was dead-lettered
)

// Event is a CloudEvent with the engine's attributes.
type Event struct {
	ID        string            `json:"id"`
	Source    string            `json:"source"`
	Type      Type              `json:"type"`
	Time      time.Time         `json:"time"`
	Tenant    string            `json:"tenant"`
	Workflow  string            `json:"workflow"` // "namespace.name"
	Execution string            `json:"execution"`
	Task      string            `json:"task"`       // id of a task run, see Run
	Data      json.RawMessage   `json:"data"`       // JSON, or nil
	Ext       map[string]string `json:"extensions"` // extension attributes
}

// Extension attributes of the engine's events.
const (
	DefinitionAttribute = "definition" // of a request: the hash of the document
	AttemptAttribute    = "attempt"    // number of failed deliveries so far
	ReplayAttribute     = "replay"     // number of replays from the dead letters

	FirstFailureAttribute = "firstfailure" // time of the first failed delivery
	FirstEntryAttribute   = "firstentry"   // id of the original entry, after failed deliveries
	PackedAttribute       = "packed"       // all fields of an entry with too many
)

// AttributeName reports whether CloudEvents allows name for an attribute.
func AttributeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
}

// OwnAttributes returns the attributes that every event has or that the engine uses.
func OwnAttributes() []string {
	return []string{
		"id", "source", "specversion", "type", "time", "data", "tenantid", "workflowid", "executionid", "taskid",
		DefinitionAttribute, AttemptAttribute, ReplayAttribute, FirstFailureAttribute, FirstEntryAttribute, PackedAttribute,
	}
}

// TraceAttributes returns the names of the attributes that hold the trace context of an event's
// sender: the CloudEvents extension Distributed Tracing.
func TraceAttributes() []string { return []string{"traceparent", "tracestate"} }

// SpecVersion is the CloudEvents version.
const SpecVersion = "1.0"

// Fields returns the event as the fields of a stream entry, alternating names and values, always in
// the same order. Empty attributes are omitted.
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
	for _, name := range slices.Sorted(maps.Keys(e.Ext)) {
		add(name, e.Ext[name])
	}
	return out
}

// FromFields parses the fields of a stream entry, alternating names and values. All attributes
// except the type are optional. If the type is missing or the time is invalid, it returns an error
// and an event with the other attributes.
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
			t, err := parseTime(s)
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

// parseTime parses a time of RFC 3339, which allows t and z, and the leap second :60: the next second.
func parseTime(text string) (time.Time, error) {
	upper := strings.ToUpper(text)
	t, err := time.Parse(time.RFC3339Nano, upper)
	if err != nil && len(upper) >= 19 && upper[16:19] == ":60" {
		t, err = time.Parse(time.RFC3339Nano, upper[:16]+":59"+upper[19:])
		t = t.Add(time.Second)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time like 2026-01-02T15:04:05Z", text)
	}
	return t, nil
}

// FromAttributes parses an event's attributes, given by name, as FromFields does.
func FromAttributes(attributes map[string]any) (Event, error) {
	fields := make([]string, 0, 2*len(attributes))
	for name, v := range attributes {
		s, ok := v.(string)
		if !ok {
			return Event{}, fmt.Errorf("attribute %s is %T, want a string", name, v)
		}
		fields = append(fields, name, s)
	}
	return FromFields(fields)
}

// TenantName reports whether a name is allowed for a tenant: [a-z0-9][a-z0-9._-]{0,62}.
func TenantName(name string) bool {
	const longest = 63
	for i, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= longest
}

// Earlier returns the earlier of two times; zero means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
