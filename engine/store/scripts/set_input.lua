-- Sets the timer of an input for an execution, or of its start. It replaces an earlier timer with the
-- same key. The request is also appended to the stream, which orders it among the requests of
-- workflows; the timer service sees that it has been applied.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   timers
-- KEYS[3]   timer keys, see timer_keys.lua
-- KEYS[4]   forgotten timer keys
-- KEYS[5]   hash of the execution
-- ARGV[1]   score of the timer
-- ARGV[2]   member of the timer
-- ARGV[3]   identity of the timer
-- ARGV[4]   field of the execution that holds the member of the pending input, '' for a start
-- ARGV[5…]  fields of the TimerScheduled
--
-- Returns 'set', 'moved' if it replaced an earlier timer, or the status of an execution for which it
-- cannot be set ('' if the execution does not exist).

local stream, timers, keys, forgotten, execution = unpack(KEYS)
local score, member, identity, note = unpack(ARGV, 1, 4)

local status = redis.call('HGET', execution, 'status') or ''
local over = {completed = true, faulted = true, cancelled = true}
if note == '' and status ~= '' or note ~= '' and (status == '' or over[status]) then return status end
local entry = redis.call('XADD', stream, '*', unpack(ARGV, 5))
local ms, seq = string.match(entry, '(%d+)-(%d+)')
local order = string.rep('0', 20 - #ms) .. ms .. string.rep('0', 20 - #seq) .. seq
local kept = redis.call('HGET', keys, identity)
local moved = kept and redis.call('ZREM', timers, string.sub(kept, 42)) == 1
redis.call('ZADD', timers, score, member)
redis.call('HSET', keys, identity, order .. ' ' .. member)
redis.call('ZREM', forgotten, identity)
if note ~= '' then redis.call('HSET', execution, note, member, 'notes', '1') end
return moved and 'moved' or 'set'
