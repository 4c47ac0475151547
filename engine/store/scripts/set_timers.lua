-- Sets timers and takes them back, as messages to one consumer request, in their order, and
-- acknowledges the messages that are still the consumer's.
--
-- A timer is set unless its execution has ended or has taken it back already. A timer with a key
-- replaces the timer of that key, unless that is newer. A timer of another program, whose
-- execution is unknown here, may be requested twice: it is not set again after it has fired.
-- A cancellation removes the timer of a key, unless it was set later, or else exactly its timer,
-- even if an operator has moved it.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   timer keys
-- KEYS[4]   forgotten timer keys
-- KEYS[5]   recent requests of other programs, by the SHA-1 of the member
-- KEYS[6…]  hash of the execution of each message
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   lowest entry id of the messages
-- ARGV[4]   highest entry id of the messages
-- ARGV[5]   what to do for each message, one letter each: 't' set a timer without a key, unless
--           timers of its execution were taken back; 's' set any timer; 'c' take a timer back
-- ARGV[6]   how many messages there are if they follow each other in the stream, or 0
-- ARGV[7…]  entry ids of the messages; for each its score and member; and for each that is not
--           't' its tombstone, identity and order
--
-- Returns seconds and microseconds of the clock, a string with the result of each message, and the
-- errors in turn. The results are '1' done, '0' the message is not the consumer's any more, '!' an
-- error, '?' not tried: the first of these needs its tombstone, identity and order.
--
-- What could fail is checked before anything is written for a message.

local stream, timers, keys, forgotten, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local args, executions, n = ARGV, KEYS, #ARGV[5] -- globals take long to find
local entries, places = 6, 5 + n
local rest = places + 2 * n + 2
local time = redis.call('TIME')
local mine = nil -- all
if not holds(stream, args[1], args[2], args[3], args[4], tonumber(args[6])) then
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
  elseif redis.call('ZREM', timers, member) == 1 or remove_moved(timers, execution, tombstone) then
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
