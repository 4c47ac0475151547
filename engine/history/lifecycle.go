package history

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Lifecycle derives the lifecycle events of the specification from the events of a history.
type Lifecycle struct {
	Version string          // version of the document, if the execution was started with the latest
	Open    map[string]bool // task runs that have started and not ended, by id; nil: none

	version int64       // of e
	e       event.Event // the last event of the history
	out     []event.Event
}

// largestOutput is the maximum size in bytes of an output in a lifecycle event: brokers reject large
// messages.
const largestOutput = 64 << 10

// Add returns the lifecycle events for the next event of a history, given its version. Their ids
// depend only on the history. Their types begin with event.LifecyclePrefix.
//
// The run of a second or later attempt is reported as retried, any other run as created; both also as
// started at the same time. Skipped tasks have no events. An execution that an operator retries is
// reported as resumed.
func (l *Lifecycle) Add(version int64, e event.Event) []event.Event {
	l.version, l.e, l.out = version, e, nil
	d := dataOf(e)
	if d == nil {
		d = new(Data)
	}
	switch e.Type {
	case event.ExecutionStarted:
		namespace, name, _ := strings.Cut(e.Workflow, ".")
		definition := map[string]any{"namespace": namespace, "name": name, "version": d.Version}
		if d.Version == "" || d.Version == "latest" {
			definition["version"] = cmp.Or(l.Version, "latest")
		}
		l.workflow("started", "definition", definition)
	case event.ExecutionSuspended:
		l.everything("suspended")
	case event.ExecutionResumed:
		l.everything("resumed")
	case event.ExecutionRetried:
		l.workflow("resumed", "", nil)
	case event.TaskRequested:
		l.begin(d)
	case event.TaskCompleted:
		l.end(d)
	case event.WorkflowCompleted:
		l.workflow("completed", "output", outputOf(d))
	case event.WorkflowFailed:
		l.workflow("faulted", "error", cmp.Or(d.Error, unknownProblem()))
	case event.WorkflowCancelled:
		l.workflow("cancelled", "", nil)
	default:
	}
	return l.out
}

// everything adds events about the execution and its open task runs.
func (l *Lifecycle) everything(what string) {
	l.workflow(what, "", nil)
	for _, id := range slices.Sorted(maps.Keys(l.Open)) {
		l.task(id, what, "", nil)
	}
}

func (l *Lifecycle) begin(d *Data) {
	id := l.e.Task
	if l.Open == nil {
		l.Open = map[string]bool{}
	}
	l.Open[id] = true
	if event.ParseRun(id).Attempt == "" {
		l.task(id, "created", "", nil)
	} else {
		l.task(id, "retried", "", nil)
	}
	l.task(id, "started", "", nil)
	if d.TaskType == listens {
		l.workflow("correlation-started", "", nil)
	}
}

func (l *Lifecycle) end(d *Data) {
	id := l.e.Task
	delete(l.Open, id)
	switch stateOf(d) {
	case Completed:
		if d.TaskType == listens {
			l.workflow("correlation-completed", "", nil)
		}
		l.task(id, "completed", "output", outputOf(d))
	case Cancelled:
		l.task(id, "cancelled", "", nil)
	case Faulted:
		p := cmp.Or(d.Error, unknownProblem())
		p.Type, p.Instance = event.FullType(p.Type, event.BaseV1), cmp.Or(p.Instance, event.ParseRun(id).Ref)
		l.task(id, "faulted", "error", p)
	default: // skipped
	}
}

// unknownProblem replaces an error that cannot be read.
func unknownProblem() *event.Problem {
	p := event.NewProblem(event.Runtime, "")
	p.Type = event.FullType(p.Type, event.BaseV1)
	return p
}

const listens = "listen" // type of a task

// outputOf returns the output of a task or a workflow, or nil if it is too large.
func outputOf(d *Data) any {
	if len(d.Output) == 0 || len(d.Output) > largestOutput {
		return nil
	}
	return d.Output
}

// workflow adds an event about the execution. Its data has the given member, unless value is nil.
func (l *Lifecycle) workflow(what, member string, value any) {
	l.add("workflow."+what, "", map[string]any{"name": l.name(), timeMember(what): l.e.Time, member: value})
}

// task is like workflow, for a task run.
func (l *Lifecycle) task(id, what, member string, value any) {
	l.add("task."+what, id, map[string]any{"workflow": l.name(), "task": event.ParseRun(id).Ref, timeMember(what): l.e.Time, member: value})
}

// timeMember returns the name of the member with the time of an event: "startedAt".
func timeMember(what string) string { return strings.TrimPrefix(what, "correlation-") + "At" }

func (l *Lifecycle) add(what, task string, data map[string]any) {
	maps.DeleteFunc(data, func(_ string, value any) bool { return value == nil })
	l.out = append(l.out, event.Event{
		ID:     l.e.Execution + "/" + strconv.FormatInt(l.version, 10) + "/" + what + task,
		Source: "/flunq/" + l.e.Tenant, Type: event.LifecyclePrefix + event.Type(what) + ".v1", Time: l.e.Time,
		Tenant: l.e.Tenant, Workflow: l.e.Workflow, Execution: l.e.Execution, Task: task,
		Ext: map[string]string{"subject": l.name()}, Data: event.Encode(data),
	})
}

// name returns the qualified name of the execution, in the form of the specification.
func (l *Lifecycle) name() string {
	namespace, name, _ := strings.Cut(l.e.Workflow, ".")
	return name + "-" + l.e.Execution + "." + namespace
}
