-- Postpones a message: sets a timer that delivers it again, and acknowledges it.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- ARGV[1]   group
-- ARGV[2]   entry id of the message
-- ARGV[3]   consumer
-- ARGV[4]   score of the timer
-- ARGV[5]   member of the timer
-- ARGV[6…]  fields of the event that announces the timer
--
-- Returns 1, or 0 if the consumer no longer owns the message.

local stream, timers = KEYS[1], KEYS[2]
local group, entry, consumer, score, member = unpack(ARGV, 1, 5)

if not owns(stream, group, entry, consumer) then return 0 end
redis.call('ZADD', timers, score, member)
redis.call('XACK', stream, group, entry)
announce_first(timers, member, stream, 6, #ARGV)
return 1
