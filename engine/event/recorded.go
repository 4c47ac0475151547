package event

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Recorded is an event as a line of a recording has it: its attributes and, beside them,
// its data, in the first of three forms that keeps every byte of it. Recordings of
// format 1 have the data as a text among the attributes.
type Recorded struct {
	Attributes map[string]any  `json:"event"`
	Data       json.RawMessage `json:"data"`   // JSON
	Text       string          `json:"text"`   // no JSON, or JSON that cannot stand on one line
	Base64     []byte          `json:"base64"` // no UTF-8
}

// Event is the event that was recorded.
func (r Recorded) Event() (Event, error) {
	e, err := FromAttributes(r.Attributes)
	switch {
	case r.Data != nil:
		e.Data = r.Data
	case r.Text != "":
		e.Data = json.RawMessage(r.Text)
	case r.Base64 != nil:
		e.Data = r.Base64
	}
	return e, err
}

// AppendRecorded adds to b the members of a JSON object that Recorded reads. asJSON
// allows the first form of the data.
func (e Event) AppendRecorded(b []byte, asJSON bool) []byte {
	data := e.Data
	e.Data = nil
	fields := e.Fields()
	b = append(b, `"event":{`...)
	for i := 0; i < len(fields); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, Encode(fields[i])...), ':'), Encode(fields[i+1])...)
	}
	b = append(b, '}')
	switch {
	case len(data) == 0:
		return b
	case !utf8.Valid(data):
		return append(append(b, `,"base64":`...), Encode([]byte(data))...)
	case asJSON && onOneLine(data):
		return append(append(b, `,"data":`...), data...)
	default:
		return append(append(b, `,"text":`...), Encode(string(data))...)
	}
}

// onOneLine reports whether data is JSON that can stand within other JSON, on one line,
// and is the same when it is read from there.
func onOneLine(data []byte) bool {
	return len(bytes.TrimSpace(data)) == len(data) && !bytes.ContainsAny(data, "\r\n") && json.Valid(data)
}
