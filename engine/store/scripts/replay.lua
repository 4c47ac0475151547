-- Replays a dead letter: publishes its event again and deletes the dead letter.
--
-- KEYS[1]   stream of dead letters
-- KEYS[2]   stream to publish to
-- ARGV[1]   entry id of the dead letter
-- ARGV[2…]  fields of the event
--
-- Returns 1, or 0 if the dead letter is gone.

local dead, stream = KEYS[1], KEYS[2]
local entry = ARGV[1]

if #redis.call('XRANGE', dead, entry, entry) == 0 then return 0 end
redis.call('XADD', stream, '*', unpack(ARGV, 2))
redis.call('XDEL', dead, entry)
return 1
