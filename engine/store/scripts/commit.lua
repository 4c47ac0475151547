-- Commits transitions of executions, one after the other: each of them whole or not at all,
-- whatever becomes of those before it. If one fails, all later ones of its execution fail as
-- conflicts: they were decided on what it would have made.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   index of open executions
-- KEYS[4]   index of faulted executions
-- KEYS[5]   index of completed executions
-- KEYS[6]   index of cancelled executions
-- KEYS[7…]  for each transition: its execution, its history, the sets of listeners to join and
--           those to leave; at the end the stream of dead letters, if there is one to write
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   tenant
-- ARGV[4]   first entry that is answered, '' for none
-- ARGV[5]   last entry that is answered
-- ARGV[6]   how many pending entries to look at
-- ARGV[7]   where the transitions begin
-- ARGV[8]   number of fields of the dead letter of the first transition's message; they stand
--           before the transitions; 0 for none
-- ARGV[9…]  the words, then the transitions
--
-- A transition is: its shape, its entry ('' for none), the execution's id, its score in the indexes,
-- and its own texts: the times of its events, fields, history entries, events to publish, and the
-- timers to cancel, each as member and tombstone.
--
-- Each argument costs time, so texts that several would repeat are given once, as words, and a shape
-- (see Go's counts) says in bytes of which words a transition is made, of which forms its events
-- are, and where texts of its own stand. Executions of one workflow have the same shapes.
--
-- What could fail is checked before anything is written; the first entry of the history fails by
-- itself if the key holds something else or the version is there already. A history that is gone
-- is an error, unless the transition says that this is known. Entries after the end of a faulted
-- execution are a retry: the execution is open again and its result goes.
--
-- Returns for each transition: 0 committed, 1 the version is another one, 2 the message is not the
-- consumer's any more, or the text of an error.

local keys, args = KEYS, ARGV -- globals take long to find
local stream, timers, open, faulted = keys[1], keys[2], keys[3], keys[4]
local kinds, acks, lost, shapes, ended = {}, {}, {}, {}, {}
local ids, tasks, texts = {}, {}, {} -- of the events of a transition that are said again
local digits = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
local t, workflow, key, own, id, score, retried -- its shape, its workflow, its first key, where its own texts begin, less one, …
local counted, task -- what an id has before its number, the task of the event before

local all = args[4] == '' or find_mine(stream, args[1], args[2], args[4], args[5], args[6]) < tonumber(args[6])

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
    or t.shelf > 0 and wrong(keys[t.shelf], 'zset')
    or (t.shelf > 0 or retried or t.version == '0') and (wrong(open, 'zset') or wrong(faulted, 'zset'))
  for i = key + 2, key + 1 + t.join + t.leave do bad = bad or wrong(keys[i], 'set') end
  return bad
end

-- Writes an event that is known.
local function add(stream, entry, event, name, task, text, definition)
  if definition then
    return redis.pcall('XADD', stream, entry, 'id', name, 'source', event.source, 'specversion', '1.0', 'type', event.kind, 'time', args[own + event.time],
      'tenantid', args[3], 'workflowid', workflow, 'executionid', id, 'taskid', task, 'data', text, 'definition', definition)
  elseif task then
    return redis.pcall('XADD', stream, entry, 'id', name, 'source', event.source, 'specversion', '1.0', 'type', event.kind, 'time', args[own + event.time],
      'tenantid', args[3], 'workflowid', workflow, 'executionid', id, 'taskid', task, 'data', text)
  end
  return redis.pcall('XADD', stream, entry, 'id', name, 'source', event.source, 'specversion', '1.0', 'type', event.kind, 'time', args[own + event.time],
    'tenantid', args[3], 'workflowid', workflow, 'executionid', id, 'data', text)
end

-- Writes an event whose fields are all given, at a place, and says what is behind them.
local function copy(stream, entry, at)
  local behind = at + 1 + args[at]
  return redis.pcall('XADD', stream, entry, unpack(args, at + 1, behind - 1)), behind
end

-- The id, task and data of an event whose own texts begin at a place, and what is behind them.
local function given(event, entry, at)
  local name, text
  if event.counted then
    name = counted .. entry
  elseif event.suffix then
    name = id .. event.suffix
  else
    name, at = args[at], at + 1
  end
  if event.task then
    task = event.task
  elseif event.fresh then
    task, at = args[at], at + 1
  end
  if event.behind then return name, task, event.before .. task .. event.behind, at end
  return name, task, args[at], at + 1
end

-- A stream keeps the names of fields once for those that have the first one's: all of
-- a history have a task, if only an empty one.
local function append(at)
  local args, history, events, entries, done = args, keys[key + 1], t.events, t.entries, nil
  counted = id .. '/'
  for i = 1, t.history do
    local event, entry, name, text = events[i], entries[i], nil, nil
    if event.usual then
      if event.task then
        task = event.task
      elseif event.fresh then
        task, at = args[at], at + 1
      end
      if event.behind then
        text = event.before .. task .. event.behind
      else
        text, at = args[at], at + 1
      end
      done = redis.pcall('XADD', history, entry, 'id', counted .. entry, 'source', event.source, 'specversion', '1.0', 'type', event.kind,
        'time', args[own + event.time], 'tenantid', args[3], 'workflowid', workflow, 'executionid', id, 'taskid', task, 'data', text)
    elseif event.source then
      name, task, text, at = given(event, entry, at)
      if event.said then ids[i], tasks[i], texts[i] = name, task, text end
      if event.definition then
        done = add(history, entry, event, name, task, text, event.definition)
      else
        done = redis.pcall('XADD', history, entry, 'id', name, 'source', event.source, 'specversion', '1.0', 'type', event.kind,
          'time', args[own + event.time], 'tenantid', args[3], 'workflowid', workflow, 'executionid', id, 'taskid', task, 'data', text)
      end
    else
      done, at = copy(history, entry, at)
    end
    if done['err'] then return at, done['err'] end
  end
  return at
end

-- Those that have ended go from the open ones to where they belong, all at once.
local function shelve()
  for shelf = 3, 6 do
    local those = ended[shelf]
    if those then
      local names = {}
      redis.call('ZADD', keys[shelf], unpack(those))
      for i = 2, #those, 2 do names[i / 2] = those[i] end
      redis.call('ZREM', open, unpack(names))
      ended[shelf] = nil
    end
  end
end

local function publish(at)
  for i = 1, t.publish do
    local published, done, name, text = t.published[i], nil, nil, nil
    local event, again = published.event, published.again
    if again then
      done = add(stream, '*', event, ids[again], tasks[again], texts[again], published.definition)
    elseif event.source then
      name, task, text, at = given(event, '', at)
      done = add(stream, '*', event, name, task ~= '' and task, text, event.definition)
    else
      done, at = copy(stream, '*', at)
    end
    if done['err'] then
      shelve()
      error(done['err'], 0)
    end
  end
  return at
end

local function cancel(at)
  for i = 1, t.cancel do
    local member, tombstone = args[at], args[at + 1]
    if redis.call('ZREM', timers, member) == 0 and not remove_moved(timers, keys[key], tombstone) and t.shelf == 0 then
      redis.call('HSET', keys[key], tombstone, '1', 'notes', '1')
    end
    at = at + 2
  end
end

local function listen()
  local first = key + 2
  for i = first, first + t.join - 1 do redis.call('SADD', keys[i], id) end
  for i = first + t.join, first + t.join + t.leave - 1 do redis.call('SREM', keys[i], id) end
end

local function file(status)
  if retried then
    shelve()
    redis.call('ZADD', t.shelf > 0 and keys[t.shelf] or open, score, id)
    if t.shelf > 0 then redis.call('ZREM', open, id) end
    if keys[t.shelf] ~= faulted then redis.call('ZREM', faulted, id) end
  elseif t.shelf > 0 then
    local those = ended[t.shelf]
    if not those then
      those = {}
      ended[t.shelf] = those
    end
    those[#those + 1] = score
    those[#those + 1] = id
  elseif status ~= 'pending' then -- whoever has started it has filed it
    redis.call('ZADD', open, 'NX', score, id)
  end
end

-- What only matters to an execution that goes on: its snapshot, and the notes of its timers.
-- state and state_version are a snapshot of flunq before 2026-11-23, which nobody reads any more.
local function forget(snapshot, notes)
  if snapshot then redis.call('HDEL', keys[key], 'snapshot', 'snapshot_version', 'state', 'state_version') end
  if not notes then return end
  for _, name in ipairs(redis.call('HKEYS', keys[key])) do
    if name == 'notes' or string.find(name, ':', 1, true) then redis.call('HDEL', keys[key], name) end
  end
end

-- A stream has room set aside for what may follow, which is more than the whole
-- history of a small execution; read back, it has none. Not every Redis can do this.
local function compact(history)
  local copy = history .. ':history' -- no execution has an id that ends like this
  if redis.pcall('COPY', history, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, history) end
end

-- The texts of an execution's fields: those of each transition of its own, and its
-- times, are filled in.
local function read_fields(s, shape, fields)
  s.set, s.own, s.dated = {'version', s.entries[s.history]}, {}, {}
  for i = 3, fields + 2 do
    local high, low = string.byte(shape, 17 + 2 * i, 18 + 2 * i)
    s.set[i] = args[high * 256 + low] or ''
    if high >= 128 then
      s.dated[#s.dated + 1] = i
      s.dated[#s.dated + 1] = high * 256 + low - 32768
    elseif high + low == 0 then
      s.own[#s.own + 1] = i
    end
  end
end

-- The entries of the history, a digit at a time.
local function read_entries(s)
  local tens = math.floor(s.version / 10)
  local ones, head = s.version - 10 * tens, tens > 0 and string.format('%d', tens) or ''
  s.entries = {[0] = s.version}
  for i = 1, s.history do
    ones = ones + 1
    if ones == 10 then
      tens, ones = tens + 1, 0
      head = string.format('%d', tens)
    end
    s.entries[i] = head .. digits[ones]
  end
end

-- What is known of events of each form: nothing, if their fields are given.
local function read_forms(shape, at, count)
  local forms = {[0] = {}}
  for i = 1, count do
    local a1, a2, b1, b2, time, c1, c2, d1, d2, e1, e2, f1, f2, g1, g2 = string.byte(shape, at, at + 14)
    local now, suffix = c1 * 256 + c2, d1 * 256 + d2
    forms[i] = {
      source = args[a1 * 256 + a2], kind = args[b1 * 256 + b2], time = time, definition = args[e1 * 256 + e2],
      task = now < 32768 and args[now] or nil, fresh = now == 0, suffix = suffix < 32768 and args[suffix] or nil, counted = suffix == 32768,
      before = args[f1 * 256 + f2], behind = args[g1 * 256 + g2], usual = suffix == 32768 and e1 + e2 == 0,
    }
    at = at + 15
  end
  return forms, at
end

local function read_events(s, shape, at, count)
  local forms
  forms, at = read_forms(shape, at, count)
  s.events, s.published = {}, {}
  for from = 0, s.history - 1, 100 do
    local some = {string.byte(shape, at + from, at + math.min(from + 100, s.history) - 1)}
    for i = 1, #some do s.events[from + i] = forms[some[i]] end
  end
  at = at + s.history
  for i = 1, s.publish do
    local form, a1, a2, b1, b2 = string.byte(shape, at, at + 4)
    local again = a1 * 256 + a2
    s.published[i] = {event = forms[form]}
    if again > 0 then
      s.events[again].said, s.events[again].usual = true, false
      s.published[i] = {event = s.events[again], again = again, definition = args[b1 * 256 + b2]}
    end
    at = at + 5
  end
end

-- What a shape says, in the order in which it is written.
local function read(shape)
  local l1, l2, l3, h1, h2, p1, p2, c1, c2, j1, j2, v1, v2, fields, shelf, acknowledge, n1, n2, w1, w2, times, forms = string.byte(shape, 1, 22)
  local s = {
    length = l1 * 65536 + l2 * 256 + l3, history = h1 * 256 + h2, publish = p1 * 256 + p2, cancel = c1 * 256 + c2,
    join = j1 * 256 + j2, leave = v1 * 256 + v2, shelf = shelf, acknowledge = acknowledge % 2 == 1, damaged = acknowledge % 4 > 1, even_if_full = acknowledge > 3,
    version = args[n1 * 256 + n2], workflow = args[w1 * 256 + w2], times = times,
  }
  s.few, s.listens, s.files = s.version + s.history <= 50, s.join + s.leave > 0, s.shelf > 0 or s.version == '0'
  read_entries(s)
  read_fields(s, shape, fields)
  s.first = times + #s.own + 1 -- of the texts of its own, that of its events
  read_events(s, shape, 23 + 2 * fields, forms)
  shapes[shape] = s
  return s
end

local function transition(entry)
  if entry ~= '' and not mine[entry] and (all or find_mine(stream, args[1], args[2], entry, entry, 1) == 0) then return 2 end
  local t, execution, own, is = t, keys[key], own, nil
  local ends = t.shelf > 0
  if ends then
    is = redis.pcall('HMGET', execution, 'version', 'status', 'snapshot_version', 'notes', 'state_version')
  else
    is = redis.pcall('HMGET', execution, 'version', 'status')
  end
  if is['err'] then return is['err'] end
  local version, status = is[1] or '0', is[2]
  if version ~= t.version then return 1 end
  if version ~= '0' and not t.damaged and redis.pcall('XLEN', keys[key + 1]) == 0 then
    return 'the history of execution ' .. id .. ' is gone, it had ' .. version .. ' entries'
  end
  retried = status == 'faulted' and t.history > 0
  if retried or not t.sound then -- what is so for one is so for all of its shape
    local bad = unsound()
    if bad then return bad end
    t.sound = not t.listens
  end

  local set, dated, texts, from = t.set, t.dated, t.own, own + t.times
  for i = 1, #dated, 2 do set[dated[i]] = args[own + dated[i + 1]] end
  for i = 1, #texts do set[texts[i]] = args[from + i] end
  local behind, failed = append(own + t.first)
  if failed and t.even_if_full and string.find(failed, 'OOM', 1, true) == 1 then -- its first entry: nothing is written
    redis.call('PERSIST', stream) -- see evenIfFull
    behind, failed = append(own + t.first)
  end
  if failed then return failed end
  if retried then redis.call('HDEL', execution, 'output', 'error', 'ended') end
  if t.history > 0 or status ~= set[4] then redis.call('HSET', execution, unpack(set)) end
  if t.publish > 0 then behind = publish(behind) end
  if t.cancel > 0 then cancel(behind) end
  if t.listens then listen() end
  if t.files or retried then file(status) end
  if ends then
    if is[3] or is[4] or is[5] then forget(is[3] or is[5], is[4]) end
    if t.few then compact(keys[key + 1]) end
  end
  if t.acknowledge then acks[#acks + 1] = entry end
  return 0
end

local at, out = tonumber(args[7]), {}
local letter = tonumber(args[8])
if letter > 0 then
  local bad = wrong(keys[#keys], 'stream')
  if bad then return {bad} end
end
key = 7
while at <= #args do
  t = shapes[args[at]] or read(args[at])
  workflow = t.workflow
  id, score, own = args[at + 2], args[at + 3], at + 3
  local execution = keys[key]
  local outcome = lost[execution] and 1 or transition(args[at + 1])
  if outcome ~= 0 then lost[execution] = true end
  out[#out + 1] = outcome
  at, key = at + t.length, key + 2 + t.join + t.leave
end
shelve()
if letter > 0 and out[1] == 0 then redis.call('XADD', keys[#keys], '*', unpack(args, args[7] - letter, args[7] - 1)) end
if #acks > 0 then redis.call('XACK', stream, args[1], unpack(acks)) end
return out
