-- Starts an execution, unless one with its id exists.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   hash of the execution
-- KEYS[3]   index of open executions
-- ARGV[1]   score of the execution in the index
-- ARGV[2]   id of the execution
-- ARGV[3]   '1' if groups skip events that their services ignore
-- ARGV[4]   n, the number of arguments that follow for the hash
-- ARGV[5…]  n field names and values of the hash, then the fields of the event
--
-- Returns 1 if it was started, 0 if it existed.

local stream, execution, open = KEYS[1], KEYS[2], KEYS[3]
local score, id, n = ARGV[1], ARGV[2], tonumber(ARGV[4])

if redis.call('EXISTS', execution) == 1 then return 0 end
local is = redis.call('TYPE', open)['ok']
if is ~= 'none' and is ~= 'zset' then
  return redis.error_reply('WRONGTYPE ' .. open .. ' is a ' .. is .. ', want a zset')
end
local groups = ARGV[3] == '1' and skippers(stream) or {}
appended(groups, redis.call('XADD', stream, '*', unpack(ARGV, n + 5)), 'io.flunq.execution.started')
redis.call('HSET', execution, unpack(ARGV, 5, n + 4))
redis.call('ZADD', open, score, id)
skip(stream, groups)
return 1
