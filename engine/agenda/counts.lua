-- Counts the events of a partition.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- ARGV[1]  milliseconds after which a due event is overdue
--
-- Returns the time in milliseconds; the numbers of events that are scheduled, overdue, taken by a
-- process, and dead; and when the next event is due or the next lease expires, or ''.

local P = KEYS[1]
local now = clock()
local limit = string.format('%.0f', now - ARGV[1])
local scheduled, overdue = 0, 0
for _, leaf in ipairs(redis.call('ZRANGE', P .. ':buckets', 0, -1)) do
  local key = P .. ':scheduled:' .. leaf
  scheduled = scheduled + redis.call('ZCARD', key)
  if tonumber(leaf) <= tonumber(limit) then overdue = overdue + redis.call('ZCOUNT', key, '-inf', limit) end
end
return {now, scheduled, overdue, redis.call('ZCARD', P .. ':processing'), redis.call('ZCARD', P .. ':dlq'), next_due(P)}
