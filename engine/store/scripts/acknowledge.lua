-- Acknowledges a message.
--
-- KEYS[1]  stream of the tenant
-- ARGV[1]  group
-- ARGV[2]  entry id of the message
-- ARGV[3]  consumer
--
-- Returns 1, or 0 if the consumer no longer owns the message.

local stream = KEYS[1]
local group, entry, consumer = ARGV[1], ARGV[2], ARGV[3]

if not owns(stream, group, entry, consumer) then return 0 end
redis.call('XACK', stream, group, entry)
return 1
