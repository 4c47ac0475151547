-- Sets and cancels timers as requested by messages of one consumer, in order, and acknowledges the
-- messages that the consumer still owns.
--
-- A timer is set unless its execution has ended or has already cancelled it. A timer with a key
-- replaces the timer with that key, unless that one is newer. Another program, whose executions are
-- unknown here, may request a timer twice: it is not set again after it has fired.
-- A cancellation removes the timer with a key, unless it was set later; without a key, it removes
-- exactly its timer, even if an operator has moved it.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   timer keys, see timer_keys.lua
-- KEYS[4]   forgotten timer keys
-- KEYS[5]   recent requests of other programs: the SHA-1 of each member, by time in seconds
-- KEYS[6…]  hash of the execution of each message
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   lowest entry id of the messages
-- ARGV[4]   highest entry id of the messages
-- ARGV[5…]  for each message: entry id, 'set' or 'cancel', and the timer's score, member, note,
--           identity ('k' and a key, or 'm' and the timer), and order
--
-- The note is the field of the execution that is the timer's tombstone or, with the prefix 'input:',
-- that holds the member of a pending input.
--
-- Returns seconds and microseconds of the clock, a character for each message ('1' done, '0' the
-- consumer no longer owns the message, '!' an error), and the errors in order.
--
-- Everything that can fail is checked before anything is written for a message.

local stream, timers, keys, forgotten, asked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, consumer, first, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local over = {completed = true, faulted = true, cancelled = true}
local time = redis.call('TIME')

find_mine(stream, group, consumer, first, last, 10000)

local function wrong_type(key, want)
  local is = redis.call('TYPE', key)['ok']
  if is ~= 'none' and is ~= want then return 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', want a ' .. want end
end
local wrong = wrong_type(timers, 'zset') or wrong_type(keys, 'hash') or wrong_type(forgotten, 'zset') or wrong_type(asked, 'zset')

-- A timer without a key has an entry only if it was cancelled before it was set, or moved.
local any_kept = not wrong and redis.call('HLEN', keys) > 0

-- The request being applied.
local entry, action, score, member, note, identity, order, execution, keyed, input

-- New timers are added by one ZADD, which costs Redis two thirds of adding each separately
-- (BenchmarkTimers). Code that reads the timers before the end calls add_new first.
local new = {}
local function add_new()
  if #new > 0 then redis.call('ZADD', timers, unpack(new)) end
  new = {}
end

local function set(status)
  local kept = (keyed or any_kept) and redis.call('HGET', keys, identity)
  if kept and string.sub(kept, 1, 40) >= order then return end
  new[#new + 1], new[#new + 2] = score, member
  if not keyed then return end
  add_new()
  if kept and string.sub(kept, 42) ~= member then redis.call('ZREM', timers, string.sub(kept, 42)) end
  redis.call('HSET', keys, identity, order .. ' ' .. member)
  redis.call('ZREM', forgotten, identity)
  if input and status then redis.call('HSET', execution, note, member, 'notes', '1') end
end

local function cancel(status)
  add_new()
  any_kept = true
  local kept = redis.call('HGET', keys, identity)
  if keyed then
    if not kept or string.sub(kept, 1, 40) < order then
      if kept then redis.call('ZREM', timers, string.sub(kept, 42)) end
      if kept and input then redis.call('HDEL', execution, note) end
      forget(keys, forgotten, identity, order)
    end
  elseif redis.call('ZREM', timers, member) == 1 or remove_moved(timers, execution, note) then
    return
  elseif kept and #kept > 41 then -- the timer was moved, and its execution is unknown here
    redis.call('ZREM', timers, string.sub(kept, 42))
    forget(keys, forgotten, identity, string.sub(kept, 1, 40))
  elseif not status and tonumber(score) > tonumber(time[1]) then
    forget(keys, forgotten, identity, order)
    redis.call('ZADD', forgotten, time[1], 'm') -- for engines before 2026-11-23, which look for it
  end
end

-- A program that does not learn whether its event was written may write it again. Requests for
-- timers that are due within 5 minutes are remembered for 5 minutes, up to the last 100,000: a timer
-- that is due later cannot have fired in the meantime.
local window, most, now, marks = 300, 100000, time[1] + time[2] / 1000000, {}
local function has_fired()
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

local function apply()
  local known = redis.pcall('HMGET', execution, 'status', note)
  local why = known['err'] or wrong
  if why then return why end
  local status, cancelled = known[1], known[2]
  if action == 'cancel' then
    cancel(status)
  elseif not over[status] and not (not status and not keyed and has_fired()) then
    if input or not cancelled or redis.call('HDEL', execution, note) == 0 then set(status) end
  end
end

local acks, results, errors = {}, {}, {}
for at = 5, #ARGV, 7 do
  local i = #results + 1
  results[i] = '0'
  if mine[ARGV[at]] then
    entry, action, score, member, note, identity, order = unpack(ARGV, at, at + 6)
    execution, keyed, input = KEYS[5 + i], string.sub(identity, 1, 1) == 'k', string.sub(note, 1, 6) == 'input:'
    local why = apply()
    if why then
      results[i], errors[#errors + 1] = '!', why
    else
      results[i], acks[#acks + 1] = '1', entry
    end
  end
end
add_new()
remember()
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
return {time[1], time[2], table.concat(results), unpack(errors)}
