-- Fires timers: publishes the event of each, and only then removes it. A timer whose stream
-- cannot be written stays, and does not affect the others. If one of them is not due, none fires.
--
-- KEYS[1]   timers
-- KEYS[2]   timer keys
-- KEYS[3]   forgotten timer keys
-- KEYS[4…]  streams to publish to
-- ARGV[1]   time of the events
-- ARGV[2]   Unix time in microseconds when the last of the timers is due
-- ARGV[3]   n, the number of timers
-- ARGV[4]   '1' if groups skip events that their services ignore
-- ARGV[5…]  the tenant of each stream; the n members; then for each timer either
--             number of its stream, event id, workflow, execution, task, data: publishes TimerFired
--             or minus the number of its stream, identity or '', number of field names and values,
--             and these: publishes an event with these fields
--
-- Returns the number of fired timers, and the first error or ''.

local timers, event_time, n = KEYS[1], ARGV[1], tonumber(ARGV[3])
local time = redis.call('TIME')
if tonumber(time[1]) * 1000000 + tonumber(time[2]) < tonumber(ARGV[2]) then return {0, ''} end
local first, groups = #KEYS + 2, {} -- groups of each stream
for i = 4, #KEYS do
  groups[i - 3] = ARGV[4] == '1' and skippers(KEYS[i]) or {}
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
        'type', 'io.flunq.timer.fired', 'time', event_time, 'tenantid', ARGV[stream + 4], 'workflowid', ARGV[at + 2],
        'executionid', ARGV[at + 3], 'taskid', ARGV[at + 4], 'data', ARGV[at + 5])
    else
      identity = ARGV[at + 1]
      entry = redis.pcall('XADD', KEYS[3 - stream], '*', unpack(ARGV, at + 3, last))
    end
    local member = ARGV[first + i - 1]
    if type(entry) == 'table' and entry['err'] then
      if wrong == '' then wrong = entry['err'] end
    else
      fired[#fired + 1] = member
      if identity and identity ~= '' then noted[#noted + 1] = {identity, member} end
      appended(groups[math.abs(stream)], entry, stream > 0 and 'io.flunq.timer.fired')
    end
  end
  at = last + 1
end
if #fired > 0 then redis.call('ZREM', timers, unpack(fired)) end
for i = 4, #KEYS do skip(KEYS[i], groups[i - 3]) end
for i = 1, #noted do settle(KEYS[2], KEYS[3], noted[i][1], noted[i][2]) end
return {#fired, wrong}
