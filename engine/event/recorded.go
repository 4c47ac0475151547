package event

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Recorded is the form of an event in a recording: its attributes, and its data in the first of
// three forms that preserves every byte. In format 1 the data is a string among the attributes.
type Recorded struct {
	Attributes map[string]any  `json:"event"`
	Data       json.RawMessage `json:"data"`   // JSON
	Text       string          `json:"text"`   // not JSON, or JSON that does not fit on one line
	Base64     []byte          `json:"base64"` // not UTF-8
}

// Event returns the recorded event.
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

// AppendRecorded appends members of a JSON object to b that decode to a Recorded. asJSON allows
// the first form of the data.
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

// onOneLine reports whether data is JSON that can be embedded in other JSON, on one line, and read
// back unchanged.
func onOneLine(data []byte) bool {
	return len(bytes.TrimSpace(data)) == len(data) && !bytes.ContainsAny(data, "\r\n") && json.Valid(data)
}
