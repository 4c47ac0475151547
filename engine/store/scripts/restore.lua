-- Restores for an operator what an execution waits for and Redis has lost: listens again, sends
-- requests again and sets timers again. A timer that is already set is left unchanged.
--
-- KEYS[1]   timers
-- KEYS[2]   hash of the execution
-- KEYS[3]   history of the execution
-- KEYS[4]   stream of the tenant
-- KEYS[5…]  sets of listeners to join
-- ARGV[1]   version that the execution must have
-- ARGV[2]   id of the execution
-- ARGV[3]   number of requests
-- ARGV[4…]  the history entry about listeners and requests: its length, and as append_entry reads it;
--           each request: the number of its field names and values, and these;
--           then each timer: score, member, the member again if it was moved or else '', tombstone,
--           and, each with its length, the history entry and the event that announces the timer
--
-- Returns 1, or 0 if the execution has another version.

local timers, execution, history, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local version, id, requests = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('HGET', execution, 'version') ~= version then return 0 end
local at = 5 + ARGV[4]
append_entry(execution, history, 5, at - 1)
for i = 5, #KEYS do redis.call('SADD', KEYS[i], id) end
for _ = 1, requests do
  local n = tonumber(ARGV[at])
  redis.call('XADD', stream, '*', unpack(ARGV, at + 1, at + n))
  at = at + n + 1
end
while at <= #ARGV do
  local score, member, moved, tombstone, n = unpack(ARGV, at, at + 4)
  local event = at + 5 + n
  local next = event + 1 + ARGV[event]
  if not redis.call('ZSCORE', timers, member) then
    append_entry(execution, history, at + 5, event - 1)
    redis.call('ZADD', timers, score, member)
    if moved ~= '' then
      redis.call('HSET', execution, 'moved:' .. tombstone, member, 'notes', '1')
    else
      redis.call('HDEL', execution, 'moved:' .. tombstone)
    end
    announce_first(timers, member, stream, event + 1, next - 1)
  end
  at = next
end
return 1
