package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Codec writes events as the fields of stream entries, and reads them. It seals secrets when it
// writes, and restores them when it reads.
type Codec struct {
	sealer *Sealer
}

// Fields returns the fields of an event's entry, with secrets sealed.
func (c *Codec) Fields(e event.Event) []string {
	return c.sealer.sealEvent(e).Fields()
}

// AppendEvent appends an event in the form that event.lua reads. In a history the event has a task,
// which may be empty.
func (c *Codec) AppendEvent(args []any, e *event.Event, tenant string, history bool) []any {
	if plainAttributes(e, tenant) && len(e.Ext) == 0 && (history || e.Task != "") {
		return append(args, "", c.sealer.text(e.ID), c.sealer.text(e.Source), string(e.Type), e.Time.UTC().Format(time.RFC3339Nano),
			e.Workflow, e.Execution, e.Task, c.sealer.Seal(e.Data))
	}
	return c.AppendFields(args, *e)
}

// AppendFields appends an event as the number of its field names and values, and these.
func (c *Codec) AppendFields(args []any, e event.Event) []any {
	fields := wire.Args(c.Fields(e))
	return append(append(args, len(fields)), fields...)
}

// plainAttributes reports whether an event has only the usual attributes.
func plainAttributes(e *event.Event, tenant string) bool {
	return e.Tenant == tenant && e.Execution != "" && e.Workflow != "" && e.ID != "" && e.Source != "" && e.Type != "" &&
		!e.Time.IsZero() && len(e.Data) > 0
}

// eventArguments is the number of arguments of a usual event.
const eventArguments = 9

// SealText replaces secrets in JSON text with tokens.
func (c *Codec) SealText(text string) string {
	if c.sealer == nil {
		return text
	}
	return string(c.sealer.Seal([]byte(text)))
}

// ReadEntry fills in m from its entry. The caller has set the tenant, group, consumer and time.
func (c *Codec) ReadEntry(m *Message, entry *wire.Entry) {
	m.ID = entry.ID()
	c.ReadFields(m, entry.Fields())
}

// ReadFields fills in m, whose id must also be set, from the fields of its entry.
func (c *Codec) ReadFields(m *Message, fields []string) {
	m.fields = fields
	m.Event, m.Err = c.Decode(fields)
	m.Event.Tenant = m.Tenant  // whatever the sender says
	if m.Event.Time.IsZero() { // CloudEvents may have no time
		m.Event.Time = IDTime(cmp.Or(m.Event.Ext[event.FirstEntryAttribute], m.ID))
	}
	m.recall()
	if len(fields)/2 > MaxFields {
		m.refuse()
	}
}

// Decode reads an event from the fields of an entry. If a field is repeated, the last one counts. With an
// error it returns what is readable.
func (c *Codec) Decode(fields []string) (event.Event, error) {
	e, err := c.Attributes(fields)
	if err == nil && strings.HasPrefix(string(e.Type), event.Prefix) && len(e.Data) > 0 && !json.Valid(e.Data) {
		err = fmt.Errorf("the data is %w", event.Readable(json.Unmarshal(e.Data, new(json.RawMessage))))
	}
	return e, err
}

// Attributes reads an event as Decode does, without checking its data.
func (c *Codec) Attributes(fields []string) (event.Event, error) {
	e, err := event.FromFields(fields)
	c.sealer.unsealEvent(&e)
	return e, err
}

// AnyEvent reads the event of an entry, even if some other program has written it as JSON in a
// single field.
func (c *Codec) AnyEvent(e Entry) (event.Event, error) {
	fields := wire.FieldMap(e.Fields)
	if fields["type"] == "" {
		for _, name := range []string{"event", "data", "payload"} {
			if inner := FieldsOfJSON([]byte(fields[name])); inner["type"] != "" {
				fields = inner
				break
			}
		}
	}
	return c.Attributes(wire.FieldList(fields))
}

// history reads the events in the reply to a historyCmd.
func (c *Codec) history(id string, buffer *wire.Buffer) ([]event.Event, error) {
	reply := buffer.Reply()
	if err := reply.Err(); err != nil {
		return nil, Failed("read the history of "+id, err)
	}
	n := max(reply.List(), 0)
	out := make([]event.Event, 0, n)
	entry := buffer.Entry()
	for range n {
		if reply.Entry(entry); reply.Bad() {
			break
		}
		e, err := c.Decode(entry.Fields())
		if err != nil {
			return nil, fmt.Errorf("history of execution %s, entry %s: %w", id, entry.ID(), err)
		}
		out = append(out, e)
	}
	if reply.Bad() {
		return nil, Failed("read the history of "+id, wire.ErrReply)
	}
	return out, nil
}

// Unseal replaces tokens with their secrets; nil stands for "".
func (c *Codec) Unseal(text string) []byte {
	if text == "" {
		return nil
	}
	return c.sealer.Unseal([]byte(text))
}
