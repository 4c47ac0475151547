package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// replies is for scripts that read what Redis tells about streams: the pairs of a
// reply by their names, and the order of entry ids, whose numbers are too large
// for Lua's.
const replies = `
local function named(flat)
  local out = {}
  for i = 1, #flat, 2 do out[flat[i]] = flat[i + 1] end
  return out
end
local function smaller(a, b) return #a < #b or #a == #b and a < b end
local function before(a, b)
  local ams, aseq = string.match(a, '^(%d+)%-?(%d*)$')
  local bms, bseq = string.match(b, '^(%d+)%-?(%d*)$')
  if ams ~= bms then return smaller(ams, bms) end
  return smaller(aseq, bseq)
end
`

// trimScript drops what every group has read and acknowledged and what is old
// enough, and leaves some entries for those who read along. The last entry that
// the slowest group has read stays as well, which spares counting on from an id.
//
// KEYS: stream. ARGV: entries to keep, age in milliseconds, the groups that must
// be there. It returns how many entries are gone.
//
//nolint:gochecknoglobals // see commitScript
var trimScript = redis.NewScript(replies + `
local length, keep = redis.call('XLEN', KEYS[1]), tonumber(ARGV[1])
if length <= keep then return 0 end
local now = redis.call('TIME')
local young = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000) - tonumber(ARGV[2])
local first = string.format('%.0f-0', math.max(young, 0))
local missing, left = {}, #ARGV - 2
for i = 3, #ARGV do missing[ARGV[i]] = true end
for _, reply in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = named(reply)
  if missing[group['name']] then left = left - 1 end
  if before(group['last-delivered-id'], first) then first = group['last-delivered-id'] end
  local pending = redis.call('XPENDING', KEYS[1], group['name'])
  if pending[1] > 0 and before(pending[2], first) then first = pending[2] end
end
if left > 0 or first == '0-0' then return 0 end

-- miniredis, which says little about a stream, takes no notice of a limit.
if #redis.call('XINFO', 'STREAM', KEYS[1]) <= 4 then
  local kept = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', keep)
  if keep > 0 and before(kept[keep][1], first) then first = kept[keep][1] end
  return redis.call('XTRIM', KEYS[1], 'MINID', first)
end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', first, 'LIMIT', math.min(length - keep, 100000))
`)

// Trim shortens a tenant's stream to about keep entries, and never to less. An
// entry goes when it is older than age by Redis' clock and when every group, also
// one that is not of ours, has read and acknowledged it and all before it. Nothing
// goes unless all of the groups are there; without names these are the services' own.
func (s *Store) Trim(ctx context.Context, tenant string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	return s.TrimAll(ctx, []string{tenant}, keep, age, groups...)
}

// TrimAll does that for many tenants, each as if it were alone.
func (s *Store) TrimAll(ctx context.Context, tenants []string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	if len(groups) == 0 {
		groups = []string{WorkerGroup, ExecutorGroup, TimerGroup}
	}
	args := append([]any{max(keep, 0), max(age, 0).Milliseconds()}, anys(groups)...)
	var streams []string
	for _, tenant := range tenants {
		if err := CheckTenant(tenant); err != nil {
			return 0, err
		}
		streams = append(streams, s.keys.stream(tenant))
	}
	err = s.onEach(ctx, trimScript, streams, args, func(stream string, reply *redis.Cmd) error {
		n, err := reply.Int64()
		removed += n
		return failed("trim "+stream, err)
	})
	return removed, err
}

// onEach runs a script on each of many keys, a number of them in one round trip, and
// shows done what became of each. All errors come together.
func (s *Store) onEach(ctx context.Context, script *redis.Script, keys []string, args []any, done func(key string, reply *redis.Cmd) error) error {
	var errs []error
	for page := range slices.Chunk(keys, together) {
		replies, err := s.each(ctx, script, page, args)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i, key := range page {
			err := done(key, replies[i])
			if errs = append(errs, err); Temporary(err) {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

// each runs a script on each of some keys in one round trip, or in a second one if
// Redis does not know it yet. An error is that it cannot get to know it.
func (s *Store) each(ctx context.Context, script *redis.Script, keys []string, args []any) ([]*redis.Cmd, error) {
	replies := make([]*redis.Cmd, len(keys))
	for known := false; ; known = true {
		pipe := s.rdb.Pipeline()
		for i, key := range keys {
			replies[i] = script.EvalSha(ctx, pipe, []string{key}, args...)
		}
		if _, err := pipe.Exec(ctx); !redis.HasErrorPrefix(err, "NOSCRIPT") || known {
			return replies, nil // each says what is wrong with it
		}
		if err := script.Load(ctx, s.rdb).Err(); err != nil {
			return nil, failed("load a script", err)
		}
	}
}

// sweepScript removes consumers that hold nothing. KEYS: stream. ARGV: group,
// milliseconds. It returns how many are gone.
//
//nolint:gochecknoglobals // see commitScript
var sweepScript = redis.NewScript(replies + `
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if consumers['err'] then
  if string.find(consumers['err'], 'NOGROUP', 1, true) or string.find(consumers['err'], 'no such key', 1, true) then return 0 end
  return consumers
end
local gone = 0
for _, reply in ipairs(consumers) do
  local consumer = named(reply)
  if consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[2])
    and #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, consumer['name']) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    gone = gone + 1
  end
end
return gone
`)

// SweepConsumers removes the consumers of a group that have nothing pending and
// have not asked for anything for so long: processes that are gone. One that comes
// back after all is made again by its next read.
func (s *Store) SweepConsumers(ctx context.Context, tenants []string, group string, idle time.Duration) error {
	var streams []string
	for _, tenant := range tenants {
		if err := CheckTenant(tenant); err != nil {
			return err
		}
		streams = append(streams, s.keys.stream(tenant))
	}
	args := []any{group, max(idle, 0).Milliseconds()}
	return s.onEach(ctx, sweepScript, streams, args, func(stream string, reply *redis.Cmd) error {
		return failed("remove consumers of "+group+" of "+stream, reply.Err())
	})
}
