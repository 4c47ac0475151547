-- Commits transitions of executions, one after the other, each completely or not at all. A
-- transition that fails does not affect other executions. All later transitions of its own
-- execution fail as conflicts, because they were decided on its outcome.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   index of open executions
-- KEYS[4]   index of faulted executions
-- KEYS[5]   index of completed executions
-- KEYS[6]   index of cancelled executions
-- KEYS[7]   timer keys, see timer_keys.lua
-- KEYS[8]   forgotten timer keys
-- KEYS[9]   records of what became of inputs
-- KEYS[10…] for each transition: hash of the execution, its history, the sets of listeners to join
--           and those to leave, and, if it ends the execution, the key for a copy of the history;
--           finally the stream of dead letters, if a dead letter is to be written
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   tenant
-- ARGV[4]   lowest entry id of the messages that are answered, '' for none
-- ARGV[5]   highest entry id of these messages
-- ARGV[6]   maximum number of pending entries to examine
-- ARGV[7]   '1' if groups skip events that their services ignore
-- ARGV[8]   n, the number of arguments for the dead letter of the first transition's message, or 0
-- ARGV[9…]  n field names and values of the dead letter, then the transitions
--
-- A transition consists of the arguments that are read into a table below, field names and values
-- of the execution, the events of the history, the events to publish, the timers to cancel, each as
-- member and tombstone, and the outcome of an input. An event is as in event.lua. An event to publish
-- may also be
--   'history', i, n, and n field names and values: the i-th of the history with additional fields
-- The outcome of an input is
--   its note (see set_timers.lua); to park it, a score, the member of the timer that ends the parking,
--   and the id, the time and the data of its event, else '' five times; and the fields of a record, if any
--
-- Returns for each transition: 0 committed, 1 the execution has another version, 2 the consumer no
-- longer owns the message, or the message of an error.
--
-- Everything that can fail is checked before the first write, except that the first XADD to the
-- history itself checks that the key is a stream without this version.

local keys, args = KEYS, ARGV -- locals are faster than globals
local stream, timers, open, faulted = keys[1], keys[2], keys[3], keys[4]
local timer_keys, forgotten, inputs = keys[7], keys[8], keys[9]
local group, consumer, tenant, limit = args[1], args[2], args[3], tonumber(args[6])
local dead_letter = tonumber(args[8])
local acks, lost, types, groups = {}, {}, {}, args[7] ~= '1' and {} or nil

local found_all = args[4] == '' or find_mine(stream, group, consumer, args[4], args[5], limit) < limit
types[stream] = next(mine) and 'stream' -- has pending entries

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
    input = tonumber(args[at + 16]),      -- number of arguments of the input's outcome, 0 if there is none
    first = at + 17,                      -- position of the fields
    execution = keys[key], history = keys[key + 1], listeners = key + 2,
  }
end

local function wrong_type(key, want)
  types[key] = types[key] or redis.call('TYPE', key)['ok']
  if types[key] ~= 'none' and types[key] ~= want then
    return 'WRONGTYPE ' .. key .. ' is a ' .. types[key] .. ', want a ' .. want
  end
end

local function wrong_types(t, retried, notes)
  local inputs_change = t.input > 0 or notes and (t.index or t.join > 0)
  local wrong = t.publish > 0 and wrong_type(stream, 'stream') or (t.cancel > 0 or inputs_change) and wrong_type(timers, 'zset')
    or t.index and wrong_type(t.index, 'zset')
    or inputs_change and (wrong_type(timer_keys, 'hash') or wrong_type(forgotten, 'zset'))
    or t.input > 6 and wrong_type(inputs, 'stream')
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
  if t.publish > 0 then groups = groups or skippers(stream) end
  for _ = 1, t.publish do
    local done, place
    if args[at] == 'history' then
      local last = at + 2 + args[at + 2]
      place = places[tonumber(args[at + 1])]
      done = add_event(stream, '*', tenant, place, at + 3, last)
      at = last + 1
    else
      place = at
      done = add_event(stream, '*', tenant, place)
      at = after_event(at)
    end
    if done['err'] then error(done['err'], 0) end
    appended(groups, done, type_of(place))
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
  return at + 2 * t.cancel
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

-- An input is listed in its execution until it has fired. A parked input has two fields: the note
-- holds the timer that ends the parking, and "parked:<identity>" what is needed to deliver it earlier.
local function take_input(t, at)
  local note, score, member = args[at], args[at + 1], args[at + 2]
  local identity, listed = string.sub(note, 7), redis.call('HGET', t.execution, note)
  local set = listed and redis.call('ZSCORE', timers, listed)
  if score ~= '' and not set then -- otherwise its key was set again
    local kept = redis.call('HGET', timer_keys, identity)
    redis.call('ZADD', timers, score, member)
    redis.call('HSET', timer_keys, identity, (kept and string.sub(kept, 1, 40) or string.rep('0', 40)) .. ' ' .. member)
    redis.call('ZREM', forgotten, identity)
    redis.call('HSET', t.execution, note, member, 'parked:' .. identity, table.concat({member, unpack(args, at + 3, at + 5)}, '\n'),
      'parked', '1', 'notes', '1')
  elseif listed and not set then
    redis.call('HDEL', t.execution, note, 'parked:' .. identity)
  end
  if t.input > 6 then redis.call('XADD', inputs, 'MAXLEN', '~', 10000, '*', unpack(args, at + 6, at + t.input - 1)) end
end

-- A listen task begins: parked inputs are delivered again, and the task may consume them.
local function deliver_parked(t)
  for _, name in ipairs(redis.call('HKEYS', t.execution)) do
    if string.sub(name, 1, 7) == 'parked:' then
      local identity, parked = string.sub(name, 8), redis.call('HGET', t.execution, name)
      local member, id, time, data = string.match(parked, '^(.-)\n(.-)\n(.-)\n(.*)$')
      if redis.call('HGET', t.execution, 'input:' .. identity) == member and redis.call('ZSCORE', timers, member) then
        local done = redis.pcall('XADD', stream, '*', 'id', id .. '/parked/' .. t.version, 'source', '/flunq/worker', 'specversion', '1.0',
          'type', 'io.flunq.timer.fired', 'time', time, 'tenantid', tenant, 'executionid', t.id, 'data', data)
        if done['err'] then return end -- they stay parked
        appended(groups or {}, done, 'io.flunq.timer.fired')
        redis.call('ZREM', timers, member)
        settle(timer_keys, forgotten, identity, member)
      end
      redis.call('HDEL', t.execution, name)
    end
  end
  redis.call('HDEL', t.execution, 'parked')
end

-- An execution that has ended no longer needs its snapshot nor its fields about timers, and no input
-- reaches it. Before 2026-11-23 the snapshot was stored in state and state_version.
local function clean(t, snapshot, notes)
  if snapshot then redis.call('HDEL', t.execution, 'snapshot', 'snapshot_version', 'state', 'state_version') end
  if not notes then return end
  for _, name in ipairs(redis.call('HKEYS', t.execution)) do
    if string.sub(name, 1, 6) == 'input:' then
      local member = redis.call('HGET', t.execution, name)
      redis.call('ZREM', timers, member)
      settle(timer_keys, forgotten, string.sub(name, 7), member)
    end
    if name == 'notes' or name == 'parked' or string.find(name, ':', 1, true) then redis.call('HDEL', t.execution, name) end
  end
end

-- A stream reserves memory for future entries, more than a small history needs. A copy does not.
-- Not every Redis has COPY.
local function compact(history, copy)
  if redis.pcall('COPY', history, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, history) end
end

local function commit(t)
  if t.entry ~= '' and not mine[t.entry] and (found_all or find_mine(stream, group, consumer, t.entry, t.entry, 1) == 0) then return 2 end
  local is = redis.pcall('HMGET', t.execution, 'version', 'status', 'snapshot_version', 'state_version', 'notes', 'parked')
  if is['err'] then return is['err'] end
  local version, status = is[1] or '0', is[2]
  if version ~= t.version then return 1 end
  if version ~= '0' and not t.damaged and redis.pcall('XLEN', t.history) == 0 then
    return 'the history of execution ' .. t.id .. ' is gone, it had ' .. version .. ' entries'
  end
  local retried = status == 'faulted' and t.events > 0
  local wrong = wrong_types(t, retried, is[5])
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
  at = cancel(t, at)
  if t.input > 0 then take_input(t, at) end
  listen(t)
  if t.join > 0 and is[6] and not t.index then deliver_parked(t) end
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
local out, at, key = {}, 9 + dead_letter, 10
while at <= #args do
  local t = read(at, key)
  local outcome = lost[t.execution] and 1 or commit(t)
  if outcome ~= 0 then lost[t.execution] = true end
  out[#out + 1] = outcome
  at, key = at + t.length, t.listeners + t.join + t.leave + (t.index and 1 or 0)
end
if dead_letter > 0 and out[1] == 0 then redis.call('XADD', keys[#keys], '*', unpack(args, 9, 8 + dead_letter)) end
if groups then skip(stream, groups) end
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
return out
