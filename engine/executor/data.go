package executor

import (
	"bytes"
	"strconv"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// requested reads the data of a request, which the store knows to be JSON. As a
// worker writes it there is little to it; anything else is left to encoding/json.
func requested(e event.Event) (r event.Requested, err error) {
	in := members{e.Data, false}
	for name, value := in.next(); name != nil && !in.odd; name, value = in.next() {
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
		default:
			in.odd = true
		}
	}
	if in.odd || string(in.rest) != "}" {
		r = event.Requested{}
		return r, decide.DecodeData(e, &r)
	}
	return r, nil
}

// members reads those of a JSON object that has no blanks between them.
type members struct {
	rest []byte // behind the last one, from what separates it on
	odd  bool   // it is another sort of object
}

// next is the next member, its name without quotes; nil if there is none.
func (m *members) next() (name, value []byte) {
	if len(m.rest) < 2 || m.rest[0] != '{' && m.rest[0] != ',' || m.rest[1] != '"' {
		return nil, nil
	}
	in := m.rest[2:]
	end := bytes.IndexByte(in, '"')
	if end < 0 || end+1 >= len(in) || in[end+1] != ':' {
		m.odd = true
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
		m.odd = true
		return ""
	}
	value = value[1 : len(value)-1]
	for _, c := range value {
		if c < ' ' || c > '~' || c == '\\' {
			m.odd = true
		}
	}
	return string(value)
}

// completed writes the data of a report, as event.Encode does.
func completed(c *event.Completed) []byte {
	if c.Error != nil || c.Status != "" {
		return event.Encode(c)
	}
	const most = 128 // bytes of what is the same in all
	out := make([]byte, 0, most+len(c.TaskID)+len(c.TaskName)+len(c.Output))
	out = append(out, `{"task_id":`...)
	out = expr.AppendJSON(out, c.TaskID)
	out = append(out, `,"task_name":`...)
	out = expr.AppendJSON(out, c.TaskName)
	if c.TaskType != "" {
		out = append(out, `,"task_type":`...)
		out = expr.AppendJSON(out, c.TaskType)
	}
	out = append(out, `,"success":`...)
	out = strconv.AppendBool(out, c.Success)
	if len(c.Output) > 0 {
		out = append(out, `,"output":`...)
		out = append(out, c.Output...)
	}
	if c.Then != "" {
		out = append(out, `,"then":`...)
		out = expr.AppendJSON(out, c.Then)
	}
	out = append(out, `,"duration_ms":`...)
	out = strconv.AppendInt(out, c.DurationMS, 10)
	return append(out, '}')
}
