package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Reader is a consumer of a group that reads the streams of tenants.
type Reader struct {
	Group, Consumer string
	Tenants         []string

	// Wants reports which events become messages; nil: all.
	Wants func(event.Type) bool
	// Handled are acknowledged in the same round trip.
	Handled []Handled
	// SkipQuiet leaves out tenants whose streams the group has read completely, until a wire.Tracker
	// reports that there is more, a moment after it is written. Only a cluster needs it.
	SkipQuiet bool
	// Continuous is set by a reader that reads in a loop from a real connection.
	Continuous bool
}

// wants reports whether an entry becomes a message, given its field "type". An entry without a type
// does.
func (r *Reader) wants(typ []byte) bool {
	t := event.Type(typ)
	return r.Wants == nil || t == "" || r.Wants(t)
}

// Result is what a read has delivered.
type Result struct {
	Messages []store.Message
	Unwanted []Handled // events that the reader does not want
	Found    []Found   // for each tenant with entries, in order
	Now      time.Time // Redis' time after the read
}

// Found counts the events of all types that were read for a tenant.
type Found struct {
	Tenant string
	Events int
	Bytes  int // of their entries as Redis sent them
}

// Handled is an entry to be acknowledged.
type Handled struct{ Tenant, ID string }

// Read acknowledges handled entries and delivers new ones, up to count for each tenant, in one round trip.
// It blocks for up to block until there is one; with 0 it does not block.
func (s Streams) Read(ctx context.Context, r Reader, count int, block time.Duration) (Result, error) {
	for _, tenant := range r.Tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return Result{}, err
		}
	}
	if s.keys.Clustered() {
		return s.readSlots(ctx, r, count, block)
	}
	for made := false; ; made = true {
		q := s.reading(r)
		q.acknowledge(ctx)
		if len(r.Tenants) > 0 {
			q.readGroup(ctx, q.buffer, count, block, r.Tenants)
		}
		clock := q.pipe.Time(ctx)
		err := wire.ExceptNil(q.pipe.Exec(ctx))
		if err == nil {
			reply := q.buffer.Reply()
			q.Now, err = clock.Val().UTC(), s.refused(ctx, r, reply.Err())
		}
		if err == nil {
			_, err = q.decode(q.Now)
		}
		q.end()
		switch {
		case err == nil:
			return q.Result, nil
		case redis.HasErrorPrefix(err, "NOGROUP") && !made:
			// The group or the stream was removed. Executions recognise events that they
			// have handled, so reading from the beginning repeats nothing.
			for _, tenant := range r.Tenants {
				if err := s.makeGroup(ctx, tenant, r.Group); err != nil && store.Temporary(err) {
					return Result{Now: q.Now}, err
				}
			}
		case len(r.Tenants) > 1 && !store.Temporary(store.Failed("", err)):
			return s.readEach(ctx, r, count)
		default:
			return Result{Now: q.Now}, store.Failed("read the stream", err)
		}
	}
}

// readEach reads one tenant after the other so that a broken stream does not block the others. It
// returns an error only if it has read nothing.
func (s Streams) readEach(ctx context.Context, r Reader, count int) (all Result, err error) {
	for _, tenant := range r.Tenants {
		one := r
		one.Tenants = []string{tenant}
		got, otherErr := s.Read(ctx, one, count, 0)
		if otherErr != nil {
			err = errors.Join(err, fmt.Errorf("tenant %s: %w", tenant, otherErr))
			continue
		}
		all = Result{
			slices.Concat(all.Messages, got.Messages), slices.Concat(all.Unwanted, got.Unwanted), slices.Concat(all.Found, got.Found), got.Now,
		}
	}
	if len(all.Found) > 0 {
		err = nil
	}
	return all, err
}

// refused returns the error that Redis has replied to a read, if any. go-redis does not inspect raw
// replies, so a harmless command makes it see the same error and drop its connection to a Redis that is no
// longer the master.
func (s Streams) refused(ctx context.Context, r Reader, replied error) error {
	if replied != nil && !redis.HasErrorPrefix(replied, "NOGROUP") {
		for _, tenant := range r.Tenants {
			if err := s.rdb.XGroupCreateConsumer(ctx, s.keys.Stream(tenant), r.Group, r.Consumer).Err(); err != nil {
				return err
			}
		}
	}
	return replied
}

// Acknowledge acknowledges the reader's handled entries.
func (s Streams) Acknowledge(ctx context.Context, r Reader) error {
	if len(r.Handled) == 0 {
		return nil
	}
	q := s.reading(r)
	defer q.end()
	q.acknowledge(ctx)
	_, err := q.pipe.Exec(ctx)
	return store.Failed("acknowledge", err)
}

// reading is one round trip of a reader.
type reading struct {
	store  *store.Store
	reader Reader
	pipe   redis.Pipeliner
	buffer *wire.Buffer // of the reply
	Result
}

func (s Streams) reading(r Reader) *reading {
	return &reading{store: s.store, reader: r, pipe: s.rdb.Pipeline(), buffer: wire.NewBuffer()}
}

// end returns the buffer of the reading to its pool. The messages remain valid.
func (r *reading) end() {
	wire.Return(r.buffer)
}

// acknowledge adds XACK commands for the handled messages.
func (r *reading) acknowledge(ctx context.Context) {
	for rest := r.reader.Handled; len(rest) > 0; {
		tenant := rest[0].Tenant
		var ids []string
		for len(rest) > 0 && rest[0].Tenant == tenant {
			ids, rest = append(ids, rest[0].ID), rest[1:]
		}
		r.pipe.XAck(ctx, r.store.Keys().Stream(tenant), r.reader.Group, ids...)
	}
}

// readGroup adds an XREADGROUP of up to count entries of each tenant's stream. It waits up to block
// for the first entry.
func (r *reading) readGroup(ctx context.Context, into *wire.Buffer, count int, block time.Duration, tenants []string) redis.Cmder {
	args := []any{"xreadgroup", "group", r.reader.Group, r.reader.Consumer, "count", count}
	if block > 0 {
		args = append(args, "block", min(block, r.store.MaxBlock()).Milliseconds())
	}
	args = append(args, "streams")
	for _, tenant := range tenants {
		args = append(args, r.store.Keys().Stream(tenant))
	}
	for range tenants {
		args = append(args, ">")
	}
	var read redis.Cmder
	if r.reader.Continuous {
		read = into.StreamCmd(ctx, args, r.reader.wants)
	} else {
		read = into.Cmd(ctx, args)
	}
	_ = r.pipe.Process(ctx, read) // Exec returns the error
	return read
}

// decode decodes the reply to XREADGROUP, and returns how many entries it holds.
func (r *reading) decode(now time.Time) (entries int, err error) {
	reply, entry := r.buffer.Reply(), r.buffer.Entry()
	for streams := reply.Streams(); streams > 0; streams-- {
		name, n := reply.Stream()
		tenant, from := r.store.Keys().TenantOf(string(name)), reply.Position()
		for left := n; left > 0; left-- {
			if reply.Entry(entry); reply.Bad() {
				return 0, wire.ErrReply
			}
			if !r.reader.wants(entry.Field("type")) {
				if len(r.Unwanted) == cap(r.Unwanted) {
					r.Unwanted = slices.Grow(r.Unwanted, left)
				}
				r.Unwanted = append(r.Unwanted, Handled{tenant, entry.ID()})
				continue
			}
			if len(r.Messages) == cap(r.Messages) {
				r.Messages = slices.Grow(r.Messages, (left+1)/2) // about half of them are wanted
			}
			r.Messages = append(r.Messages, store.Message{Tenant: tenant, Group: r.reader.Group, Consumer: r.reader.Consumer, Read: now})
			m := &r.Messages[len(r.Messages)-1]
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
		if n > 0 {
			r.Found = append(r.Found, Found{tenant, n, reply.Position() - from})
		}
		entries += n
	}
	if reply.Bad() {
		return 0, wire.ErrReply
	}
	return entries, nil
}

// Load reads omitted messages up to wire.LargeBudget bytes and returns the rest in left. Messages that
// are no longer in the stream are Unwanted.
func (s Streams) Load(ctx context.Context, r Reader, omitted []store.Message) (got Result, left []store.Message, err error) {
	if len(omitted) == 0 {
		return got, nil, nil
	}
	if got.Now, err = s.store.NowOf(ctx, omitted[0].Tenant); err != nil {
		return got, omitted, err
	}
	for size := 0; len(omitted) > 0 && size < wire.LargeBudget; omitted = omitted[1:] {
		m := omitted[0]
		text, err := s.loadInto(ctx, &r, &m, got.Now)
		if err != nil {
			return got, omitted, err
		}
		if text == 0 {
			got.Unwanted = append(got.Unwanted, Handled{m.Tenant, m.ID})
			continue
		}
		size += text
		got.Messages = append(got.Messages, m)
	}
	return got, omitted, nil
}

// loadInto reads one omitted message and returns the length of its entry, or 0 if it is gone.
func (s Streams) loadInto(ctx context.Context, r *Reader, m *store.Message, now time.Time) (int, error) {
	buffer := wire.NewBuffer()
	defer wire.Return(buffer)
	read := buffer.Cmd(ctx, []any{"xrange", s.keys.Stream(m.Tenant), m.ID, m.ID})
	if err := s.rdb.Process(ctx, read); err != nil {
		return 0, store.Failed("read an entry", err)
	}
	reply := buffer.Reply()
	if err := store.Failed("read an entry", reply.Err()); err != nil && store.Temporary(err) {
		return 0, err
	} else if err != nil || reply.List() < 1 {
		return 0, nil // the stream was removed, or replaced, which its next read reports
	}
	entry := buffer.Entry()
	if reply.Entry(entry); reply.Bad() {
		return 0, store.Failed("read an entry", wire.ErrReply)
	}
	*m = store.Message{Tenant: m.Tenant, Group: r.Group, Consumer: r.Consumer, Read: now}
	s.store.ReadEntry(m, entry)
	return reply.Len(), nil
}
