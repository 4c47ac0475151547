-- Counts a tenant's executions, timers and dead letters, and samples the newest entries of its
-- stream. The script blocks Redis, so the sample is bounded in entries and in bytes.
--
-- KEYS[1]  stream of the tenant
-- KEYS[2]  stream of dead letters
-- KEYS[3]  timers
-- KEYS[4]  index of open executions
-- KEYS[5]  index of completed executions
-- KEYS[6]  index of faulted executions
-- KEYS[7]  index of cancelled executions
-- ARGV[1]  id of the last known entry; the sample ends there
-- ARGV[2]  maximum number of entries to sample
-- ARGV[3]  maximum number of bytes to sample
-- ARGV[4]  type of the events of fired timers
-- ARGV[5]  type of the events of failed executions
--
-- Returns: seconds and microseconds of the clock; open, completed, faulted and cancelled
-- executions; dead letters, timers, and timers overdue by more than a second; the number of entries
-- ever added to the stream (-1 if Redis does not report it); and for the sample: id of the newest
-- entry, size, id of the oldest entry, 1 if there may be entries between it and the known one,
-- fired timers, and the executions that failed.

local stream, dead_letters, timers = KEYS[1], KEYS[2], KEYS[3]
local known, most, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local fired_type, failed_type = ARGV[4], ARGV[5]

local clock = redis.call('TIME')
local out = {clock[1], clock[2]}
for i = 4, 7 do out[#out + 1] = redis.call('ZCARD', KEYS[i]) end
out[7] = redis.call('XLEN', dead_letters)
out[8] = redis.call('ZCARD', timers)
out[9] = redis.call('ZCOUNT', timers, '-inf', tonumber(clock[1]) - 1)
local added = -1
if redis.call('EXISTS', stream) == 1 then
  local info = named(redis.call('XINFO', 'STREAM', stream))
  if type(info['entries-added']) == 'number' then added = info['entries-added'] end
end
local seen, fired, failed, newest, oldest, to, more = 0, 0, {}, '', '', '+', 0
while more == 0 do
  local entries = redis.call('XREVRANGE', stream, to, '(' .. known, 'COUNT', 16)
  for _, entry in ipairs(entries) do
    local kind, execution
    for i = 1, #entry[2], 2 do
      local name, value = entry[2][i], entry[2][i + 1]
      bytes = bytes - #value
      if name == 'type' then kind = value elseif name == 'executionid' then execution = value end
    end
    if kind == fired_type then fired = fired + 1 end
    if kind == failed_type and execution then failed[#failed + 1] = execution end
    if newest == '' then newest = entry[1] end
    seen, oldest, to = seen + 1, entry[1], '(' .. entry[1]
  end
  if #entries < 16 then break end
  if seen >= most or bytes <= 0 then more = 1 end
end
for _, value in ipairs({added, newest, seen, oldest, more, fired, failed}) do out[#out + 1] = value end
return out
