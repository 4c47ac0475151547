-- Replays the dead letter of a timer: sets the timer again and deletes the dead letter.
--
-- KEYS[1]   stream of dead letters
-- KEYS[2]   timers
-- KEYS[3]   stream of the tenant
-- ARGV[1]   entry id of the dead letter
-- ARGV[2]   score of the timer
-- ARGV[3]   member of the timer
-- ARGV[4…]  fields of the event that announces the timer
--
-- Returns 1, or 0 if the dead letter is gone.

local dead, timers, stream = KEYS[1], KEYS[2], KEYS[3]
local entry, score, member = ARGV[1], ARGV[2], ARGV[3]

if #redis.call('XRANGE', dead, entry, entry) == 0 then return 0 end
redis.call('ZADD', timers, score, member)
redis.call('XDEL', dead, entry)
announce_first(timers, member, stream, 4, #ARGV)
return 1
