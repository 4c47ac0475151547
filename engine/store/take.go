package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// following is for scripts that move a group over entries that are known: whether an
// entry is what follows for it, up to where it was given the stream before, and how
// many entries that were, if Redis knows.
const following = `
local function follows(stream, group, first)
  local at, read = nil, nil
  for _, g in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    if g[2] == group then at, read = g[8], g[10] end
  end
  local next = at and redis.call('XRANGE', stream, '(' .. at, '+', 'COUNT', 1)[1]
  return next and next[1] == first, at, read
end
local function move(stream, group, last, read, entries)
  if read then
    redis.call('XGROUP', 'SETID', stream, group, last, 'ENTRIESREAD', read + entries)
  else
    redis.call('XGROUP', 'SETID', stream, group, last)
  end
end
`

// takeScript moves a group over entries that are known, as if its consumer had read
// them and acknowledged all but those that it wants, unless they are not what follows
// for the group: somebody else may have read them, or something else first.
//
// KEYS: stream. ARGV: group, consumer, the first and the last of the entries, how many
// they are, and if any are wanted these, and the options of XCLAIM. It returns up to
// where the group was given the stream before, if there is such a group, and the wanted
// ones; those are left out that are not there any more. Without the last it did nothing.
//
//nolint:gochecknoglobals // see commitScript
var takeScript = redis.NewScript(following + `
local stream, group = KEYS[1], ARGV[1]
local next, at, read = follows(stream, group, ARGV[3])
if not next then return {at} end
local claimed = #ARGV > 5 and redis.call('XCLAIM', stream, group, ARGV[2], 0, unpack(ARGV, 6)) or {}
move(stream, group, ARGV[4], read, ARGV[5])
return {at, claimed}
`)

// taking is what a reader may be given without reading it, of one tenant.
type taking struct {
	tenant  string
	passage passage
	reply   *redis.Cmd
	done    bool
}

// mostTaken is of how many tenants that is at once.
const mostTaken = 4

// takes are what is known to be next for a reader.
func (s *Store) takes(r Reader, count int) (takes []taking) {
	for _, tenant := range s.passages.join(&r, mostTaken) {
		if next := s.passages.next(spot{tenant, r.Group}, count); len(next.ids) > 0 { // else somebody was faster
			takes = append(takes, taking{tenant: tenant, passage: next})
		}
	}
	return takes
}

// without is a reader of all other tenants.
func without(r Reader, takes []taking) Reader {
	r.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), func(tenant string) bool {
		return slices.ContainsFunc(takes, func(t taking) bool { return t.tenant == tenant })
	})
	return r
}

// take has a reader given what is known.
func (q *reading) take(ctx context.Context, takes []taking) {
	for i := range takes {
		next := &takes[i].passage
		from := len(q.args)
		q.args = append(q.args, nil, nil, nil, &q.store.home(takes[i].tenant).stream,
			&q.reader.Group, &q.reader.Consumer, &next.ids[next.gone], &next.ids[len(next.ids)-1], len(next.ids)-next.gone)
		for i := range next.wanted {
			q.args = append(q.args, &next.ids[next.wanted[i].at])
		}
		if len(next.wanted) > 0 {
			q.args = append(q.args, "FORCE", "JUSTID")
		}
		takes[i].reply = callOf(ctx, takeScript, 1, q.args[from:len(q.args):len(q.args)])
		q.add(takes[i].reply)
	}
}

// taken are the messages that a reader was given so, and why it was not, if that may
// pass.
func (s *Store) taken(ctx context.Context, r Reader, takes []taking, now time.Time) (out []Message, err error) {
	for i := range takes {
		t := &takes[i]
		reply, wrong := t.reply.Slice()
		if wrong != nil {
			err = errors.Join(err, s.untaken(ctx, *t, r.Group, wrong))
			continue
		}
		at := spot{t.tenant, r.Group}
		if len(reply) < 2 { // something else follows
			before := ""
			if len(reply) == 1 {
				before, _ = reply[0].(string)
			}
			s.passages.moved(at, before)
			continue
		}
		t.done = true
		s.passages.given(at, t.passage.end())
		r.found(t.tenant, len(t.passage.ids)-t.passage.gone)
		claimed, _ := reply[1].([]any)
		before := ""
		for i := range t.passage.wanted { // they come in the same order
			p := &t.passage.wanted[i]
			if id := t.passage.ids[p.at]; len(claimed) > 0 && claimed[0] == any(id) {
				m := s.piece(r, t.tenant, id, p, now)
				m.after, before = before, id
				out, claimed = append(out, m), claimed[1:]
			}
		}
	}
	return out, err
}

// untaken is why nothing could be taken, if that may pass. What is known is dropped, so
// that the stream is read.
func (s *Store) untaken(ctx context.Context, t taking, group string, err error) error {
	_, said := errors.AsType[redis.Error](err)
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		err = takeScript.Load(ctx, s.rdb).Err()
	case said && !temporary(err):
		s.passages.off() // this Redis cannot do it
		return nil
	}
	s.passages.moved(spot{t.tenant, group}, "")
	return err
}

// piece is the message that an entry is which was read for another group, or written.
func (s *Store) piece(r Reader, tenant, id string, p *piece, now time.Time) Message {
	fields := p.fields
	if fields == nil {
		fields = fieldsOf(p.text)
	}
	m := s.message(r, tenant, id, fields, now)
	if p.fields == nil && len(fields)/2 <= mostFields {
		m.fields, m.text = nil, p.text
	}
	return m
}
