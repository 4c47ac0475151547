-- Registers a process, and reads the processes and the partitions.
--
-- KEYS[1]  processes by the end of their registration in milliseconds
-- KEYS[2]  hash of the partitions
-- ARGV[1]  process, or ''
-- ARGV[2]  milliseconds after which its registration ends, 0 to end it now
--
-- Returns the time in milliseconds, the processes, and the fields of the hash.

local members, partitions = KEYS[1], KEYS[2]
local process, ttl = ARGV[1], tonumber(ARGV[2])

local now = clock()
redis.call('ZREMRANGEBYSCORE', members, '-inf', now)
if process ~= '' then
  if ttl > 0 then
    redis.call('ZADD', members, string.format('%.0f', now + ttl), process)
  else
    redis.call('ZREM', members, process)
  end
end
return {now, redis.call('ZRANGE', members, 0, -1), redis.call('HGETALL', partitions)}
