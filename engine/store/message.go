package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Message is an entry of a stream that was delivered to a consumer.
type Message struct {
	Tenant, Group, Consumer string
	ID                      string
	Event                   event.Event
	Err                     error     // why the entry is no event, if so
	Attempt                 int       // deliveries that have failed before
	Claimed                 bool      // it was idle for a lease: its consumer, perhaps this one, left it
	Crashes                 int       // consumers that have died with it, as far as that is known
	Replay                  int       // how often it was brought back from the dead letters
	Read                    time.Time // Redis' time of the delivery
	Omitted                 bool      // only its id is known: its values are too large to be read with others

	fields []string        // of the entry …
	text   string          // … or their text: few are asked for them
	data   string          // of the event, as it stands in that text
	timer  *event.Timer    // that the data is, if it stands there as the engine writes it
	packed func() []string // the fields, if there are too many
}

// Timer is the timer that its data is, as the engine writes one; nil if it is none, or
// is written in another way.
func (m *Message) Timer() *event.Timer { return m.timer }

// Fields are those of the entry as it stands, in the order of their names.
func (m Message) Fields() []string {
	if m.packed != nil {
		return m.packed()
	}
	if m.fields == nil && m.text != "" {
		return wire.SortFields(wire.FieldsOf(m.text))
	}
	return m.fields
}

// Data is the text of the event's data.
func (m *Message) Data() string {
	if m.data != "" {
		return m.data
	}
	return string(m.Event.Data)
}

// Same reports whether both are the same entry of the same stream.
func (m Message) Same(other Message) bool { return m.ID == other.ID && m.Tenant == other.Tenant }

// Entered is when the message was written to the stream, by Redis' clock.
func (m Message) Entered() time.Time { return IDTime(m.ID) }

// FailureEvent is the event that tells the worker of a delivery given up.
func (m Message) FailureEvent(typ event.Type, dead event.Dead) event.Event {
	dead.Original = event.Encode(wire.FieldMap(m.sent()))
	return event.Event{
		ID: m.Event.ID + "/dead", Source: "/flunq/" + dead.Service, Type: typ, Time: m.Read, Tenant: m.Tenant,
		Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task, Data: event.Encode(dead),
	}
}

// refuse notes that the entry has n fields, too many to be an event.
func (m *Message) refuse(n int) {
	m.Err = fmt.Errorf("the entry has %d fields, more than %d (limit event-fields)", n, MostFields)
	m.Event.Ext = nil
}

// pack returns fields as one field: no script takes that many arguments.
func pack(fields map[string]string) []string {
	return []string{packedField, string(event.Encode(fields))}
}

// Unpack returns the fields of an entry that had too many, and others as they are.
func Unpack(fields []string) []string {
	all := wire.FieldMap(fields)
	text, packed := all[packedField]
	var inner map[string]string
	if !packed || json.Unmarshal([]byte(text), &inner) != nil {
		return fields
	}
	delete(all, packedField)
	return append(wire.FieldList(inner), wire.FieldList(all)...)
}

// scan reads the timer of an event about one, if it stands there as the engine writes it.
func (m *Message) scan() bool {
	if t := m.Event.Type; t != event.TimerScheduled && t != event.TimerCancelled {
		return false
	}
	t, ok := event.ScanTimer(m.Data())
	if ok {
		m.timer = &t
	}
	return ok
}

// MostFields is how many fields an entry may have: scripts take all of them at once, and Lua
// takes no more arguments.
const MostFields = 1000

// Fields that the store adds to entries, besides the attempt.
const (
	packedField       = "packed"       // all fields of an entry that has too many
	firstFailureField = "firstfailure" // of a delivery that was put off
	firstEntryField   = "firstentry"   // the entry that it was at first
)

// recall takes what deliveries before this one have left with the event.
func (m *Message) recall() {
	if m.Event.Ext == nil {
		return
	}
	if n, err := strconv.Atoi(m.Event.Ext[event.AttemptAttribute]); err == nil {
		m.Attempt = n
	}
	if n, err := strconv.Atoi(m.Event.Ext[event.ReplayAttribute]); err == nil {
		m.Replay = n
	}
	for _, name := range []string{event.AttemptAttribute, event.ReplayAttribute, firstFailureField, firstEntryField} {
		delete(m.Event.Ext, name)
	}
	if len(m.Event.Ext) == 0 {
		m.Event.Ext = nil
	}
}

// field finds a field of the entry.
func (m Message) field(name string) (value string) {
	fields := m.Fields()
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			value = fields[i+1]
		}
	}
	return value
}

// Postponed returns the fields with which the message is delivered again, put off at a moment.
func (m Message) Postponed(now time.Time) map[string]string {
	fields := wire.FieldMap(m.Fields())
	fields[event.AttemptAttribute] = strconv.Itoa(m.Attempt + 1)
	if fields[firstFailureField] == "" {
		fields[firstFailureField] = now.Format(time.RFC3339Nano)
	}
	if fields[firstEntryField] == "" {
		fields[firstEntryField] = m.ID
	}
	return fields
}

// sent are the fields as they were sent, without what the store has added to
// put them off.
func (m Message) sent() []string {
	fields := m.Fields()
	out := make([]string, 0, len(fields))
	for i := 0; i+1 < len(fields); i += 2 {
		switch name := fields[i]; name {
		case event.AttemptAttribute, firstFailureField, firstEntryField:
		default:
			out = append(out, name, fields[i+1])
		}
	}
	return out
}

// IDTime is when the entry of a stream with an id was written.
func IDTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Order is the moment at which the message asked for a timer, in digits that compare as
// strings do: that of the entry which its event was at first. For a replayed dead letter that
// entry is unknown, and the event's own time stands for it.
func (m Message) Order() string {
	entry := m.ID
	if m.Attempt > 0 {
		entry = cmp.Or(m.field(firstEntryField), entry)
	}
	ms, seq, _ := strings.Cut(entry, "-")
	if at := m.Event.Time.UnixMilli(); m.Replay > 0 && at > 0 {
		ms, seq = strconv.FormatInt(at, 10), ""
	}
	return digits(ms) + digits(seq)
}

// digits pads a number to 20 digits.
func digits(n string) string { return strings.Repeat("0", max(20-len(n), 0)) + n }
