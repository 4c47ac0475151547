package store

import "github.com/redis/go-redis/v9"

// mine is the beginning of scripts that answer a message: they do nothing if the
// message has been claimed by another consumer meanwhile, or acknowledged, or if
// its group is gone, which the next read makes again.
// KEYS[1] is the stream, ARGV 1 to 3 are group, entry and consumer.
const mine = `
local function mine()
  local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
  if p['err'] then
    if string.find(p['err'], 'NOGROUP', 1, true) then return false end
    error(p['err'], 0)
  end
  return #p == 1 and p[1][2] == ARGV[3]
end
`

// unmove takes out a timer of an execution that somebody has moved, by the
// tombstone of the one that was set.
const unmove = `
local function unmove(timers, execution, tombstone)
  local member = redis.call('HGET', execution, 'moved:' .. tombstone)
  if not member then return false end
  redis.call('ZREM', timers, member)
  redis.call('HDEL', execution, 'moved:' .. tombstone)
  return true
end
`

// keyed is for scripts about timers of which there is one for each key: a hash
// says which, as the order of the event that set it (40 digits), a blank and the
// member. When that is gone, the order stays for an hour, so that an older event
// which is delivered late does not set its timer after all.
const keyed = `
local function forget(keys, forgotten, identity, order)
  local now = tonumber(redis.call('TIME')[1])
  redis.call('HSET', keys, identity, order .. ' ')
  redis.call('ZADD', forgotten, now, identity)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', forgotten, '-inf', now - 3600, 'LIMIT', 0, 10)) do
    redis.call('HDEL', keys, old)
    redis.call('ZREM', forgotten, old)
  end
end
local function settle(keys, forgotten, identity, member)
  local kept = identity ~= '' and redis.call('HGET', keys, identity)
  if kept and string.sub(kept, 42) == member then forget(keys, forgotten, identity, string.sub(kept, 1, 40)) end
end
`

// commitScript is one transition of an execution: all of it, or nothing.
//
// KEYS: stream, execution, history, timers, the indexes of open, of faulted and of
// so ended executions, then the listeners to join and to leave. ARGV: group, entry (” for none), consumer, version, acknowledge,
// ended, and how many there are of: fields of the execution, history entries,
// events to publish, timers to cancel, listeners to join; then these in turn,
// entries and events each with the count of their fields before them, timers
// each as member and tombstone; the execution's id, and the score of one that no
// index has yet.
//
// History behind the end of a faulted execution is that it was retried: it is
// open again, and what it ended with goes.
//
// It returns 0 if it is done, 1 if the version is another, 2 if the message is
// not the consumer's any more.
//
//nolint:gochecknoglobals // scripts are constants that go-redis wraps
var commitScript = redis.NewScript(mine + unmove + `
if ARGV[2] ~= '' and not mine() then return 2 end
local kinds = {'stream', 'hash', 'stream', 'zset', 'zset', 'zset', 'zset'}
for i = 1, #KEYS do
  local is, kind = redis.call('TYPE', KEYS[i])['ok'], kinds[i] or 'set'
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. is .. ', want a ' .. kind)
  end
end
local version = redis.call('HGET', KEYS[2], 'version') or '0'
if version ~= ARGV[4] then return 1 end
local retried = tonumber(ARGV[8]) > 0 and redis.call('HGET', KEYS[2], 'status') == 'faulted'

local at = 12
local function take(n) at = at + n return at - n end
local n = tonumber(ARGV[7])
local fields = take(n)
version = tonumber(version)
for i = 1, tonumber(ARGV[8]) do
  local count = tonumber(ARGV[take(1)])
  local from = take(count)
  version = version + 1
  redis.call('XADD', KEYS[3], string.format('%d-0', version), unpack(ARGV, from, from + count - 1))
end
if retried then redis.call('HDEL', KEYS[2], 'output', 'error', 'ended') end
redis.call('HSET', KEYS[2], 'version', string.format('%d', version), unpack(ARGV, fields, fields + n - 1))
for i = 1, tonumber(ARGV[9]) do
  local count = tonumber(ARGV[take(1)])
  local from = take(count)
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, from, from + count - 1))
end
local ended = ARGV[6] == '1'
for i = 1, tonumber(ARGV[10]) do
  local from = take(2)
  if redis.call('ZREM', KEYS[4], ARGV[from]) == 0 and not unmove(KEYS[4], KEYS[2], ARGV[from + 1]) and not ended then
    redis.call('HSET', KEYS[2], ARGV[from + 1], '1')
  end
end
local id = ARGV[at]
local joins = tonumber(ARGV[11])
for i = 8, #KEYS do
  if i < 8 + joins then redis.call('SADD', KEYS[i], id) else redis.call('SREM', KEYS[i], id) end
end
if ended or retried or ARGV[4] == '0' then
  local score = redis.call('ZSCORE', KEYS[5], id) or redis.call('ZSCORE', KEYS[6], id) or ARGV[at + 1]
  redis.call('ZADD', ended and KEYS[7] or KEYS[5], score, id)
  if ended then redis.call('ZREM', KEYS[5], id) end
  if retried and not (ended and KEYS[7] == KEYS[6]) then redis.call('ZREM', KEYS[6], id) end
end
if ended then
  redis.call('HDEL', KEYS[2], 'state', 'state_version')
  for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(name, 1, 5) == 'gone:' or string.sub(name, 1, 6) == 'moved:' then redis.call('HDEL', KEYS[2], name) end
  end
end
if ARGV[5] == '1' then redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) end
return 0
`)

// startScript begins an execution, unless there is one of its id.
// KEYS: stream, execution, index of open executions. ARGV: score and id there, the
// count of the execution's fields, these, the event's fields.
//
//nolint:gochecknoglobals // see commitScript
var startScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local is = redis.call('TYPE', KEYS[3])['ok']
if is ~= 'none' and is ~= 'zset' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[3] .. ' is a ' .. is .. ', want a zset')
end
local n = tonumber(ARGV[3])
redis.call('XADD', KEYS[1], '*', unpack(ARGV, n + 4))
redis.call('HSET', KEYS[2], unpack(ARGV, 4, n + 3))
redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2])
return 1
`)

// replyScript answers a message with events. KEYS: stream. ARGV: group, entry,
// consumer, then each event as the count of its fields and these.
//
//nolint:gochecknoglobals // see commitScript
var replyScript = redis.NewScript(mine + `
if not mine() then return 0 end
local at = 4
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 1, at + n))
  at = at + n + 1
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// scheduleScript sets a timer, unless its execution has ended or has taken it
// back already. One with a key takes the place of an older one of that key, and
// is not set if that is newer. KEYS: stream, timers, execution, keys, forgotten
// keys. ARGV: group, entry, consumer, score, member, tombstone, identity by the
// key or ”, order.
//
//nolint:gochecknoglobals // see commitScript
var scheduleScript = redis.NewScript(mine + `
if not mine() then return 0 end
local status = redis.call('HGET', KEYS[3], 'status')
local ended = status == 'completed' or status == 'faulted' or status == 'cancelled'
if not ended and redis.call('HDEL', KEYS[3], ARGV[6]) == 0 then
  local kept = ARGV[7] ~= '' and redis.call('HGET', KEYS[4], ARGV[7])
  if not kept or string.sub(kept, 1, 40) < ARGV[8] then
    redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
    if kept and string.sub(kept, 42) ~= ARGV[5] then redis.call('ZREM', KEYS[2], string.sub(kept, 42)) end
    if ARGV[7] ~= '' then
      redis.call('HSET', KEYS[4], ARGV[7], ARGV[8] .. ' ' .. ARGV[5])
      redis.call('ZREM', KEYS[5], ARGV[7])
    end
  end
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// unscheduleScript takes a timer out: the one of a key, unless it was set later,
// or else exactly this one, wherever it was moved to. KEYS and ARGV are those of
// scheduleScript.
//
//nolint:gochecknoglobals // see commitScript
var unscheduleScript = redis.NewScript(mine + unmove + keyed + `
if not mine() then return 0 end
local kept = ARGV[7] ~= '' and redis.call('HGET', KEYS[4], ARGV[7])
local moved = string.sub(ARGV[7], 1, 1) == 'm'
if ARGV[7] ~= '' and not moved then
  if not kept or string.sub(kept, 1, 40) < ARGV[8] then
    if kept then redis.call('ZREM', KEYS[2], string.sub(kept, 42)) end
    forget(KEYS[4], KEYS[5], ARGV[7], ARGV[8])
  end
elseif redis.call('ZREM', KEYS[2], ARGV[5]) == 0 and not unmove(KEYS[2], KEYS[3], ARGV[6]) and kept then
  redis.call('ZREM', KEYS[2], string.sub(kept, 42))
  forget(KEYS[4], KEYS[5], ARGV[7], string.sub(kept, 1, 40))
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// retryScript puts a message off. KEYS: stream, timers. ARGV: group, entry, consumer, score, member.
//
//nolint:gochecknoglobals // see commitScript
var retryScript = redis.NewScript(mine + `
if not mine() then return 0 end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// buryScript gives a message up. KEYS: stream, dead letters. ARGV: group, entry,
// consumer, then the dead letter and each event to publish, as in replyScript.
//
//nolint:gochecknoglobals // see commitScript
var buryScript = redis.NewScript(mine + `
if not mine() then return 0 end
local at, key = 4, KEYS[2]
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call('XADD', key, '*', unpack(ARGV, at + 1, at + n))
  at, key = at + n + 1, KEYS[1]
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// fireScript publishes what is due, and only then takes it out; a timer whose
// stream cannot be written stays, and does not keep the others. KEYS: timers,
// keys, forgotten keys, then the stream of each timer. ARGV: for each timer its
// member, the microsecond it is due at, its identity or ”, and the count of its
// event's fields and these.
//
// It returns how many have fired, and what went wrong first, if anything did.
//
//nolint:gochecknoglobals // see commitScript
var fireScript = redis.NewScript(keyed + `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local at, fired, wrong = 1, 0, ''
for i = 4, #KEYS do
  local member, due, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 3])
  if due <= now and redis.call('ZSCORE', KEYS[1], member) then
    local entry = redis.pcall('XADD', KEYS[i], '*', unpack(ARGV, at + 4, at + 3 + n))
    if type(entry) == 'table' and entry['err'] then
      if wrong == '' then wrong = entry['err'] end
    else
      redis.call('ZREM', KEYS[1], member)
      settle(KEYS[2], KEYS[3], ARGV[at + 2], member)
      fired = fired + 1
    end
  end
  at = at + 4 + n
end
return {fired, wrong}
`)

// dropScript takes a timer out. KEYS: timers, keys, forgotten keys. ARGV: member, identity or ”.
//
//nolint:gochecknoglobals // see commitScript
var dropScript = redis.NewScript(keyed + `
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
settle(KEYS[2], KEYS[3], ARGV[2], ARGV[1])
return 1
`)

// moveScript sets a timer for another moment. Who would take it back finds it by
// a note: with the timer's key, or with the execution that has set it, or else
// among the keys. KEYS: timers, keys, forgotten keys, execution. ARGV: member,
// the new score and member, identity, order, tombstone.
//
//nolint:gochecknoglobals // see commitScript
var moveScript = redis.NewScript(`
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
if ARGV[1] ~= ARGV[3] then redis.call('ZREM', KEYS[1], ARGV[1]) end
if string.sub(ARGV[4], 1, 1) == 'm' and redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('HSET', KEYS[4], 'moved:' .. ARGV[6], ARGV[3])
else
  local kept = redis.call('HGET', KEYS[2], ARGV[4])
  redis.call('HSET', KEYS[2], ARGV[4], (kept and string.sub(kept, 1, 40) or ARGV[5]) .. ' ' .. ARGV[3])
  redis.call('ZREM', KEYS[3], ARGV[4])
end
return 1
`)

// replayScript takes a letter back into the stream it came from. KEYS: the
// letter's stream, the event's. ARGV: letter, then the event's fields.
//
//nolint:gochecknoglobals // see commitScript
var replayScript = redis.NewScript(`
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
`)

// replayTimerScript takes the letter of a timer back among the timers. KEYS: the
// letter's stream, timers. ARGV: letter, score, member.
//
//nolint:gochecknoglobals // see commitScript
var replayTimerScript = redis.NewScript(`
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
`)

// defineScript keeps a definition, unless the latest is not the one that was
// compared with. KEYS: definition, index of workflows. ARGV: that latest, the id,
// then the fields to set.
//
//nolint:gochecknoglobals // see commitScript
var defineScript = redis.NewScript(`
if (redis.call('HGET', KEYS[1], 'latest') or '') ~= ARGV[1] then return 0 end
local is = redis.call('TYPE', KEYS[2])['ok']
if is ~= 'none' and is ~= 'set' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is a ' .. is .. ', want a set')
end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('SADD', KEYS[2], ARGV[2])
return 1
`)
