package store

import "github.com/redis/go-redis/v9"

// keyed is for scripts about timers of which there is one for each key: a hash
// says which, as the order of the event that set it (40 digits), a blank and the
// member. When that is gone, the order stays for an hour, so that an older event
// which is delivered late does not set its timer after all. So does that of another
// timer which was taken back before it was set, if no execution has notes of it.
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

// rouse is for scripts that set a timer which no event has asked for: services that
// sleep until a later one are told by an event, of which ARGV has the fields from
// some place to another, or to its end.
const rouse = `
local function rouse(timers, member, stream, from, to)
  if redis.call('ZRANGE', timers, 0, 0)[1] == member then redis.pcall('XADD', stream, '*', unpack(ARGV, from, to or #ARGV)) end
end
`

// whole is for scripts that answer messages which follow one another: whether a consumer
// has just these n. Nothing before the first of them, nothing behind the last, and n in
// all says it of any number at once. It does not say so of 0.
const whole = `
local function whole(stream, group, me, first, last, n)
  if n == 0 then return false end
  local all = redis.pcall('XPENDING', stream, group)
  if all['err'] then return false end
  local has = 0
  for _, owner in ipairs(all[4] or {}) do
    if owner[1] == me then has = tonumber(owner[2]) end
  end
  if has ~= n then return false end
  local head = redis.call('XPENDING', stream, group, '-', first, 2, me)
  local tail = redis.call('XPENDING', stream, group, last, '+', 2, me)
  return #head == 1 and head[1][1] == first and #tail == 1 and tail[1][1] == last
end
`

// setScript sets timers and takes them back, as messages of one consumer ask, in
// their order, and acknowledges those that are still the consumer's.
//
// A timer is set unless its execution has ended or has taken it back already; one
// with a key takes the place of an older one of that key, and is not set if that is
// newer. One that no execution here has asked for may be asked for twice, by a program that
// was not told whether its event was written: it is not set once more after it has fired.
// What is taken out is the timer of a key, unless it was set later, or else exactly this
// one, wherever it was moved to.
//
// KEYS: stream, timers, keys, forgotten keys, asked, then the execution of each message.
// ARGV: group, consumer, the first and the last of the entries, what to do for each
// message, as one letter: 't' to set a timer without a key if nobody has notes of
// such, 's' to set any, 'c' to take it back; how many messages there are if between
// the first and the last the consumer was given nothing else, or 0; the entries; of each timer its score and member; and of those with another letter than
// 't' the tombstone, identity and order.
//
// It returns the time, and what became of each: '1' it is done, '0' the message is not the
// consumer's any more, '!' it cannot be done, and of these in turn why; '?' it was not
// tried, as for the first of these more has to be known than was said. What could
// fail is looked at before anything is written for a message.
//
//nolint:gochecknoglobals // see commitScript
var setScript = redis.NewScript(unmove + keyed + whole + `
local stream, timers, keys, forgotten, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local args, executions, n = ARGV, KEYS, #ARGV[5] -- globals take long to find
local entries, places = 6, 5 + n
local rest = places + 2 * n + 2
local time = redis.call('TIME')
local mine = nil -- all
if not whole(stream, args[1], args[2], args[3], args[4], tonumber(args[6])) then
  local pending = redis.pcall('XPENDING', stream, args[1], args[3], args[4], 10000, args[2])
  if pending['err'] then
    if not string.find(pending['err'], 'NOGROUP', 1, true) then error(pending['err'], 0) end
    pending = {}
  end
  mine = {}
  for i = 1, #pending do mine[pending[i][1]] = true end
end

local function wrong(key, kind)
  local is = redis.call('TYPE', key)['ok']
  if is ~= 'none' and is ~= kind then return 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', want a ' .. kind end
end
local broken = wrong(timers, 'zset') or wrong(keys, 'hash') or wrong(forgotten, 'zset') or wrong(asked, 'zset')

local begun = nil -- the first of those that are set at once
local function flush(before)
  if begun then redis.call('ZADD', timers, unpack(args, places + 2 * begun, places + 2 * before - 1)) end
  begun = nil
end
-- When a timer without a key was forgotten last: no identity is so short.
local lately = not broken and redis.call('ZSCORE', forgotten, 'm')
local forgets = lately and tonumber(lately) > time[1] - 3600
local function set(score, member, identity, order)
  local kept = redis.call('HGET', keys, identity)
  if kept and string.sub(kept, 1, 40) >= order then return end
  redis.call('ZADD', timers, score, member)
  if string.sub(identity, 1, 1) ~= 'k' then return end
  if kept and string.sub(kept, 42) ~= member then redis.call('ZREM', timers, string.sub(kept, 42)) end
  redis.call('HSET', keys, identity, order .. ' ' .. member)
  redis.call('ZREM', forgotten, identity)
end
local function take(execution, score, member, tombstone, identity, order, status)
  local kept = redis.call('HGET', keys, identity)
  if string.sub(identity, 1, 1) == 'k' then
    if not kept or string.sub(kept, 1, 40) < order then
      if kept then redis.call('ZREM', timers, string.sub(kept, 42)) end
      forget(keys, forgotten, identity, order)
    end
  elseif redis.call('ZREM', timers, member) == 1 or unmove(timers, execution, tombstone) then
    return
  elseif kept and #kept > 41 then
    redis.call('ZREM', timers, string.sub(kept, 42))
    forget(keys, forgotten, identity, string.sub(kept, 1, 40))
  elseif not status and tonumber(score) > tonumber(time[1]) then
    forget(keys, forgotten, identity, order)
    redis.call('ZADD', forgotten, time[1], 'm')
    forgets = true
  end
end

-- Timers of other programs that are due within some minutes are remembered for as long, and
-- the last ones of very many. Before they are due they cannot have fired.
local window, most, now, marks = 300, 100000, time[1] + time[2] / 1000000, {}
local function again(score, member)
  if score - now > window then return false end
  local mark = redis.sha1hex(member)
  marks[#marks + 1], marks[#marks + 2] = time[1], mark
  return score - now < 0.001 and redis.call('ZSCORE', asked, mark)
end
local function remember()
  if #marks == 0 then return end
  redis.call('ZREMRANGEBYSCORE', asked, '-inf', time[1] - window)
  redis.call('ZADD', asked, unpack(marks))
  redis.call('ZREMRANGEBYRANK', asked, 0, -most - 1)
end

local ended = {completed = true, faulted = true, cancelled = true}
local done, left, whys, tried = {}, 0, {}, n
-- Timers that other programs ask for are of no executions.
local none = redis.call('EXISTS', executions[6]) == 0 and redis.call('EXISTS', unpack(executions, 6)) == 0 and {}
local function unsure(known) return not ended[known[1]] and (known[2] or forgets and not known[1]) end
local looks, at = {}, rest
for i = 1, n do
  local what = string.sub(args[5], i, i)
  local note = what == 't' and 'notes' or args[at]
  local known = (not mine or mine[args[entries + i]]) and (none or redis.pcall('HMGET', executions[i + 5], 'status', note))
  looks[i] = known
  if what ~= 't' then at = at + 3 end
end
for i = 1, n do
  local execution, what, known = executions[i + 5], string.sub(args[5], i, i), looks[i]
  local why = known and (known['err'] or broken)
  local usual = known and not why and what == 't' and not ended[known[1]]
  if usual and unsure(known) then
    tried = i - 1
    break
  end
  local foreign = known and not why and what ~= 'c' and not known[1] and (what == 't' or string.sub(args[rest + 1], 1, 1) == 'm')
  local repeated = foreign and again(args[places + 2 * i], args[places + 2 * i + 1])
  if usual and not repeated then
    begun = begun or i
  else
    flush(i)
  end
  if not known or why then
    done[i], left = known and '!' or '0', left + 1
    whys[#whys + 1] = why
  elseif what == 'c' then
    take(execution, args[places + 2 * i], args[places + 2 * i + 1], args[rest], args[rest + 1], args[rest + 2], known[1])
  elseif not usual and not repeated and not ended[known[1]] then
    if not known[2] or redis.call('HDEL', execution, args[rest]) == 0 then
      set(args[places + 2 * i], args[places + 2 * i + 1], args[rest + 1], args[rest + 2])
    end
  end
  if what ~= 't' then rest = rest + 3 end
end
flush(tried + 1)
remember()
for i = tried + 1, n do done[i], left = '?', left + 1 end
if left == 0 then
  redis.call('XACK', stream, args[1], unpack(args, entries + 1, entries + n))
else
  local acks = {}
  for i = 1, n do
    if not done[i] then done[i], acks[#acks + 1] = '1', args[entries + i] end
  end
  if #acks > 0 then redis.call('XACK', stream, args[1], unpack(acks)) end
end
return {time[1], time[2], left == 0 and string.rep('1', n) or table.concat(done), unpack(whys)}
`)

// retryScript puts a message off. KEYS: stream, timers. ARGV: group, entry, consumer,
// score, member, then the fields of the event that tells of it.
//
//nolint:gochecknoglobals // see commitScript
var retryScript = redis.NewScript(evenIfFull + mine + rouse + `
if not mine() then return 0 end
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
rouse(KEYS[2], ARGV[5], KEYS[1], 6)
return 1
`)

// unread is for scripts that publish what is nothing to a group. If it has read all
// there was of a stream by then, it has read that as well: it would only have to
// acknowledge it.
const unread = `
local function standing(stream, name)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups['err'] then return end
  for i = 1, #groups do
    local group = {}
    if groups[i][2] == name then -- the first thing that is said of each
      for j = 1, #groups[i], 2 do group[groups[i][j]] = groups[i][j + 1] end
      local rest = redis.pcall('XRANGE', stream, '(' .. group['last-delivered-id'], '+', 'COUNT', 1)
      if #rest == 0 and not rest['err'] then return {read = group['entries-read'], more = 0} end
    end
  end
end
local function skip(stream, name, at)
  if at.read then
    redis.pcall('XGROUP', 'SETID', stream, name, at.last, 'ENTRIESREAD', at.read + at.more)
  else
    redis.pcall('XGROUP', 'SETID', stream, name, at.last)
  end
end
`

// fireScript publishes what is due, and only then takes it out; a timer whose
// stream cannot be written stays, and does not keep the others.
//
// KEYS: timers, keys, forgotten keys, then the streams. ARGV: the time of the
// events, the microsecond at which the last of the timers is due, how many there
// are, and a group that passes TimerFired by, or ”; the tenant of each stream, the
// members of all timers; then for each timer the number of its stream, and of
// TimerFired the id, workflow, execution, task and data; or that number below zero,
// the timer's identity or ”, and the count of its entry's fields and these.
//
// It returns how many have fired, and what went wrong first, if anything did. As
// long as one of them is not due, none fires.
//
//nolint:gochecknoglobals // see commitScript
var fireScript = redis.NewScript(keyed + unread + `
local timers, told, n, group = KEYS[1], ARGV[1], tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
if tonumber(time[1]) * 1000000 + tonumber(time[2]) < tonumber(ARGV[2]) then return {0, ''} end
local first, stands = #KEYS + 2, {}
for i = 4, #KEYS do
  if group ~= '' then stands[i - 3] = standing(KEYS[i], group) end
end
local there = redis.call('ZMSCORE', timers, unpack(ARGV, first, first + n - 1))
local at, fired, noted, wrong = first + n, {}, {}, ''
for i = 1, n do
  local stream = tonumber(ARGV[at])
  local last = stream > 0 and at + 5 or at + 2 + tonumber(ARGV[at + 2])
  if there[i] then
    local entry, identity
    if stream > 0 then
      entry = redis.pcall('XADD', KEYS[stream + 3], '*', 'id', ARGV[at + 1], 'source', '/flunq/timer', 'specversion', '1.0',
        'type', 'io.flunq.timer.fired', 'time', told, 'tenantid', ARGV[stream + 4], 'workflowid', ARGV[at + 2],
        'executionid', ARGV[at + 3], 'taskid', ARGV[at + 4], 'data', ARGV[at + 5])
    else
      identity = ARGV[at + 1]
      entry = redis.pcall('XADD', KEYS[3 - stream], '*', unpack(ARGV, at + 3, last))
      stands[-stream] = nil
    end
    local member = ARGV[first + i - 1]
    if type(entry) == 'table' and entry['err'] then
      if wrong == '' then wrong = entry['err'] end
    else
      fired[#fired + 1] = member
      if identity and identity ~= '' then noted[#noted + 1] = {identity, member} end
      local stand = stands[stream]
      if stand then stand.last, stand.more = entry, stand.more + 1 end
    end
  end
  at = last + 1
end
if #fired > 0 then redis.call('ZREM', timers, unpack(fired)) end
for i = 4, #KEYS do
  local stand = stands[i - 3]
  if stand and stand.last then skip(KEYS[i], group, stand) end
end
for i = 1, #noted do settle(KEYS[2], KEYS[3], noted[i][1], noted[i][2]) end
return {#fired, wrong}
`)

// replayTimerScript takes the letter of a timer back among the timers. KEYS: the
// letter's stream, timers, stream. ARGV: letter, score, member, then the fields of
// the event that tells of it.
//
//nolint:gochecknoglobals // see commitScript
var replayTimerScript = redis.NewScript(evenIfFull + rouse + `
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[1])
rouse(KEYS[2], ARGV[3], KEYS[3], 4)
return 1
`)
