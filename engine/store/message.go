package store

import (
	"cmp"
	"encoding/json"
	"errors"
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

	fields  []string        // of the entry …
	text    string          // … or their text: few are asked for them
	data    string          // of the event, as it stands in that text
	timer   *event.Timer    // that the data is, if it stands there as the engine writes it
	packed  func() []string // the fields, if there are too many
	omitted bool            // nothing is known of it but its id
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

// compareIDs says which of two entries of a stream comes first.
func compareIDs(a, b string) int {
	ms, number, _ := strings.Cut(a, "-")
	otherMS, otherNumber, _ := strings.Cut(b, "-")
	return cmp.Or(
		cmp.Compare(len(ms), len(otherMS)), cmp.Compare(ms, otherMS),
		cmp.Compare(len(number), len(otherNumber)), cmp.Compare(number, otherNumber),
	)
}

// idTime is when an entry was written.
func idTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// lookedAt is how many pending entries are looked at to find n at once: those of
// them that are being worked on lie between.
func lookedAt(n int) int {
	if n == 1 {
		return 2 // one more than there can be
	}
	return 2*n + 16
}
