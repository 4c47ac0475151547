package stream

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// reading is one round trip of a reader.
type reading struct {
	store  *store.Store
	reader Reader
	trip   *wire.Trip
	buffer *wire.Buffer // of the reply
	now    time.Time
	out    []store.Message
}

func (s Streams) reading(r Reader) *reading {
	return &reading{store: s.store, reader: r, trip: s.rdb.Trip(), buffer: s.rdb.Buffer()}
}

// end returns the buffers of the reading to their pool. The messages remain valid.
func (r *reading) end() {
	r.trip.End()
	r.store.Redis().Return(r.buffer)
}

// acknowledge adds XACK commands for the handled messages.
func (r *reading) acknowledge(ctx context.Context) {
	for rest := r.reader.Handled; len(rest) > 0; {
		tenant := rest[0].Tenant
		r.trip.Arg("xack", &r.store.TenantKeys(tenant).Stream, &r.reader.Group)
		for len(rest) > 0 && rest[0].Tenant == tenant {
			r.trip.Arg(&rest[0].ID)
			rest = rest[1:]
		}
		r.trip.Add(redis.NewIntCmd(ctx, r.trip.Args()...))
	}
}

// readGroup adds an XREADGROUP of up to count entries of each tenant's stream. It waits up to block
// for the first entry.
func (r *reading) readGroup(ctx context.Context, into *wire.Buffer, count int, block time.Duration, tenants []string) redis.Cmder {
	r.trip.Arg("xreadgroup", "group", &r.reader.Group, &r.reader.Consumer, "count", count)
	if block > 0 {
		r.trip.Arg("block", min(block, r.store.MaxBlock()).Milliseconds())
	}
	r.trip.Arg("streams")
	for _, tenant := range tenants {
		r.trip.Arg(&r.store.TenantKeys(tenant).Stream)
	}
	for range tenants {
		r.trip.Arg(">")
	}
	var read redis.Cmder
	if r.reader.Continuous {
		read = into.StreamCmd(ctx, r.trip.Args(), r.reader.wants)
	} else {
		read = into.Cmd(ctx, r.trip.Args())
	}
	r.trip.Add(read)
	return read
}

// delivered reads the reply to XREADGROUP, and returns how many entries it holds.
func (r *reading) delivered(now time.Time) (entries int, err error) {
	r.now = now
	reply := r.buffer.Reply()
	asked := streamsOf{store: r.store, tenants: r.reader.Tenants}
	for streams := reply.Streams(); streams > 0; streams-- {
		name, n := reply.Stream()
		tenant := asked.tenant(name)
		from := reply.Position()
		r.stream(&reply, tenant, n)
		r.reader.addFound(tenant, n, reply.Position()-from)
		entries += n
	}
	if reply.Bad() {
		return 0, wire.ErrReply
	}
	return entries, nil
}

// stream reads the entries of one of the streams.
func (r *reading) stream(reply *wire.Reply, tenant string, entries int) {
	entry := r.buffer.Entry()
	for left := entries; left > 0; left-- {
		if reply.Entry(entry); reply.Bad() {
			return
		}
		if !r.reader.wants(entry.Field("type")) {
			r.reader.addUnwanted(Handled{tenant, entry.ID()}, left)
			continue
		}
		if len(r.out) == cap(r.out) {
			r.out = slices.Grow(r.out, (left+1)/2) // about half of them are wanted
		}
		r.out = append(r.out, store.Message{Tenant: tenant, Group: r.reader.Group, Consumer: r.reader.Consumer, Read: r.now})
		m := &r.out[len(r.out)-1]
		switch skipped := r.buffer.Skipped(entry); {
		case skipped == 0:
			r.store.ReadEntry(m, entry)
		case skipped > wire.MaxValue:
			r.store.ReadEntry(m, entry)
			m.Err = wire.TooLarge(skipped)
		default:
			m.ID, m.Omitted = entry.ID(), true
		}
	}
}

// streamsOf maps the stream keys of a reply to tenants. Redis returns streams in the order of the
// command, so one pass over the tenants finds all of them.
type streamsOf struct {
	store   *store.Store
	tenants []string
	at      int
}

// tenant returns the tenant whose stream has a name; "" if there is none.
func (o *streamsOf) tenant(name []byte) string {
	for range o.tenants {
		tenant := o.tenants[o.at]
		o.at = (o.at + 1) % len(o.tenants)
		if o.store.TenantKeys(tenant).Stream == string(name) {
			return tenant
		}
	}
	return ""
}

// Load reads omitted messages up to wire.LargeBudget bytes and returns the rest in left. It returns
// messages that are no longer in the stream in handled.
func (s Streams) Load(ctx context.Context, r Reader, omitted []store.Message) (msgs, left []store.Message, handled []Handled, now time.Time, err error) {
	if len(omitted) == 0 {
		return nil, nil, nil, now, nil
	}
	if now, err = s.store.NowOf(ctx, omitted[0].Tenant); err != nil {
		return nil, omitted, nil, now, err
	}
	for size := 0; len(omitted) > 0 && size < wire.LargeBudget; omitted = omitted[1:] {
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

// loadInto reads one omitted message and returns the length of its entry, or 0 if it is gone.
func (s Streams) loadInto(ctx context.Context, r *Reader, m *store.Message, now time.Time) (int, error) {
	buffer := s.rdb.Buffer()
	defer s.rdb.Return(buffer)
	read := buffer.Cmd(ctx, []any{"xrange", &s.store.TenantKeys(m.Tenant).Stream, &m.ID, &m.ID})
	if err := s.rdb.Process(ctx, read); err != nil {
		return 0, store.Failed("read an entry", err)
	}
	reply := buffer.Reply()
	if reply.Refusal() != "" || reply.List() < 1 {
		return 0, nil // the next read of the stream reports the error
	}
	entry := buffer.Entry()
	if reply.Entry(entry); reply.Bad() {
		return 0, store.Failed("read an entry", wire.ErrReply)
	}
	*m = store.Message{Tenant: m.Tenant, Group: r.Group, Consumer: r.Consumer, Read: now}
	s.store.ReadEntry(m, entry)
	return reply.Len(), nil
}
