package event

import (
	"bytes"
	"strconv"
)

// ScanRequested reads the data of a TaskRequested, which is known to be JSON, as the
// engine writes it. It is false of all else, which json.Unmarshal may read all the
// same. What is read shares its memory with the data.
func ScanRequested(data []byte) (r Requested, ok bool) {
	in := members{rest: data}
	for name, value := in.next(); name != nil && !in.irregular; name, value = in.next() {
		switch string(name) {
		case "task_id":
			r.TaskID = in.text(value)
		case "task_name":
			r.TaskName = in.text(value)
		case "task_type":
			r.TaskType = in.text(value)
		case "input":
			r.Input = value
		case "config":
			r.Config = value
		case "vars":
			r.Vars = value
		case "nonce":
			r.Nonce = in.text(value)
		default:
			in.irregular = true
		}
	}
	return r, in.done()
}

// ScanCompleted reads the data of a TaskCompleted as ScanRequested does.
func ScanCompleted(data []byte) (c Completed, ok bool) {
	in := members{rest: data}
	for name, value := in.next(); name != nil && !in.irregular; name, value = in.next() {
		switch string(name) {
		case "task_id":
			c.TaskID = in.text(value)
		case "task_name":
			c.TaskName = in.text(value)
		case "task_type":
			c.TaskType = in.text(value)
		case "success":
			c.Success = in.truth(value)
		case "output":
			c.Output = value
		case "then":
			c.Then = in.text(value)
		case "duration_ms":
			c.DurationMS = in.number(value)
		case "call": // is for people
		default: // a failure is read at leisure
			in.irregular = true
		}
	}
	return c, in.done()
}

// ScanStarted reads the data of an ExecutionStarted as ScanRequested does.
func ScanStarted(data []byte) (s Started, ok bool) {
	in := members{rest: data}
	for name, value := in.next(); name != nil && !in.irregular; name, value = in.next() {
		switch string(name) {
		case "namespace":
			s.Namespace = in.text(value)
		case "name":
			s.Name = in.text(value)
		case "version":
			s.Version = in.text(value)
		case "definition":
			s.Definition = in.text(value)
		case "input":
			s.Input = value
		case "parent":
			s.Parent = in.text(value)
		case "parent_task":
			s.ParentTask = in.text(value)
		case "depth":
			s.Depth = int(in.number(value))
		case "nonce":
			s.Nonce = in.text(value)
		default:
			in.irregular = true
		}
	}
	return s, in.done()
}

// members reads those of a JSON object that has no blanks between them.
type members struct {
	rest      []byte // behind the last one, from what separates it on
	irregular bool   // it is another sort of object
}

// next is the next member, its name without quotes; nil if there is none.
func (m *members) next() (name, value []byte) {
	if len(m.rest) < 2 || m.rest[0] != '{' && m.rest[0] != ',' || m.rest[1] != '"' {
		return nil, nil
	}
	in := m.rest[2:]
	end := bytes.IndexByte(in, '"')
	if end < 0 || end+1 >= len(in) || in[end+1] != ':' {
		m.irregular = true
		return nil, nil
	}
	name, in = in[:end], in[end+2:]
	n := length(in)
	m.rest = in[n:]
	return name, in[:n]
}

// length is how long the JSON value is that a text begins with.
func length(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '"':
		return quoted(text)
	case '{', '[':
		return nested(text)
	}
	if end := bytes.IndexAny(text, ",}"); end >= 0 {
		return end
	}
	return len(text)
}

func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func nested(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += quoted(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// text is a text of plain characters.
func (m *members) text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		m.irregular = true
		return ""
	}
	value = value[1 : len(value)-1]
	for _, c := range value {
		if c < ' ' || c > '~' || c == '\\' {
			m.irregular = true
		}
	}
	return string(value)
}

// truth is a value that is true or false.
func (m *members) truth(value []byte) bool {
	m.irregular = m.irregular || string(value) != "true" && string(value) != "false"
	return string(value) == "true"
}

// number is a whole number of few digits.
func (m *members) number(value []byte) int64 {
	const most = 9 // an int holds all of so many
	n, err := strconv.ParseUint(string(value), 10, 32)
	m.irregular = m.irregular || err != nil || len(value) > most
	return int64(n)
}

// done reports whether all of the object was read.
func (m *members) done() bool { return !m.irregular && string(m.rest) == "}" }
