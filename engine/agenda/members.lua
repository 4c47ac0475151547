-- Registers a process, and reads the processes and the partitions. A former number of partitions
-- is forgotten when it was replaced long ago and no open or dead event is in a partition that only
-- this number would search. Without a process, the script writes nothing.
--
-- KEYS[1]   processes by the time in milliseconds when their registration expires
-- KEYS[2]   hash of the partitions, see set_partitions.lua
-- KEYS[3…]  prefix of each partition of the greatest former number that the caller knows; the
--           script uses keys that begin with it, see partition.lua
-- ARGV[1]   process, or ''
-- ARGV[2]   milliseconds after which its registration expires; 0 ends it now
-- ARGV[3]   minimum time in milliseconds for which a former number is remembered
--
-- Returns the time in milliseconds, the processes, the fields of the hash, and for each partition
-- of KEYS[3…] 1 if it holds open events, else 0.

local members, partitions, known = KEYS[1], KEYS[2], #KEYS - 2
local process, ttl, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = clock()
if process ~= '' then
  redis.call('ZREMRANGEBYSCORE', members, '-inf', now)
  if ttl > 0 then
    redis.call('ZADD', members, string.format('%.0f', now + ttl), process)
  else
    redis.call('ZREM', members, process)
  end
end

local count = tonumber(redis.call('HGET', partitions, 'count') or '0')
local open, used = {}, {} -- of each known partition; the number of partitions that are in use
for p = 1, known do
  local P = KEYS[p + 2]
  open[p] = redis.call('EXISTS', P .. ':buckets', P .. ':processing') > 0 and 1 or 0
  used[p] = (used[p - 1] or 0) + redis.call('EXISTS', P .. ':dlq')
  if p > count then used[p] = used[p] + open[p] end
end
local fields = redis.call('HGETALL', partitions)
for i = 1, #fields, 2 do
  local former = string.match(fields[i], '^former:(%d+)$')
  if process ~= '' and former and used[tonumber(former)] == 0 and fields[i + 1] + keep < tonumber(now) then
    redis.call('HDEL', partitions, fields[i])
  end
end
return {now, redis.call('ZRANGEBYSCORE', members, '(' .. now, '+inf'), redis.call('HGETALL', partitions), open}
