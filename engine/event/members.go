package event

import (
	"bytes"
	"strconv"
	"time"
)

// ScanCompleted parses the data of a TaskCompleted in the form that the engine writes, faster
// than json.Unmarshal, which takes 13 times as long (1.6 instead of 0.13 µs). The data must be
// valid JSON. For any other form it returns false; use json.Unmarshal then. The result shares
// memory with data.
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
		case "call": // only for display
		default: // failures are rare, and left to json.Unmarshal
			in.irregular = true
		}
	}
	return c, in.done()
}

// ScanStarted parses the data of an ExecutionStarted as ScanCompleted does.
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

// ScanTimer parses the JSON of a timer if it is exactly what TimerText writes. For anything else
// it returns false; json.Unmarshal may still be able to read it.
func ScanTimer(text string) (t Timer, ok bool) {
	in := members{rest: []byte(text), source: text}
	for name, value := in.next(); name != nil && !in.irregular; name, value = in.next() {
		in.timer(&t, name, value)
	}
	if !in.done() {
		return t, false
	}
	again, ok := appendTimer(make([]byte, 0, timerSize), &t)
	return t, ok && string(again) == text[:len(text)-1]
}

// ScanFired parses the data of a TimerFired as ScanCompleted does.
func ScanFired(data []byte) (f Fired, ok bool) {
	in := members{rest: data}
	for name, value := in.next(); name != nil && !in.irregular; name, value = in.next() {
		switch string(name) {
		case "scheduled_for":
			f.ScheduledFor = in.time(value)
		case "fired_at":
			f.FiredAt = in.time(value)
		default:
			in.timer(&f.Timer, name, value)
		}
	}
	return f, in.done()
}

// timer reads a member of a timer.
func (m *members) timer(t *Timer, name, value []byte) {
	switch string(name) {
	case "tenant_id":
		t.Tenant = m.text(value)
	case "workflow_id":
		t.Workflow = m.text(value)
	case "execution_id":
		t.Execution = m.text(value)
	case "task_id":
		t.TaskID = m.text(value)
	case "task_name":
		t.TaskName = m.text(value)
	case "fire_at":
		t.FireAt = m.time(value)
	case "duration_ms":
		t.DurationMS = m.number(value)
	case "kind":
		t.Kind = TimerKind(m.text(value))
	case "key":
		t.Key = m.text(value)
	case "moved_to":
		t.MovedTo = m.time(value)
	default:
		m.irregular = true
	}
}

// members reads the members of a JSON object without white space.
type members struct {
	rest      []byte // text after the last member, beginning with its separator
	irregular bool   // the object does not have the expected form
	source    string // if set, a string that ends with rest: returned strings share its memory
}

// next returns the next member, its name without quotes; nil if there is none.
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

// length returns the length of the JSON value at the start of text.
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

// text returns a string value if it has no escapes. It must be the last value that next returned.
func (m *members) text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		m.irregular = true
		return ""
	}
	size := len(value)
	value = value[1 : size-1]
	for _, c := range value {
		if c < ' ' || c > '~' || c == '\\' {
			m.irregular = true
		}
	}
	if m.source != "" {
		end := len(m.source) - len(m.rest)
		return m.source[end-size+1 : end-1]
	}
	return string(value)
}

// truth returns a boolean value.
func (m *members) truth(value []byte) bool {
	m.irregular = m.irregular || string(value) != "true" && string(value) != "false"
	return string(value) == "true"
}

// number returns an integer of few digits.
func (m *members) number(value []byte) int64 {
	const most = 18 // any such number fits an int64
	n, err := strconv.ParseUint(string(value), 10, 64)
	m.irregular = m.irregular || err != nil || len(value) > most
	return int64(n)
}

// time returns a time in UTC.
func (m *members) time(value []byte) (at time.Time) {
	if len(value) < 2 || value[len(value)-2] != 'Z' || at.UnmarshalJSON(value) != nil {
		m.irregular = true
	}
	return at
}

// done reports whether the whole object was read.
func (m *members) done() bool { return !m.irregular && string(m.rest) == "}" }
