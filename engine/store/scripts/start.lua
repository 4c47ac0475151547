-- Starts an execution, unless one with its id exists.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   hash of the execution
-- KEYS[3]   index of open executions
-- ARGV[1]   score of the execution in the index
-- ARGV[2]   id of the execution
-- ARGV[3]   n, the number of arguments that follow for the hash
-- ARGV[4…]  n field names and values of the hash, then the fields of the event
--
-- Returns 1 if it was started, 0 if it existed.

local stream, execution, open = KEYS[1], KEYS[2], KEYS[3]
local score, id, n = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('EXISTS', execution) == 1 then return 0 end
local is = redis.call('TYPE', open)['ok']
if is ~= 'none' and is ~= 'zset' then
  return redis.error_reply('WRONGTYPE ' .. open .. ' is a ' .. is .. ', want a zset')
end
redis.call('XADD', stream, '*', unpack(ARGV, n + 4))
redis.call('HSET', execution, unpack(ARGV, 4, n + 3))
redis.call('ZADD', open, score, id)
return 1
