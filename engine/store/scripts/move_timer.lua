-- Moves a timer to another time for an operator. The new member is stored where a cancellation looks
-- for it: in the hash of the execution, otherwise with the timer keys.
--
-- KEYS[1]   timers
-- KEYS[2]   timer keys
-- KEYS[3]   forgotten timer keys
-- KEYS[4]   hash of the execution
-- KEYS[5]   stream of the tenant
-- KEYS[6]   history of the execution
-- ARGV[1]   member of the timer
-- ARGV[2]   its new score
-- ARGV[3]   its new member
-- ARGV[4]   identity of the timer; it begins with 'm' if the timer has no key
-- ARGV[5]   order that a key gets if it has none
-- ARGV[6]   note of the timer, see set_timers.lua
-- ARGV[7]   n, the number of arguments for the event that announces the timer
-- ARGV[8…]  n field names and values of that event, then the history entry, as append_entry reads it
--
-- Returns 1, or 0 if the timer is gone.

local timers, keys, forgotten, execution, stream, history = unpack(KEYS)
local member, score, moved, identity, order, note = unpack(ARGV, 1, 6)
local last = 7 + ARGV[7]

if not redis.call('ZSCORE', timers, member) then return 0 end
append_entry(execution, history, last + 1, #ARGV)
redis.call('ZADD', timers, score, moved)
if member ~= moved then redis.call('ZREM', timers, member) end
if string.sub(identity, 1, 1) == 'm' and redis.call('EXISTS', execution) == 1 then
  redis.call('HSET', execution, 'moved:' .. note, moved, 'notes', '1')
else
  local kept = redis.call('HGET', keys, identity)
  redis.call('HSET', keys, identity, (kept and string.sub(kept, 1, 40) or order) .. ' ' .. moved)
  redis.call('ZREM', forgotten, identity)
  if redis.call('HGET', execution, note) == member then redis.call('HSET', execution, note, moved) end
end
announce_first(timers, moved, stream, 8, last)
return 1
