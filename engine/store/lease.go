package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// claimScript takes over entries that their consumers have left alone, and counts
// for each the consumers that died with it. A consumer that handed an entry back
// has not died; one that died while it had a suspect beside others says nothing
// about the suspect, so those are only counted when they were marked as handled alone.
//
// Of large entries it takes over no more than one reply should hold, and of a value that
// is too large only says how long it is.
//
// KEYS: stream, deaths. ARGV: group, consumer, lease and the idle time of what was
// handed back in milliseconds, first entry, count, deaths that make a suspect, the bytes of
// a reply, those of a value. It returns for each entry its id, its deaths, its fields, and
// how many bytes the value has that is left out, or 0.
//
//nolint:gochecknoglobals // see commitScript
var claimScript = redis.NewScript(evenIfFull + `
local group, me = ARGV[1], ARGV[2]
local lease, released = tonumber(ARGV[3]), tonumber(ARGV[4])
local out, size = {}, 0
for _, p in ipairs(redis.call('XPENDING', KEYS[1], group, 'IDLE', ARGV[3], ARGV[5], '+', ARGV[6])) do
  local id, owner, idle = p[1], p[2], p[3]
  local field = group .. ' ' .. id
  local deaths = tonumber(redis.call('HGET', KEYS[2], field) or '0')
  if idle < released and owner ~= me then
    if deaths < tonumber(ARGV[7]) or redis.call('HDEL', KEYS[2], 'alone ' .. field) == 1 then
      deaths = redis.call('HINCRBY', KEYS[2], field, 1)
    end
  end
  local claimed = redis.call('XAUTOCLAIM', KEYS[1], group, me, lease, id, 'COUNT', 1)[2]
  if claimed[1] and claimed[1][1] == id then
    local fields, left = claimed[1][2], 0
    for i = 1, #fields do
      if #fields[i] > tonumber(ARGV[9]) then
        left = #fields[i]
        fields[i] = left .. ' bytes were left out'
      end
      size = size + #fields[i]
    end
    out[#out + 1] = {id, tostring(deaths), fields, tostring(left)}
    if size > tonumber(ARGV[8]) then break end
  end
end
return out
`)

// claim is what to take over.
type claim struct {
	tenant, first string
	lease         time.Duration
	count         int
}

// poisonCrashes is from when on a death only counts if the entry was handled alone.
const poisonCrashes = 2

// handedBack is the idle time that Release gives to an entry.
const handedBack = 24 * time.Hour

// claim takes over what was left alone.
func (s *Store) claim(ctx context.Context, r Reader, c claim, now time.Time) ([]Message, error) {
	keys := []string{s.keys.stream(c.tenant), s.keys.crashes(c.tenant)}
	reply, err := claimScript.Run(ctx, s.rdb, keys, r.Group, r.Consumer, c.lease.Milliseconds(),
		handedBack.Milliseconds(), c.first, c.count, poisonCrashes, largeBudget, mostValue).Slice()
	if err != nil {
		return nil, failed("claim", err)
	}
	out := make([]Message, 0, len(reply))
	for _, item := range reply {
		id, fields, crashes, left, ok := claimed(item)
		if !ok {
			return nil, failed("claim", fmt.Errorf("the reply has %v", item))
		}
		m := s.message(r, c.tenant, id, fields, now)
		m.Claimed, m.Crashes = true, crashes
		if left > 0 {
			m.Err = errValue(left)
		}
		out = append(out, m)
	}
	return out, nil
}

// claimed reads an entry as the script returns it.
func claimed(item any) (id string, fields []string, crashes, left int, ok bool) {
	parts, _ := item.([]any)
	if len(parts) != 4 {
		return "", nil, 0, 0, false
	}
	id, ok = parts[0].(string)
	count, _ := parts[1].(string)
	crashes, err := strconv.Atoi(count)
	bytes, _ := parts[3].(string)
	left, wrong := strconv.Atoi(bytes)
	values, _ := parts[2].([]any)
	for _, v := range values {
		text, _ := v.(string)
		fields = append(fields, text)
	}
	return id, sortFields(fields), crashes, left, ok && err == nil && wrong == nil
}

// MarkIsolated notes that a suspect is about to be handled with nothing beside it, so
// that the death of its consumer is its own doing.
func (s *Store) MarkIsolated(ctx context.Context, m Message) error {
	err := s.rdb.HSet(ctx, s.keys.crashes(m.Tenant), "alone "+m.Group+" "+m.ID, "1").Err()
	return failed("mark a suspect", err)
}

// renewScript sets for how long messages have been left alone: not at all, or so
// long that anybody may claim them. KEYS: stream. ARGV: group, consumer,
// milliseconds, entries. It returns the entries that are not the consumer's any more.
//
//nolint:gochecknoglobals // see commitScript
var renewScript = redis.NewScript(`
local lost = {}
for i = 4, #ARGV do
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if not p['err'] and #p == 1 and p[1][2] == ARGV[2] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[3], 'JUSTID')
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
`)

// Renew keeps messages from being claimed for another lease, as far as they are
// still the consumer's. Those that are not come back: they are another's now, or
// were acknowledged.
func (s *Store) Renew(ctx context.Context, msgs ...Message) (lost []Message, err error) {
	return s.setIdle(ctx, 0, msgs)
}

// Release hands messages back: any consumer of the group may claim them at once.
func (s *Store) Release(ctx context.Context, msgs ...Message) error {
	_, err := s.setIdle(ctx, handedBack, msgs)
	return err
}

// ByOwner parts messages by whose they are: those of one part are renewed at once.
func ByOwner(msgs []Message) (parts [][]Message) {
	type owner struct{ tenant, group, consumer string }
	places := map[owner]int{}
	for _, m := range msgs {
		o := owner{m.Tenant, m.Group, m.Consumer}
		at, known := places[o]
		if !known {
			at = len(parts)
			places[o], parts = at, append(parts, nil)
		}
		parts[at] = append(parts[at], m)
	}
	return parts
}

func (s *Store) setIdle(ctx context.Context, idle time.Duration, msgs []Message) (lost []Message, err error) {
	for _, part := range ByOwner(msgs) {
		args := []any{part[0].Group, part[0].Consumer, idle.Milliseconds()}
		for _, m := range part {
			args = append(args, m.ID)
		}
		ids, err := renewScript.Run(ctx, s.rdb, []string{s.keys.stream(part[0].Tenant)}, args...).StringSlice()
		if err != nil {
			return lost, failed("renew or release a lease", err)
		}
		for _, m := range part {
			if slices.Contains(ids, m.ID) {
				lost = append(lost, m)
			}
		}
	}
	return lost, nil
}
