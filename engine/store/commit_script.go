package store

import "github.com/redis/go-redis/v9"

// commitScript makes transitions of executions, one after the other: each of them
// whole, or not at all, whatever becomes of those before it.
//
// KEYS: stream, timers, and the indexes of open, of faulted, of completed and of
// cancelled executions; then for each transition its execution, its history, and
// the listeners to join and to leave. ARGV: group, consumer, tenant, the first and
// the last entry that is answered (” for none), how many pending ones to look at;
// then for each transition its counts, entry (” for none), version, the execution's id, its workflow and its
// score in the indexes; then its fields, status first, history entries, events to
// publish, and timers to cancel, each as member and tombstone. Since each argument
// costs, the counts are bytes of one (see [counts]), and an entry or event is ” and
// only what differs between those of one execution: its id, source, type, time, task
// (” for none) and data; or @, which entry of the history it is, and its definition
// (” for none); or the count of its fields and these.
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
var commitScript = redis.NewScript(ours + unmove + `
local stream, timers, open, faulted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kinds, acks, lost, marks, t = {}, {}, {}, {}, {}

local all = ARGV[4] == '' or look(stream, ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]) < tonumber(ARGV[6])

local function wrong(key, kind)
  local is = kinds[key]
  if not is then
    is = redis.call('TYPE', key)['ok']
    kinds[key] = is
  end
  if is ~= 'none' and is ~= kind then return 'WRONGTYPE ' .. key .. ' is a ' .. is .. ', want a ' .. kind end
end

local function unsound()
  local bad = t.publish > 0 and wrong(stream, 'stream') or t.cancel > 0 and wrong(timers, 'zset')
    or t.shelf > 0 and wrong(KEYS[t.shelf], 'zset')
    or (t.shelf > 0 or t.retried or t.version == '0') and (wrong(open, 'zset') or wrong(faulted, 'zset'))
  for i = t.key + 2, t.key + 1 + t.join + t.leave do bad = bad or wrong(KEYS[i], 'set') end
  return bad
end

-- A stream keeps the names of fields once for those that have the first one's: all of
-- a history have a task, if only an empty one.
local function add(key, entry, at)
  local n, from, behind, definition = ARGV[at], at, at + 7, ''
  if n == '@' then
    from, behind, definition = marks[tonumber(ARGV[at + 1])], at + 3, ARGV[at + 2]
  elseif n ~= '' then
    return redis.pcall('XADD', key, entry, unpack(ARGV, at + 1, at + n)), at + n + 1
  end
  local id, source, kind, time, task, data = unpack(ARGV, from + 1, from + 6)
  if task == '' and key == stream then
    return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
      'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'data', data), behind
  elseif definition == '' then
    return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
      'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'taskid', task, 'data', data), behind
  end
  return redis.pcall('XADD', key, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
    'tenantid', ARGV[3], 'workflowid', t.workflow, 'executionid', t.id, 'taskid', task, 'data', data, 'definition', definition), behind
end

local function append(at)
  local version, done = tonumber(t.version), nil
  for i = 1, t.history do
    version = version + 1
    marks[i] = at
    done, at = add(KEYS[t.key + 1], string.format('%d-0', version), at)
    if type(done) == 'table' and done['err'] then return at, done['err'] end
  end
  return at, nil, version
end

local function publish(at)
  local done
  for i = 1, t.publish do
    done, at = add(stream, '*', at)
    if type(done) == 'table' and done['err'] then error(done['err'], 0) end
  end
  return at
end

local function cancel(at)
  for i = 1, t.cancel do
    local member, tombstone = ARGV[at], ARGV[at + 1]
    if redis.call('ZREM', timers, member) == 0 and not unmove(timers, KEYS[t.key], tombstone) and t.shelf == 0 then
      redis.call('HSET', KEYS[t.key], tombstone, '1')
    end
    at = at + 2
  end
end

local function listen()
  local first = t.key + 2
  for i = first, first + t.join - 1 do redis.call('SADD', KEYS[i], t.id) end
  for i = first + t.join, first + t.join + t.leave - 1 do redis.call('SREM', KEYS[i], t.id) end
end

local function file(status)
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
    if name == 'state' or name == 'state_version' or string.find(name, ':', 1, true) then
      redis.call('HDEL', KEYS[t.key], name)
    end
  end
end

-- A stream has room set aside for what may follow, which is more than the whole
-- history of a small execution; read back, it has none. Not every Redis can do this.
local function compact(history)
  local copy = history .. ':history' -- no execution has an id that ends like this
  if redis.pcall('COPY', history, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, history) end
end

local function read(at)
  local l1, l2, l3, k1, k2, h1, h2, p1, p2, c1, c2, j1, j2, v1, v2, fields, shelf, acknowledge = string.byte(ARGV[at], 1, 18)
  t.fields, t.shelf, t.acknowledge = fields, shelf, acknowledge == 1
  t.key, t.history, t.publish, t.cancel, t.join, t.leave = k1 * 256 + k2, h1 * 256 + h2, p1 * 256 + p2, c1 * 256 + c2, j1 * 256 + j2, v1 * 256 + v2
  t.version, t.id, t.workflow, t.score = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  return at + l1 * 65536 + l2 * 256 + l3
end

local function transition(entry, fields)
  if entry ~= '' and not mine[entry] and (all or look(stream, ARGV[1], ARGV[2], entry, entry, 1) == 0) then return 2 end
  local is = redis.pcall('HMGET', KEYS[t.key], 'version', 'status')
  if is['err'] then return is['err'] end
  local version, status = is[1] or '0', is[2]
  if version ~= t.version then return 1 end
  t.retried = t.history > 0 and status == 'faulted'
  local bad = unsound()
  if bad then return bad end

  local behind, failed, reached = append(fields + t.fields)
  if failed then return failed end
  if t.retried then redis.call('HDEL', KEYS[t.key], 'output', 'error', 'ended') end
  if t.history > 0 or status ~= ARGV[fields + 1] then
    redis.call('HSET', KEYS[t.key], 'version', string.format('%d', reached), unpack(ARGV, fields, fields + t.fields - 1))
  end
  cancel(publish(behind))
  listen()
  file(status)
  if t.shelf > 0 and reached <= 50 then compact(KEYS[t.key + 1]) end
  if t.acknowledge then acks[#acks + 1] = entry end
  return 0
end

local at, out = 7, {}
while at <= #ARGV do
  local behind = read(at)
  local execution = KEYS[t.key]
  local outcome = lost[execution] and 1 or transition(ARGV[at + 1], at + 6)
  if outcome ~= 0 then lost[execution] = true end
  out[#out + 1] = outcome
  at = behind
end
if #acks > 0 then redis.call('XACK', stream, ARGV[1], unpack(acks)) end
return out
`)
