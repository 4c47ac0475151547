package decide

import (
	"strconv"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Source is the CloudEvents source of the events that decisions make.
const Source = Prefix + "worker"

// Prefix begins the sources of all of the engine's events.
const Prefix = "/flunq/"

// event returns an event of this execution. Its id contains its version in the history.
func (m *machine) event(typ event.Type, task string, data []byte) event.Event {
	return event.Event{
		ID:     m.serial(),
		Source: Source, Type: typ, Time: m.Now,
		Tenant: m.Tenant, Workflow: m.Workflow, Execution: m.Execution, Task: task, Data: m.d.arena.keep(data),
	}
}

// serials holds the ids of the next events, as substrings of one text: one allocation
// makes several.
type serials struct {
	version int64 // version of the first id
	text    string
}

// The number of ids to make at once, in a short and in a long history.
const (
	fewIDs  = 4
	manyIDs = 16
)

// serial returns the id of the next entry of the history.
func (m *machine) serial() string {
	version := m.Version + 1
	if m.ids.text == "" || m.ids.version != version {
		count := int64(fewIDs)
		if len(m.d.History) >= few {
			count = manyIDs
		}
		var buffer [512]byte
		text := buffer[:0]
		for v := version; v < version+count; v++ {
			text = strconv.AppendInt(append(append(text, m.Execution...), '/'), v, 10)
		}
		m.ids = serials{version, string(text)}
	}
	length := len(m.Execution) + 2
	for v := version; v >= 10; v /= 10 {
		length++
	}
	id := m.ids.text[:length]
	m.ids = serials{version + 1, m.ids.text[length:]}
	return id
}

// record appends an event to the history.
func (m *machine) record(typ event.Type, task string, data []byte) event.Event {
	e := m.event(typ, task, data)
	m.append(m.d, e)
	return e
}

func (m *machine) recordRequested(n *Node) event.Event {
	return m.record(event.TaskRequested, n.id, append(m.taskMembers(n, 1), '}'))
}

func (m *machine) recordSkipped(n *Node) {
	m.record(event.TaskCompleted, n.id, append(m.taskMembers(n, 64), `,"success":true,"status":"skipped","duration_ms":0}`...))
}

func (m *machine) recordCancelled(n *Node) {
	data := append(m.taskMembers(n, 96), `,"success":false,"status":"cancelled"`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(data, n))
}

// recordCompleted records the end of a task, unless the history already has its result.
func (m *machine) recordCompleted(n *Node, out any) {
	if n.reported {
		return
	}
	data := append(m.taskMembers(n, 96), `,"success":true,"output":`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(expr.AppendJSON(data, out), n))
}

func (m *machine) recordFailed(n *Node, p *event.Problem) {
	if n.reported && n.failed {
		return
	}
	data := append(m.taskMembers(n, 96), `,"success":false,"error":`...)
	m.record(event.TaskCompleted, n.id, m.appendDuration(append(data, event.Encode(p)...), n))
}

// taskMembers begins a JSON object with the members that identify a task, and reserves
// buffer bytes for more.
func (m *machine) taskMembers(n *Node, buffer int) []byte {
	const names = 48
	size := names + len(n.id) + len(n.task.Name) + len(n.task.Kind) + buffer
	dst := append(m.d.arena.reserve(size), `{"task_id":`...)
	dst = expr.AppendText(dst, n.id)
	dst = append(dst, `,"task_name":`...)
	dst = expr.AppendText(dst, n.task.Name)
	dst = append(dst, `,"task_type":"`...)
	dst = append(dst, n.task.Kind...)
	return append(dst, '"')
}

func (m *machine) appendDuration(dst []byte, n *Node) []byte {
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, m.Now.Sub(n.StartedAt).Milliseconds(), 10)
	return append(dst, '}')
}
