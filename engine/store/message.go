package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
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

	fields  []string     // of the entry …
	text    string       // … or their text: few are asked for them
	data    string       // of the event, as it stands in that text
	timer   *event.Timer // that the data is, if it stands there as the engine writes it
	omitted bool         // nothing is known of it but its id
}

// Timer is the timer that its data is, as the engine writes one; nil if it is none, or
// is written in another way.
func (m *Message) Timer() *event.Timer { return m.timer }

// Fields are those of the entry as it stands, in the order of their names.
func (m Message) Fields() []string {
	if m.fields == nil && m.text != "" {
		return fieldsOf(m.text)
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
func (m Message) Entered() time.Time { return idTime(m.ID) }

// FailureEvent is the event that tells the worker of a delivery given up.
func (m Message) FailureEvent(typ event.Type, dead event.Dead) event.Event {
	dead.Original = event.Encode(object(m.sent()))
	return event.Event{
		ID: m.Event.ID + "/dead", Source: "/flunq/" + dead.Service, Type: typ, Time: m.Read, Tenant: m.Tenant,
		Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task, Data: event.Encode(dead),
	}
}

// entered makes of m the message that an entry is. Its fields are made again when
// somebody asks for them.
func (s *Store) entered(m *Message, r *Reader, entry *rawEntry) {
	fields, id, text := entry.texts()
	if len(fields)/2 > mostFields {
		*m = s.message(*r, m.Tenant, id, sortFields(fields), m.Read)
		return
	}
	m.Group, m.Consumer, m.ID, m.text = r.Group, r.Consumer, id, text
	if s.sealer == nil {
		m.data = dataOf(fields)
	}
	s.understand(m, fields)
}

// dataOf is the field of an event's data.
func dataOf(fields []string) (data string) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "data" {
			data = fields[i+1]
		}
	}
	return data
}

// message reads an entry of these fields, in the order of their names. One that is
// no event comes with the reason.
func (s *Store) message(r Reader, tenant, id string, fields []string, now time.Time) Message {
	m := Message{Tenant: tenant, Group: r.Group, Consumer: r.Consumer, ID: id, fields: fields, Read: now}
	s.understand(&m, fields)
	if n := len(fields) / 2; n > mostFields {
		m.Err = fmt.Errorf("the entry has %d fields, more than %d", n, mostFields)
		m.Event.Ext = nil
		// No script takes that many arguments: from here on they are one field.
		m.fields = []string{packedField, string(event.Encode(object(fields)))}
	}
	return m
}

// understand reads the event of an entry; of fields of one name the last one counts.
func (s *Store) understand(m *Message, fields []string) {
	if m.Event, m.Err = s.attributes(fields); m.Err == nil && !m.scan() {
		m.Err = checkData(&m.Event)
	}
	m.Event.Tenant = m.Tenant // whatever the sender says
	m.recall()
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

// mostFields is how many fields an entry may have: scripts take them all at once,
// and Lua has an end.
const mostFields = 1000

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

// object is a list of fields by their names.
func object(fields []string) map[string]string {
	out := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		out[fields[i]] = fields[i+1]
	}
	return out
}

// listed is the list of fields of an object, in the order of their names.
func listed(fields map[string]string) []string {
	out := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, name, fields[name])
	}
	return out
}

func (s *Store) decode(fields []string) (event.Event, error) {
	e, err := s.attributes(fields)
	if err == nil {
		err = checkData(&e)
	}
	return e, err
}

// attributes reads an event, whatever its data is.
func (s *Store) attributes(fields []string) (event.Event, error) {
	e, err := event.FromFields(fields)
	s.sealer.unsealEvent(&e)
	return e, err //nolint:wrapcheck // it says which attribute
}

// checkData is what is wrong with the data of an event.
func checkData(e *event.Event) error {
	if strings.HasPrefix(string(e.Type), event.Prefix) && len(e.Data) > 0 && !json.Valid(e.Data) {
		return errors.New("its data is not JSON")
	}
	return nil
}

// fields are the fields of an event's entry, with its secrets sealed.
func (s *Store) fields(e event.Event) []string {
	return s.sealer.sealEvent(e).Fields()
}
