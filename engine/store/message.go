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

// Message is a stream entry that was delivered to a consumer.
type Message struct {
	Tenant, Group, Consumer string
	ID                      string
	Event                   event.Event
	Err                     error     // why the entry is not a valid event; nil if it is
	Attempt                 int       // number of failed deliveries so far
	Claimed                 bool      // it was claimed after being idle for a lease
	Crashes                 int       // number of consumers known to have died with it
	Replay                  int       // number of replays from the dead letters
	Read                    time.Time // time of the delivery, by Redis' clock
	Omitted                 bool      // only the id was read: the values are too large to be read with others

	fields []string // names and values of the entry; packed into one if there are more than MaxFields
}

// Fields returns the names and values of the entry, in the order of the names.
func (m Message) Fields() []string { return wire.FieldList(wire.FieldMap(m.fields)) }

// Same reports whether both messages are the same entry of the same stream.
func (m Message) Same(other Message) bool { return m.ID == other.ID && m.Tenant == other.Tenant }

// Entered returns when the entry was appended, by Redis' clock.
func (m Message) Entered() time.Time { return IDTime(m.ID) }

// FailureEvent returns the event that informs the worker that a message was dead-lettered.
func (m Message) FailureEvent(typ event.Type, dead event.Dead) event.Event {
	dead.Original = event.Encode(wire.FieldMap(m.sent()))
	return event.Event{
		ID: m.Event.ID + "/dead", Source: "/flunq/" + dead.Service, Type: typ, Time: m.Read, Tenant: m.Tenant,
		Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task, Data: event.Encode(dead),
	}
}

// refuse records that the entry has too many fields for an event. It packs them into one, since a
// script cannot take that many arguments.
func (m *Message) refuse() {
	m.Err = fmt.Errorf("the entry has %d fields, more than %d (limit event-fields)", len(m.fields)/2, MaxFields)
	m.Event.Ext = nil
	m.fields = []string{event.PackedAttribute, string(event.Encode(wire.FieldMap(m.fields)))}
}

// Unpack returns the fields of an entry that were packed into one. Fields that are not packed are
// returned unchanged.
func Unpack(fields []string) []string {
	all := wire.FieldMap(fields)
	text, packed := all[event.PackedAttribute]
	var inner map[string]string
	if !packed || json.Unmarshal([]byte(text), &inner) != nil {
		return fields
	}
	delete(all, event.PackedAttribute)
	return append(wire.FieldList(inner), wire.FieldList(all)...)
}

// MaxFields is the maximum number of fields of an entry: scripts take all of them in one call, and
// Lua's unpack is limited.
const MaxFields = 1000

// recall reads the fields that earlier deliveries have stored in the entry.
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
	for _, name := range []string{event.AttemptAttribute, event.ReplayAttribute, event.FirstFailureAttribute, event.FirstEntryAttribute} {
		delete(m.Event.Ext, name)
	}
	if len(m.Event.Ext) == 0 {
		m.Event.Ext = nil
	}
}

// Postponed returns the fields of the entry with which the message is redelivered later.
func (m Message) Postponed(now time.Time) map[string]string {
	fields := wire.FieldMap(m.fields)
	fields[event.AttemptAttribute] = strconv.Itoa(m.Attempt + 1)
	if fields[event.FirstFailureAttribute] == "" {
		fields[event.FirstFailureAttribute] = now.Format(time.RFC3339Nano)
	}
	if fields[event.FirstEntryAttribute] == "" {
		fields[event.FirstEntryAttribute] = m.ID
	}
	return fields
}

// sent returns the fields as they were sent, without those that Postponed added.
func (m Message) sent() []string {
	fields := wire.FieldMap(m.fields)
	for _, name := range []string{event.AttemptAttribute, event.FirstFailureAttribute, event.FirstEntryAttribute} {
		delete(fields, name)
	}
	return wire.FieldList(fields)
}

// IDTime returns when the entry with an id was appended.
func IDTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Order returns the time of a timer request, as digits that sort as strings: the time of the original
// entry or, for a replayed dead letter, whose original entry is unknown, that of the event.
func (m Message) Order() string {
	entry := m.ID
	if m.Attempt > 0 {
		entry = cmp.Or(wire.FieldMap(m.fields)[event.FirstEntryAttribute], entry)
	}
	ms, seq, _ := strings.Cut(entry, "-")
	if at := m.Event.Time.UnixMilli(); m.Replay > 0 && at > 0 {
		ms, seq = strconv.FormatInt(at, 10), ""
	}
	return digits(ms) + digits(seq)
}

// digits pads a number to 20 digits.
func digits(n string) string { return strings.Repeat("0", max(20-len(n), 0)) + n }
