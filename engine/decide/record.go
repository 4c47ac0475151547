package decide

import (
	"strconv"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// Source is the CloudEvents source of the events that decisions make.
const Source = Prefix + "worker"

// Prefix is the prefix of the sources of all of the engine's events.
const Prefix = "/flunq/"

// transition collects the effects of a transition in a Decision: history entries, requests,
// timers, and events for others.
type transition struct {
	evaluator

	d *Decision
}

// event returns an event of this execution. Its id contains the next version of the
// history.
func (tr *transition) event(typ event.Type, task string, data []byte) event.Event {
	return event.Event{
		ID:     tr.serial(),
		Source: Source, Type: typ, Time: tr.Now,
		Tenant: tr.Tenant, Workflow: tr.Workflow, Execution: tr.Execution, Task: task, Data: data,
	}
}

// serial returns the id of the next history entry.
func (tr *transition) serial() string {
	return tr.Execution + "/" + strconv.FormatInt(tr.Version+1, 10)
}

// record appends an event to the history.
func (tr *transition) record(typ event.Type, task string, data []byte) event.Event {
	e := tr.event(typ, task, data)
	tr.append(tr.d, e)
	return e
}

func (tr *transition) recordRequested(n *Node) event.Event {
	return tr.record(event.TaskRequested, n.id, append(tr.taskMembers(n, 1), '}'))
}

func (tr *transition) recordSkipped(n *Node) {
	tr.record(event.TaskCompleted, n.id, append(tr.taskMembers(n, 64), `,"success":true,"status":"skipped","duration_ms":0}`...))
}

func (tr *transition) recordCancelled(n *Node) {
	data := append(tr.taskMembers(n, 96), `,"success":false,"status":"cancelled"`...)
	tr.record(event.TaskCompleted, n.id, tr.appendDuration(data, n))
}

// recordCompleted records the end of a task, unless the history already has its result.
func (tr *transition) recordCompleted(n *Node, out any) {
	if n.reported {
		return
	}
	data := append(tr.taskMembers(n, 96), `,"success":true,"output":`...)
	tr.record(event.TaskCompleted, n.id, tr.appendDuration(canonical.Append(data, out), n))
}

func (tr *transition) recordFailed(n *Node, p *event.Problem) {
	if n.reported && n.failed {
		return
	}
	data := append(tr.taskMembers(n, 96), `,"success":false,"error":`...)
	tr.record(event.TaskCompleted, n.id, tr.appendDuration(append(data, event.Encode(p)...), n))
}

// taskMembers begins a JSON object with the members that identify a task, and reserves
// extra bytes for more members. These objects are built by hand because every task needs
// two of them: with encoding/json, BenchmarkPureTasks takes 1.6 times as long.
func (tr *transition) taskMembers(n *Node, extra int) []byte {
	const names = 48
	size := names + len(n.id) + len(n.task.Name) + len(n.task.Kind) + extra
	dst := append(make([]byte, 0, size), `{"task_id":`...)
	dst = canonical.AppendText(dst, n.id)
	dst = append(dst, `,"task_name":`...)
	dst = canonical.AppendText(dst, n.task.Name)
	dst = append(dst, `,"task_type":"`...)
	dst = append(dst, n.task.Kind...)
	return append(dst, '"')
}

func (tr *transition) appendDuration(dst []byte, n *Node) []byte {
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, tr.Now.Sub(n.StartedAt).Milliseconds(), 10)
	return append(dst, '}')
}
