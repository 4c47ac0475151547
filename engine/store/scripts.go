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

// commitScript is one transition of an execution: all of it, or nothing.
//
// KEYS: stream, execution, history, timers, then the listeners to join and to
// leave. ARGV: group, entry (” for none), consumer, version, acknowledge,
// ended, and how many there are of: fields of the execution, history entries,
// events to publish, timers to cancel, listeners to join; then these in turn,
// entries and events each with the count of their fields before them, timers
// each as member and tombstone.
//
// It returns 0 if it is done, 1 if the version is another, 2 if the message is
// not the consumer's any more.
//
//nolint:gochecknoglobals // scripts are constants that go-redis wraps
var commitScript = redis.NewScript(mine + `
if ARGV[2] ~= '' and not mine() then return 2 end
local kinds = {'stream', 'hash', 'stream', 'zset'}
for i = 1, #KEYS do
  local is, kind = redis.call('TYPE', KEYS[i])['ok'], kinds[i] or 'set'
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' is a ' .. is .. ', want a ' .. kind)
  end
end
local version = redis.call('HGET', KEYS[2], 'version') or '0'
if version ~= ARGV[4] then return 1 end

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
redis.call('HSET', KEYS[2], 'version', string.format('%d', version), unpack(ARGV, fields, fields + n - 1))
for i = 1, tonumber(ARGV[9]) do
  local count = tonumber(ARGV[take(1)])
  local from = take(count)
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, from, from + count - 1))
end
local ended = ARGV[6] == '1'
for i = 1, tonumber(ARGV[10]) do
  local from = take(2)
  if redis.call('ZREM', KEYS[4], ARGV[from]) == 0 and not ended then
    redis.call('HSET', KEYS[2], ARGV[from + 1], '1')
  end
end
local id = ARGV[at]
local joins = tonumber(ARGV[11])
for i = 5, #KEYS do
  if i < 5 + joins then redis.call('SADD', KEYS[i], id) else redis.call('SREM', KEYS[i], id) end
end
if ended then
  redis.call('HDEL', KEYS[2], 'state', 'state_version')
  for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(name, 1, 5) == 'gone:' then redis.call('HDEL', KEYS[2], name) end
  end
end
if ARGV[5] == '1' then redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) end
return 0
`)

// startScript begins an execution, unless there is one of its id.
// KEYS: stream, execution. ARGV: the count of the execution's fields, these, the event's fields.
//
//nolint:gochecknoglobals // see commitScript
var startScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local n = tonumber(ARGV[1])
redis.call('XADD', KEYS[1], '*', unpack(ARGV, n + 2))
redis.call('HSET', KEYS[2], unpack(ARGV, 2, n + 1))
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
// back already. KEYS: stream, timers, execution. ARGV: group, entry, consumer,
// score, member, tombstone.
//
//nolint:gochecknoglobals // see commitScript
var scheduleScript = redis.NewScript(mine + `
if not mine() then return 0 end
local status = redis.call('HGET', KEYS[3], 'status')
local ended = status == 'completed' or status == 'faulted' or status == 'cancelled'
if not ended and redis.call('HDEL', KEYS[3], ARGV[6]) == 0 then
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// unscheduleScript takes a timer out. KEYS: stream, timers. ARGV: group, entry, consumer, member.
//
//nolint:gochecknoglobals // see commitScript
var unscheduleScript = redis.NewScript(mine + `
if not mine() then return 0 end
redis.call('ZREM', KEYS[2], ARGV[4])
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
// then the stream of each timer. ARGV: for each timer its member, the
// microsecond it is due at, and the count of its event's fields and these.
//
// It returns how many have fired, and what went wrong first, if anything did.
//
//nolint:gochecknoglobals // see commitScript
var fireScript = redis.NewScript(`
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local at, fired, wrong = 1, 0, ''
for i = 2, #KEYS do
  local member, due, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if due <= now and redis.call('ZSCORE', KEYS[1], member) then
    local entry = redis.pcall('XADD', KEYS[i], '*', unpack(ARGV, at + 3, at + 2 + n))
    if type(entry) == 'table' and entry['err'] then
      if wrong == '' then wrong = entry['err'] end
    else
      redis.call('ZREM', KEYS[1], member)
      fired = fired + 1
    end
  end
  at = at + 3 + n
end
return {fired, wrong}
`)

// defineScript keeps a definition, unless the latest is not the one that was
// compared with. KEYS: definition. ARGV: that latest, then the fields to set.
//
//nolint:gochecknoglobals // see commitScript
var defineScript = redis.NewScript(`
if (redis.call('HGET', KEYS[1], 'latest') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
`)

// renewScript sets for how long a message has been left alone: not at all, or so
// long that anybody may claim it. KEYS: stream. ARGV: group, entry, consumer, milliseconds.
//
//nolint:gochecknoglobals // see commitScript
var renewScript = redis.NewScript(mine + `
if not mine() then return 0 end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, ARGV[2], 'IDLE', ARGV[4], 'JUSTID')
return 1
`)
