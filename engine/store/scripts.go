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

// replayScript takes a letter back into the stream it came from. KEYS: the
// letter's stream, the event's. ARGV: letter, then the event's fields.
//
//nolint:gochecknoglobals // see commitScript
var replayScript = redis.NewScript(evenIfFull + `
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))
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
