-- Commits transitions of executions, one after the other, each completely or not at all. One that
-- fails does not affect other executions. All later transitions of its own execution fail as
-- conflicts, because they were decided on its outcome.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   index of open executions
-- KEYS[4]   index of faulted executions
-- KEYS[5]   index of completed executions
-- KEYS[6]   index of cancelled executions
-- KEYS[7…]  for each transition: hash of the execution, its history, the sets of listeners to join
--           and those to leave, and if it ends the execution the key for a copy of the history; at
--           the end the stream of dead letters, if there is one to write
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   tenant
-- ARGV[4]   lowest entry id of the messages that are answered, '' for none
-- ARGV[5]   highest entry id of these messages
-- ARGV[6]   how many pending entries to look at
-- ARGV[7]   n, the number of arguments for the dead letter of the first transition's message, or 0
-- ARGV[8…]  n field names and values of the dead letter, then the transitions
--
-- A transition is the arguments that are read into a table below; then field names and values of
-- the execution, the events of the history, the events to publish, and the timers to cancel, each as
-- member and tombstone. An event is as in event.lua. An event to publish may also be
--   'history', i, n, and n field names and values: the i-th of the history with further fields
--
-- Returns for each transition: 0 committed, 1 the execution has another version, 2 the consumer no
-- longer owns the message, or the text of an error.
--
-- Everything that can fail is checked before the first write. Only the first XADD to the history
-- checks by itself that the key is a stream without this version.

local keys, args = KEYS, ARGV -- locals are faster than globals
local stream, timers, open, faulted = keys[1], keys[2], keys[3], keys[4]
local group, consumer, tenant, limit = args[1], args[2], args[3], tonumber(args[6])
local dead_letter = tonumber(args[7])
local acks, lost, types = {}, {}, {}

local found_all = args[4] == '' or find_mine(stream, group, consumer, args[4], args[5], limit) < limit

local function read(at, key)
  return {
    length = tonumber(args[at]), entry = args[at + 1], acknowledge = args[at + 2] == '1',
    id = args[at + 3], score = args[at + 4], version = args[at + 5], status = args[at + 6],
    index = keys[tonumber(args[at + 7])], -- index of the final status, nil if the execution has not ended
    damaged = args[at + 8] == '1',        -- its history is known to be gone
    even_if_full = args[at + 9] == '1',
    join = tonumber(args[at + 10]), leave = tonumber(args[at + 11]),
    fields = tonumber(args[at + 12]), events = tonumber(args[at + 13]),
    publish = tonumber(args[at + 14]), cancel = tonumber(args[at + 15]),
    first = at + 16,                      -- of the fields
    execution = keys[key], history = keys[key + 1], listeners = key + 2,
  }
end

local function wrong_type(key, want)
  types[key] = types[key] or redis.call('TYPE', key)['ok']
  if types[key] ~= 'none' and types[key] ~= want then
    return 'WRONGTYPE ' .. key .. ' is a ' .. types[key] .. ', want a ' .. want
  end
end

local function wrong_types(t, retried)
  local wrong = t.publish > 0 and wrong_type(stream, 'stream') or t.cancel > 0 and wrong_type(timers, 'zset')
    or t.index and wrong_type(t.index, 'zset')
    or (t.index or retried or t.version == '0') and (wrong_type(open, 'zset') or wrong_type(faulted, 'zset'))
  for i = t.listeners, t.listeners + t.join + t.leave - 1 do wrong = wrong or wrong_type(keys[i], 'set') end
  return wrong
end

-- Returns the position of each event, the position after the last one, and the error if any.
local function append(t)
  local places, at = {}, t.first + t.fields
  for i = 1, t.events do
    local done = add_event(t.history, t.version + i, tenant, at)
    if done['err'] then return places, at, done['err'] end
    places[i] = at
    at = after_event(at)
  end
  return places, at
end

local function publish(t, places, at)
  for _ = 1, t.publish do
    local done
    if args[at] == 'history' then
      local last = at + 2 + args[at + 2]
      done = add_event(stream, '*', tenant, places[tonumber(args[at + 1])], at + 3, last)
      at = last + 1
    else
      done = add_event(stream, '*', tenant, at)
      at = after_event(at)
    end
    if done['err'] then error(done['err'], 0) end
  end
  return at
end

-- A timer that is not set yet must not be set by an event that arrives later: its tombstone in the
-- hash of the execution prevents that.
local function cancel(t, at)
  for i = at, at + 2 * t.cancel - 1, 2 do
    local member, tombstone = args[i], args[i + 1]
    if redis.call('ZREM', timers, member) == 0 and not remove_moved(timers, t.execution, tombstone) and not t.index then
      redis.call('HSET', t.execution, tombstone, '1', 'notes', '1')
    end
  end
end

local function listen(t)
  local leave = t.listeners + t.join
  for i = t.listeners, leave - 1 do redis.call('SADD', keys[i], t.id) end
  for i = leave, leave + t.leave - 1 do redis.call('SREM', keys[i], t.id) end
end

local function index(t, retried, status)
  if t.index then
    redis.call('ZADD', t.index, t.score, t.id)
    redis.call('ZREM', open, t.id)
  elseif retried then
    redis.call('ZADD', open, t.score, t.id)
  elseif t.version == '0' and status ~= 'pending' then -- start.lua has added a pending one
    redis.call('ZADD', open, 'NX', t.score, t.id)
  end
  if retried and t.index ~= faulted then redis.call('ZREM', faulted, t.id) end
end

-- An execution that has ended needs neither its snapshot nor its fields about timers. Before 2026-11-23
-- the snapshot was in state and state_version.
local function clean(t, snapshot, notes)
  if snapshot then redis.call('HDEL', t.execution, 'snapshot', 'snapshot_version', 'state', 'state_version') end
  if not notes then return end
  for _, name in ipairs(redis.call('HKEYS', t.execution)) do
    if name == 'notes' or string.find(name, ':', 1, true) then redis.call('HDEL', t.execution, name) end
  end
end

-- A stream reserves memory for further entries, more than a small history needs. A copy does not.
-- Not every Redis has COPY.
local function compact(history, copy)
  if redis.pcall('COPY', history, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, history) end
end

local function commit(t)
  if t.entry ~= '' and not mine[t.entry] and (found_all or find_mine(stream, group, consumer, t.entry, t.entry, 1) == 0) then return 2 end
  local is = redis.pcall('HMGET', t.execution, 'version', 'status', 'snapshot_version', 'state_version', 'notes')
  if is['err'] then return is['err'] end
  local version, status = is[1] or '0', is[2]
  if version ~= t.version then return 1 end
  if version ~= '0' and not t.damaged and redis.pcall('XLEN', t.history) == 0 then
    return 'the history of execution ' .. t.id .. ' is gone, it had ' .. version .. ' entries'
  end
  local retried = status == 'faulted' and t.events > 0
  local wrong = wrong_types(t, retried)
  if wrong then return wrong end

  local places, at, failed = append(t)
  if failed and t.even_if_full and string.find(failed, 'OOM', 1, true) == 1 then -- nothing is written yet
    redis.call('PERSIST', stream) -- see even_if_full.lua
    places, at, failed = append(t)
  end
  if failed then return failed end
  if retried then redis.call('HDEL', t.execution, 'output', 'error', 'ended') end
  if t.events > 0 or status ~= t.status then
    redis.call('HSET', t.execution, 'version', t.version + t.events, 'status', t.status, unpack(args, t.first, t.first + t.fields - 1))
  end
  at = publish(t, places, at)
  cancel(t, at)
  listen(t)
  index(t, retried, status)
  if t.index then
    clean(t, is[3] or is[4], is[5])
    if t.version + t.events <= 50 then compact(t.history, keys[t.listeners + t.join + t.leave]) end
  end
  if t.acknowledge then acks[#acks + 1] = t.entry end
  return 0
end

if dead_letter > 0 then
  local wrong = wrong_type(keys[#keys], 'stream')
  if wrong then return {wrong} end
end
local out, at, key = {}, 8 + dead_letter, 7
while at <= #args do
  local t = read(at, key)
  local outcome = lost[t.execution] and 1 or commit(t)
  if outcome ~= 0 then lost[t.execution] = true end
  out[#out + 1] = outcome
  at, key = at + t.length, t.listeners + t.join + t.leave + (t.index and 1 or 0)
end
if dead_letter > 0 and out[1] == 0 then redis.call('XADD', keys[#keys], '*', unpack(args, 8, 7 + dead_letter)) end
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
return out
