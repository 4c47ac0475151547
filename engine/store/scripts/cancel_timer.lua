-- Cancels a timer for an operator.
--
-- KEYS[1]   timers
-- KEYS[2]   timer keys
-- KEYS[3]   forgotten timer keys
-- KEYS[4]   hash of the execution
-- KEYS[5]   history of the execution
-- ARGV[1]   member of the timer
-- ARGV[2]   identity of the timer, '' if it has no key
-- ARGV[3]   field of the execution that holds the member of a moved timer or of an input, or ''
-- ARGV[4…]  the history entry about it, as append_entry reads it
--
-- Returns 1, or 0 if the timer is gone.

local timers, keys, forgotten, execution, history = unpack(KEYS)
local member, identity, moved = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('ZSCORE', timers, member) then return 0 end
append_entry(execution, history, 4, #ARGV)
redis.call('ZREM', timers, member)
settle(keys, forgotten, identity, member)
if moved ~= '' and redis.call('HGET', execution, moved) == member then redis.call('HDEL', execution, moved) end
return 1
