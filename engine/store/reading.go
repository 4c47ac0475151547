package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// reading is what a reader is given at once, in the memory of a reading before.
type reading struct {
	roundTrip

	reader Reader
	room   room // of the reply
	ahead  room // of what is shown
	count  int
	in     reply
	entry  rawEntry
	few    [fewSpans]span // of the entry
	now    time.Time
	out    []Message
}

func (s *Store) reading(r Reader) *reading {
	q, ok := s.memory.readings.Get().(*reading)
	if !ok {
		q = &reading{}
		q.entry.fields = q.few[:0]
	}
	q.store, q.reader = s, r
	return q
}

// end gives the memory of a reading back, but for the messages.
func (q *reading) end() {
	clear(q.entry.named)
	q.reader, q.in, q.out = Reader{}, reply{}, nil
	if memory := q.store.memory; q.forget() && q.room.empty() && q.ahead.empty() {
		memory.readings.Put(q)
	}
}

// acknowledge acknowledges what is spent, on the way.
func (q *reading) acknowledge(ctx context.Context) {
	for rest := q.reader.Spent; len(rest) > 0; {
		tenant := rest[0].Tenant
		from := len(q.args)
		q.args = append(q.args, "xack", &q.store.home(tenant).stream, &q.reader.Group)
		for len(rest) > 0 && rest[0].Tenant == tenant {
			q.args = append(q.args, &rest[0].ID)
			rest = rest[1:]
		}
		q.add(redis.NewIntCmd(ctx, q.args[from:len(q.args):len(q.args)]...))
	}
}

// ask has the streams read, if there are any.
func (q *reading) ask(ctx context.Context, a ask) {
	if len(q.reader.Tenants) == 0 {
		return
	}
	from := len(q.args)
	q.args = append(q.args, "xreadgroup", "group", &q.reader.Group, &q.reader.Consumer, "count", a.count)
	if a.block > 0 {
		q.args = append(q.args, "block", min(a.block, q.store.block).Milliseconds())
	}
	q.args = append(q.args, "streams")
	for _, tenant := range q.reader.Tenants {
		q.args = append(q.args, &q.store.home(tenant).stream)
	}
	for range q.reader.Tenants {
		q.args = append(q.args, ">")
	}
	q.count = a.count
	q.into(ctx, &q.room, from)
}

// into adds the command of which the arguments begin there, with room for its reply.
func (q *reading) into(ctx context.Context, in *room, from int) {
	args := q.args[from:len(q.args):len(q.args)]
	if q.reader.Often {
		in.leave(q.reader.Wants)
		q.add(in.waiting(ctx, args))
	} else {
		q.add(in.prompt(ctx, args))
	}
}

// show has the reader shown what it is to be shown, if anything.
func (q *reading) show(ctx context.Context, p *preview) {
	if p == nil {
		return
	}
	from := len(q.args)
	q.args = append(q.args, "xrange", &q.store.home(p.spot.tenant).stream, &p.after, "+", "count", p.count)
	q.into(ctx, &q.ahead, from)
}

// shown takes in what the reader was shown. Why it was not, a read will say.
func (q *reading) shown(p *preview, now time.Time) {
	if p == nil {
		return
	}
	q.in, q.now = reply{text: q.ahead.reply()}, now
	n := 0
	if len(q.in.text) > 0 && refusal(q.in.text) == "" {
		n = max(q.in.list(), 0)
	}
	if len(q.ahead.left.out) > 0 { // the group reads it
		n = 0
	}
	first, last := q.stream(p.spot, n, true)
	if q.in.bad {
		n = 0
	}
	loan := q.store.lending.end(p, first, last, n)
	if loan == nil {
		q.out = nil
		return
	}
	q.reader.found(p.spot.tenant, n)
	q.reader.Notes.Loan = loan
	for i := range q.out {
		q.out[i].loan = loan
	}
}

// delivered reads the reply of XREADGROUP.
func (q *reading) delivered(now time.Time) ([]Message, error) {
	q.in, q.now = reply{text: q.room.reply()}, now
	asked := streamsOf{store: q.store, tenants: q.reader.Tenants}
	for streams := q.in.streams(); streams > 0; streams-- {
		name, n := q.in.stream()
		at := spot{asked.tenant(q.in.of(name)), q.reader.Group}
		q.reader.found(at.tenant, n)
		if _, last := q.stream(at, n, false); last != "" {
			q.store.passages.given(at, last)
			q.full(at, n, last)
		}
	}
	if q.in.bad {
		return nil, errReply
	}
	return q.out, nil
}

// full notes that there is more of a stream, and that it is the only one.
func (q *reading) full(at spot, entries int, last string) {
	if r := &q.reader; r.Lend && r.Notes != nil && len(r.Notes.Found) == 1 && entries == q.count {
		q.store.lending.full(at, last)
	}
}

// stream reads the entries of one of the streams, which may be shown only. The last is
// empty if they cannot be read.
func (q *reading) stream(at spot, entries int, shown bool) (first, last string) {
	tenant := at.tenant
	others, id, before := q.store.passages.begin(at, entries), "", ""
	in := &q.room
	if shown {
		in = &q.ahead
	}
	if len(in.left.out) > 0 {
		others = nil // the others read it
	}
	for left := entries; left > 0; left-- {
		if q.in.entry(&q.entry); q.in.bad {
			return "", ""
		}
		if id = q.entry.identifier(); first == "" {
			first = id
		}
		typ := event.TypeOf(q.entry.field("type"))
		others.entry(id, &q.entry, typ)
		if !q.reader.wants(typ) {
			if !shown {
				q.reader.pass(Spent{tenant, id}, left)
			}
			before = ""
			continue
		}
		if len(q.out) == cap(q.out) {
			q.out = slices.Grow(q.out, (left+1)/2) // about so many of them are wanted
		}
		q.out = append(q.out, Message{Tenant: tenant, Read: q.now, after: before})
		m := &q.out[len(q.out)-1]
		switch left := in.omitted(&q.entry); {
		case left == 0:
			q.store.entered(m, &q.reader, &q.entry)
		case left > mostValue:
			q.store.entered(m, &q.reader, &q.entry)
			m.Err = errValue(left)
		default:
			*m = Message{Tenant: tenant, Group: q.reader.Group, Consumer: q.reader.Consumer, ID: id, Read: q.now, late: true}
		}
		before = m.ID
		if m.late {
			before = ""
		}
	}
	others.end()
	return first, id
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
		if o.store.home(tenant).stream == string(name) {
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
