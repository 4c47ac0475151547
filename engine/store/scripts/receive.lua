-- Appends records of a broker to the stream of a tenant, each once: a record whose offset is not
-- above the position of its partition was taken before. The position advances in the same step.
--
-- KEYS[1]  stream of the tenant
-- KEYS[2]  stream of dead letters
-- KEYS[3]  hash of positions: by partition "<log> <offset>" of the last record that was taken; a
--          topic that was deleted and created again has another log
-- ARGV     for each record: its partition, log and offset; its destination: stream, dlq, or '' for
--          none; the number of its field names and values, then these
--
-- Returns 1 for each record that was taken, 0 for one that was taken before.

local positions = KEYS[3]
local to = {stream = KEYS[1], dlq = KEYS[2]}

local taken = {}
local at = 1
while at <= #ARGV do
  local partition, log, offset, target, n = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  local last_log, last = string.match(redis.call('HGET', positions, partition) or '', '^(%S*) (%d+)$')
  if last_log == log and tonumber(offset) <= tonumber(last) then
    taken[#taken + 1] = 0
  else
    if to[target] then redis.call('XADD', to[target], '*', unpack(ARGV, at + 5, at + 4 + n)) end
    redis.call('HSET', positions, partition, log .. ' ' .. offset)
    taken[#taken + 1] = 1
  end
  at = at + 5 + n
end
return taken
