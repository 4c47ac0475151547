package store

import "github.com/redis/go-redis/v9"

// commitScript makes transitions of executions, one after the other: each of them
// whole, or not at all, whatever becomes of those before it.
//
// KEYS: stream, timers, and the indexes of open, of faulted, of completed and of
// cancelled executions; then for each transition its execution, its history, and
// the listeners to join and to leave. ARGV: group, consumer, tenant; then for each
// transition the place behind its last argument, its first key, entry (” for
// none), version, whether to acknowledge, the index that it ends in (0: it does not
// end), the execution's id, its workflow, its score in the indexes, and how many
// there are of: fields of the execution, history entries, events to publish, timers
// to cancel, listeners to join and to leave; then these in turn, status first among
// the fields, timers each as member and tombstone. An entry or event is the count of
// its fields and these; or, since each argument costs, ” and only what differs
// between those of one execution: its id, source, type, time, task (” for none),
// data and definition (” for none).
//
// What could fail is looked at before anything is written; the first entry of the
// history fails by itself if that is no history, or has the version already.
// History behind the end of a faulted execution is that it was retried: it is open
// again, and what it ended with goes.
//
// Where one does not come about, none of the same execution behind it does: it was
// decided on what that one would have made, whatever version another has made.
//
// It returns for each transition 0 if it is done, 1 if the version is another, 2 if
// the message is not the consumer's any more, or what is wrong.
//
//nolint:gochecknoglobals // scripts are constants that go-redis wraps
var commitScript = redis.NewScript(unmove + `
local stream, timers, open, faulted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kinds, acks, lost = {}, {}, {}

local function mine(entry)
  local p = redis.pcall('XPENDING', stream, ARGV[1], entry, entry, 1)
  if p['err'] then
    if string.find(p['err'], 'NOGROUP', 1, true) then return false end
    error(p['err'], 0)
  end
  return #p == 1 and p[1][2] == ARGV[2]
end

local function wrong(key, kind)
  local is = kinds[key]
  if not is then
    is = redis.call('TYPE', key)['ok']
    kinds[key] = is
  end
  if is ~= 'none' and is ~= kind then return 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', want a ' .. kind end
end

local function unsound(t)
  local bad = t.publish > 0 and wrong(stream, 'stream') or t.cancel > 0 and wrong(timers, 'zset')
    or t.shelf > 0 and wrong(KEYS[t.shelf], 'zset')
    or (t.shelf > 0 or t.retried or t.version == '0') and (wrong(open, 'zset') or wrong(faulted, 'zset'))
  for i = t.key + 2, t.key + 1 + t.join + t.leave do bad = bad or wrong(KEYS[i], 'set') end
  return bad
end

-- A stream keeps the names of fields once for those that have the first one's: all of
-- a history have a task, if only an empty one.
local function add(t, key, entry, at)
  local n = ARGV[at]
  if n ~= '' then return redis.pcall('XADD', key, entry, unpack(ARGV, at + 1, at + n)), at + n + 1 end
  local id, source, kind, time, task, data, definition = unpack(ARGV, at + 1, at + 7)
  at = at + 8
  if task == '' and key == stream then
    return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
      'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'data', data), at
  elseif definition == '' then
    return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
      'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'taskid', task, 'data', data), at
  end
  return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
    'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'taskid', task, 'data', data, 'definition', definition), at
end

local function append(t, at)
  local version, done = tonumber(t.version), nil
  for i = 1, t.history do
    version = version + 1
    done, at = add(t, KEYS[t.key + 1], string.format('%d-0', version), at)
    if type(done) == 'table' and done['err'] then return at, done['err'] end
  end
  return at, nil, string.format('%d', version)
end

local function publish(t, at)
  local done
  for i = 1, t.publish do
    done, at = add(t, stream, '*', at)
    if type(done) == 'table' and done['err'] then error(done['err'], 0) end
  end
  return at
end

local function cancel(t, at)
  for i = 1, t.cancel do
    local member, tombstone = ARGV[at], ARGV[at + 1]
    if redis.call('ZREM', timers, member) == 0 and not unmove(timers, KEYS[t.key], tombstone) and t.shelf == 0 then
      redis.call('HSET', KEYS[t.key], tombstone, '1')
    end
    at = at + 2
  end
end

local function listen(t)
  local first = t.key + 2
  for i = first, first + t.join - 1 do redis.call('SADD', KEYS[i], t.id) end
  for i = first + t.join, first + t.join + t.leave - 1 do redis.call('SREM', KEYS[i], t.id) end
end

local function file(t, status)
  local ended = t.shelf > 0
  if ended or t.retried then
    redis.call('ZADD', ended and KEYS[t.shelf] or open, t.score, t.id)
    if ended then redis.call('ZREM', open, t.id) end
    if t.retried and KEYS[t.shelf] ~= faulted then redis.call('ZREM', faulted, t.id) end
  elseif t.version == '0' and status ~= 'pending' then -- whoever has started it has filed it
    redis.call('ZADD', open, 'NX', t.score, t.id)
  end
  if not ended then return end
  for _, name in ipairs(redis.call('HKEYS', KEYS[t.key])) do
    local note = string.match(name, '^%a+:?')
    if note == 'gone:' or note == 'moved:' or name == 'state' or name == 'state_version' then
      redis.call('HDEL', KEYS[t.key], name)
    end
  end
end

-- A stream has room set aside for what may follow, which is more than the whole
-- history of a small execution; read back, it has none. Not every Redis can do this.
local function compact(history)
  local text = redis.pcall('DUMP', history)
  if type(text) == 'string' then redis.pcall('RESTORE', history, '0', text, 'REPLACE') end
end

local function transition(at)
  local function number(n) return tonumber(ARGV[at + n]) end
  local t = {key = number(1), version = ARGV[at + 3], shelf = number(5), id = ARGV[at + 6], workflow = ARGV[at + 7], score = ARGV[at + 8],
    fields = number(9), history = number(10), publish = number(11), cancel = number(12), join = number(13), leave = number(14)}
  local entry, acknowledge = ARGV[at + 2], ARGV[at + 4] == '1'
  if entry ~= '' and not mine(entry) then return 2 end
  local is = redis.pcall('HMGET', KEYS[t.key], 'version', 'status')
  if is['err'] then return is['err'] end
  local version, status = is[1] or '0', is[2]
  if version ~= t.version then return 1 end
  t.retried = t.history > 0 and status == 'faulted'
  local bad = unsound(t)
  if bad then return bad end

  local fields = at + 15
  local behind, failed, reached = append(t, fields + t.fields)
  if failed then return failed end
  if t.retried then redis.call('HDEL', KEYS[t.key], 'output', 'error', 'ended') end
  if t.history > 0 or status ~= ARGV[fields + 1] then
    redis.call('HSET', KEYS[t.key], 'version', reached, unpack(ARGV, fields, fields + t.fields - 1))
  end
  cancel(t, publish(t, behind))
  listen(t)
  file(t, status)
  if t.shelf > 0 and tonumber(reached) <= 50 then compact(KEYS[t.key + 1]) end
  if acknowledge then acks[#acks + 1] = entry end
  return 0
end

local at, out = 4, {}
while at <= #ARGV do
  local execution = KEYS[tonumber(ARGV[at + 1])]
  local outcome = lost[execution] and 1 or transition(at)
  if outcome ~= 0 then lost[execution] = true end
  out[#out + 1] = outcome
  at = tonumber(ARGV[at])
end
if #acks > 0 then redis.call('XACK', stream, ARGV[1], unpack(acks)) end
return out
`)
