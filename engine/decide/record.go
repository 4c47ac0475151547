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

// event returns an event of this execution. Its id contains the next version of the
// history.
func (m *machine) event(typ event.Type, task string, data []byte) event.Event {
	return event.Event{
		ID:     m.Execution + "/" + strconv.FormatInt(m.Version+1, 10),
		Source: Source, Type: typ, Time: m.Now,
		Tenant: m.Tenant, Workflow: m.Workflow, Execution: m.Execution, Task: task, Data: data,
	}
}

// record appends an event to the history.
func (m *machine) record(typ event.Type, task string, data []byte) event.Event {
	e := m.event(typ, task, data)
	m.append(m.d, e)
	return e
}

func (m *machine) recordRequested(n *Node) event.Event {
	return m.record(event.TaskRequested, n.id, append(taskMembers(n, 1), '}'))
}

func (m *machine) recordSkipped(n *Node) {
	m.record(event.TaskCompleted, n.id, append(taskMembers(n, 64), `,"success":true,"status":"skipped","duration_ms":0}`...))
}

func (m *machine) recordCancelled(n *Node) {
	data := append(taskMembers(n, 96), `,"success":false,"status":"cancelled"`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(data, n))
}

// recordCompleted records the end of a task, unless the history already has its result.
func (m *machine) recordCompleted(n *Node, out any) {
	if n.reported {
		return
	}
	data := append(taskMembers(n, 96), `,"success":true,"output":`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(canonical.Append(data, out), n))
}

func (m *machine) recordFailed(n *Node, p *event.Problem) {
	if n.reported && n.failed {
		return
	}
	data := append(taskMembers(n, 96), `,"success":false,"error":`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(append(data, event.Encode(p)...), n))
}

// taskMembers begins a JSON object with the members that identify a task, and reserves
// extra bytes for more members. These objects are built by hand because every task needs
// two of them: with encoding/json, BenchmarkPureTasks takes 1.6 times as long.
func taskMembers(n *Node, extra int) []byte {
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

func (m *machine) appendDuration(dst []byte, n *Node) []byte {
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, m.Now.Sub(n.StartedAt).Milliseconds(), 10)
	return append(dst, '}')
}
