package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// reading is what a reader is given at once, in the memory of a reading before.
type reading struct {
	roundTrip

	reader Reader
	buffer replyBuffer // of the reply
	in     reply
	entry  rawEntry
	few    [fewSpans]span // of the entry
	now    time.Time
	out    []Message
}

func (s Streams) reading(r Reader) *reading {
	q, ok := s.store.memory.readings.Get().(*reading)
	if !ok {
		q = &reading{}
		q.entry.fields = q.few[:0]
	}
	q.store, q.reader = s.store, r
	return q
}

// end gives the memory of a reading back, but for the messages.
func (q *reading) end() {
	clear(q.entry.named)
	q.reader, q.in, q.out = Reader{}, reply{}, nil
	if memory := q.store.memory; q.forget() && q.buffer.empty() {
		memory.readings.Put(q)
	}
}

// acknowledge adds XACK commands for the handled messages.
func (q *reading) acknowledge(ctx context.Context) {
	for rest := q.reader.Handled; len(rest) > 0; {
		tenant := rest[0].Tenant
		from := len(q.args)
		q.args = append(q.args, "xack", &q.store.keysFor(tenant).stream, &q.reader.Group)
		for len(rest) > 0 && rest[0].Tenant == tenant {
			q.args = append(q.args, &rest[0].ID)
			rest = rest[1:]
		}
		q.add(redis.NewIntCmd(ctx, q.args[from:len(q.args):len(q.args)]...))
	}
}

// ask has up to count entries read of each stream, if there are any streams, waiting up to
// block for the first.
func (q *reading) ask(ctx context.Context, count int, block time.Duration) {
	if len(q.reader.Tenants) == 0 {
		return
	}
	from := len(q.args)
	q.args = append(q.args, "xreadgroup", "group", &q.reader.Group, &q.reader.Consumer, "count", count)
	if block > 0 {
		q.args = append(q.args, "block", min(block, q.store.block).Milliseconds())
	}
	q.args = append(q.args, "streams")
	for _, tenant := range q.reader.Tenants {
		q.args = append(q.args, &q.store.keysFor(tenant).stream)
	}
	for range q.reader.Tenants {
		q.args = append(q.args, ">")
	}
	args := q.args[from:len(q.args):len(q.args)]
	if q.reader.Often {
		q.buffer.leave(q.reader.Wants)
		q.add(q.buffer.waiting(ctx, args))
	} else {
		q.add(q.buffer.prompt(ctx, args))
	}
}

// delivered reads the reply of XREADGROUP.
func (q *reading) delivered(now time.Time) ([]Message, error) {
	q.in, q.now = reply{text: q.buffer.reply()}, now
	if q.reader.Notes != nil {
		q.reader.Notes.Bytes = len(q.in.text)
	}
	asked := streamsOf{store: q.store, tenants: q.reader.Tenants}
	for streams := q.in.streams(); streams > 0; streams-- {
		name, n := q.in.stream()
		tenant := asked.tenant(q.in.of(name))
		q.reader.found(tenant, n)
		q.stream(tenant, n)
	}
	if q.in.bad {
		return nil, errReply
	}
	return q.out, nil
}

// stream reads the entries of one of the streams.
func (q *reading) stream(tenant string, entries int) {
	for left := entries; left > 0; left-- {
		if q.in.entry(&q.entry); q.in.bad {
			return
		}
		if !q.reader.wants(event.TypeOf(q.entry.field("type"))) {
			q.reader.pass(Handled{tenant, q.entry.identifier()}, left)
			continue
		}
		if len(q.out) == cap(q.out) {
			q.out = slices.Grow(q.out, (left+1)/2) // about half of them are wanted
		}
		q.out = append(q.out, Message{Tenant: tenant, Read: q.now})
		m := &q.out[len(q.out)-1]
		switch omitted := q.buffer.omitted(&q.entry); {
		case omitted == 0:
			NewStreams(q.store).entered(m, &q.reader, &q.entry)
		case omitted > mostValue:
			NewStreams(q.store).entered(m, &q.reader, &q.entry)
			m.Err = errValue(omitted)
		default:
			*m = Message{
				Tenant: tenant, Group: q.reader.Group, Consumer: q.reader.Consumer, ID: q.entry.identifier(), Read: q.now, omitted: true,
			}
		}
	}
}

// streamsOf finds out whose streams a reply names. Redis names them in the order in
// which they were asked for, so that all of them together are one walk.
type streamsOf struct {
	store   *Store
	tenants []string
	at      int
}

// tenant is whose stream has a name; "" if none of them has it.
func (o *streamsOf) tenant(name []byte) string {
	for range o.tenants {
		tenant := o.tenants[o.at]
		o.at = (o.at + 1) % len(o.tenants)
		if o.store.keysFor(tenant).stream == string(name) {
			return tenant
		}
	}
	return ""
}

// refusal is the error that a reply is; "" if it is none.
func refusal(text []byte) string {
	if len(text) == 0 || text[0] != '-' {
		return ""
	}
	return strings.TrimSpace(string(text[1:]))
}

// Load reads omitted messages as far as there is memory for them, and returns the rest in
// left. Messages that are gone from the stream are handled.
func (s Streams) Load(ctx context.Context, r Reader, omitted []Message) (msgs, left []Message, handled []Handled, now time.Time, err error) {
	if now, err = s.store.Now(ctx); err != nil {
		return nil, omitted, nil, now, err
	}
	for size := 0; len(omitted) > 0 && size < largeBudget; omitted = omitted[1:] {
		m := omitted[0]
		text, err := s.loadInto(ctx, &r, &m, now)
		if err != nil {
			return msgs, omitted, handled, now, err
		}
		if text == 0 {
			handled = append(handled, Handled{m.Tenant, m.ID})
			continue
		}
		size += text
		msgs = append(msgs, m)
	}
	return msgs, omitted, handled, now, nil
}

// loadInto reads one late message, and returns how long it is; 0 if it is gone.
func (s Streams) loadInto(ctx context.Context, r *Reader, m *Message, now time.Time) (int, error) {
	in := s.store.memory.bufferPool.take()
	defer s.store.memory.bufferPool.back(in)
	read := in.prompt(ctx, []any{"xrange", &s.store.keysFor(m.Tenant).stream, &m.ID, &m.ID})
	if err := s.store.rdb.Process(ctx, read); err != nil {
		return 0, failed("read an entry", err)
	}
	reply := reply{text: in.reply()}
	if why := refusal(reply.text); why != "" || reply.list() < 1 {
		return 0, nil // a read of the stream says what is wrong
	}
	var few [fewSpans]span
	entry := rawEntry{fields: few[:0]}
	if reply.entry(&entry); reply.bad {
		return 0, failed("read an entry", errReply)
	}
	*m = Message{Tenant: m.Tenant, Read: now}
	s.entered(m, r, &entry)
	return len(reply.text), nil
}

// entered makes of m the message that an entry is. Its fields are made again when
// somebody asks for them.
func (s Streams) entered(m *Message, r *Reader, entry *rawEntry) {
	fields, id, text := entry.texts()
	m.Group, m.Consumer, m.ID, m.text = r.Group, r.Consumer, id, text
	if n := len(fields) / 2; n > mostFields {
		s.understand(m, fields)
		m.refuse(n)
		// Only the service that gives the entry up needs its fields.
		m.packed = sync.OnceValue(func() []string { return pack(object(fieldsAsSent(text))) })
		return
	}
	if s.store.sealer == nil {
		m.data = dataOf(fields)
	}
	s.understand(m, fields)
}

// message reads an entry of these fields, in the order of their names. One that is
// no event comes with the reason.
func (s Streams) message(r Reader, tenant, id string, fields []string, now time.Time) Message {
	m := Message{Tenant: tenant, Group: r.Group, Consumer: r.Consumer, ID: id, fields: fields, Read: now}
	s.understand(&m, fields)
	if n := len(fields) / 2; n > mostFields {
		m.refuse(n)
		m.fields = pack(object(fields))
	}
	return m
}

// refuse notes that the entry has n fields, too many to be an event.
func (m *Message) refuse(n int) {
	m.Err = fmt.Errorf("the entry has %d fields, more than %d (limit event-fields)", n, mostFields)
	m.Event.Ext = nil
}

// pack returns fields as one field: no script takes that many arguments.
func pack(fields map[string]string) []string {
	return []string{packedField, string(event.Encode(fields))}
}

// understand reads the event of an entry; of fields of one name the last one counts.
func (s Streams) understand(m *Message, fields []string) {
	if m.Event, m.Err = s.store.attributes(fields); m.Err == nil && !m.scan() {
		m.Err = checkData(&m.Event)
	}
	m.Event.Tenant = m.Tenant // whatever the sender says
	m.recall()
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
