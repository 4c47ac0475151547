package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// takeScript moves a group over entries that are known, as if its consumer had read
// them and acknowledged all but those that it wants, unless they are not what follows
// for the group: somebody else may have read them, or something else first.
//
// KEYS: stream. ARGV: group, consumer, the first and the last of the entries, how many
// they are, and if any are wanted these, and the options of XCLAIM. It returns the time,
// up to where the group was given the stream before, and the wanted ones; those are left
// out that are not there any more. Without the last it did nothing.
//
//nolint:gochecknoglobals // see commitScript
var takeScript = redis.NewScript(`
local stream, group, first, last = KEYS[1], ARGV[1], ARGV[3], ARGV[4]
local out, read = redis.call('TIME'), nil
for _, g in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  if g[2] == group then out[3], read = g[8], g[10] end
end
if not out[3] then return out end
local next = redis.call('XRANGE', stream, '(' .. out[3], '+', 'COUNT', 1)[1]
if not next or next[1] ~= first then return out end
out[4] = #ARGV > 5 and redis.call('XCLAIM', stream, group, ARGV[2], 0, unpack(ARGV, 6)) or {}
if read then
  redis.call('XGROUP', 'SETID', stream, group, last, 'ENTRIESREAD', read + ARGV[5])
else
  redis.call('XGROUP', 'SETID', stream, group, last)
end
return out
`)

// taken is what of the streams a reader was given without reading it.
type taken struct {
	messages []Message
	now      time.Time
	any      bool // of a tenant, if only what it does not want
}

// mostTaken is of how many tenants that is at once, each in a round trip.
const mostTaken = 4

// take gives a reader what is known to be next for its group. Of those tenants it need
// not read then. An error after the first of them comes again.
func (s *Store) take(ctx context.Context, r *Reader, count int) (out taken, err error) {
	known := s.passages.join(r, mostTaken)
	if len(known) == 0 {
		return out, nil
	}
	if err := s.Acknowledge(ctx, *r); err != nil {
		return out, err
	}
	r.Spent = nil
	for _, tenant := range known {
		was, err := s.takeOne(ctx, r, tenant, count)
		if err != nil && !out.any {
			return out, err
		}
		if was.any {
			out.messages, out.now, out.any = append(out.messages, was.messages...), was.now, true
			r.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), func(other string) bool { return other == tenant })
		}
	}
	return out, nil
}

// takeOne gives a reader what is known to be next of a tenant, if it is.
func (s *Store) takeOne(ctx context.Context, r *Reader, tenant string, count int) (out taken, err error) {
	at := spot{tenant, r.Group}
	next := s.passages.next(at, count)
	if len(next.ids) == 0 { // somebody else was faster
		return out, nil
	}
	ids := next.ids[next.gone:]
	args := append(make([]any, 0, 7+len(next.wanted)), r.Group, r.Consumer, ids[0], next.end(), len(ids))
	for i := range next.wanted {
		args = append(args, &next.ids[next.wanted[i].at])
	}
	if len(next.wanted) > 0 {
		args = append(args, "FORCE", "JUSTID")
	}
	reply, err := takeScript.Run(ctx, s.rdb, []string{s.keys.stream(tenant)}, args...).Slice()
	if err != nil {
		return out, s.untaken(err)
	}
	if len(reply) < 4 { // something else follows
		before := ""
		if len(reply) == 3 {
			before, _ = reply[2].(string)
		}
		s.passages.moved(at, before)
		return out, nil
	}
	s.passages.given(at, next.end())
	r.found(tenant, len(ids))
	out.any, out.now = true, clockOf(reply)
	claimed, _ := reply[3].([]any)
	for _, p := range next.wanted {
		if id := next.ids[p.at]; slices.Contains(claimed, any(id)) {
			out.messages = append(out.messages, s.piece(r, tenant, id, p.text, out.now))
		}
	}
	return out, nil
}

// untaken is why nothing could be taken; nil if it is only that Redis cannot do it, or
// that something is wrong with the stream, which shows when it is read.
func (s *Store) untaken(err error) error {
	if _, ok := errors.AsType[redis.Error](err); !ok || temporary(err) {
		return failed("take what was read", err)
	}
	s.passages.off()
	return nil
}

// clockOf reads the time from the beginning of a reply.
func clockOf(reply []any) time.Time {
	text, _ := reply[0].(string)
	fraction, _ := reply[1].(string)
	seconds, _ := strconv.ParseInt(text, 10, 64) // TIME has no other form
	micros, _ := strconv.ParseInt(fraction, 10, 64)
	return time.Unix(seconds, micros*1000).UTC()
}

// piece is the message that an entry is which was read for another group.
func (s *Store) piece(r *Reader, tenant, id, text string, now time.Time) Message {
	fields := fieldsOf(text)
	m := s.message(*r, tenant, id, fields, now)
	if len(fields)/2 <= mostFields {
		m.fields, m.text = nil, text
	}
	return m
}
