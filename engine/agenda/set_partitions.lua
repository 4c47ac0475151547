-- Changes the number of partitions.
--
-- KEYS[1]  hash of the partitions: "count" is their number, "epoch" grows each time it changes,
--          and "former:<count>" is the time in milliseconds when that number was replaced
-- ARGV[1]  the expected number, 0 if none is set
-- ARGV[2]  the new number
--
-- Returns 1, or 0 if the current number is neither the expected one nor the new one.

local partitions = KEYS[1]
local from, count = ARGV[1], ARGV[2]

local stored = redis.call('HMGET', partitions, 'count', 'epoch')
local current = stored[1] or '0'
if current == count then return 1 end
if current ~= from then return 0 end
local now = clock()
redis.call('HSET', partitions, 'count', count, 'epoch', string.format('%.0f', math.max(now, (stored[2] or 0) + 1)))
redis.call('HDEL', partitions, 'former:' .. count)
if from ~= '0' then redis.call('HSET', partitions, 'former:' .. from, now) end
return 1
