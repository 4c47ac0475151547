-- Dead-letters a message: writes its dead letter, publishes events about it, and acknowledges it.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   stream of dead letters
-- ARGV[1]   group
-- ARGV[2]   entry id of the message
-- ARGV[3]   consumer
-- ARGV[4…]  the dead letter, then each event to publish: the number of its field names and values,
--           followed by these
--
-- Returns 1, or 0 if the consumer no longer owns the message.

local stream, dead = KEYS[1], KEYS[2]
local group, entry, consumer = ARGV[1], ARGV[2], ARGV[3]

if not owns(stream, group, entry, consumer) then return 0 end
local at, to = 4, dead
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call('XADD', to, '*', unpack(ARGV, at + 1, at + n))
  at, to = at + n + 1, stream
end
redis.call('XACK', stream, group, entry)
return 1
