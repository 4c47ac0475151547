-- At most one timer is set for each timer key. The hash keys holds it: its field is the
-- timer's identity, its value "<order> <member>", where order is the position of the event that
-- set the timer, in 40 digits.
--
-- When the timer is gone, only its order stays, for an hour, so an older event that is
-- delivered late does not set its timer after all. The sorted set forgotten holds the identities
-- of such timers, scored by the second at which they were removed. It also holds timers that were
-- cancelled before they were set, unless the hash of their execution has a tombstone.

local function forget(keys, forgotten, identity, order)
  local now = tonumber(redis.call('TIME')[1])
  redis.call('HSET', keys, identity, order .. ' ')
  redis.call('ZADD', forgotten, now, identity)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', forgotten, '-inf', now - 3600, 'LIMIT', 0, 10)) do
    redis.call('HDEL', keys, old)
    redis.call('ZREM', forgotten, old)
  end
end

-- settle forgets a timer that has fired or was cancelled if it is the current timer of its key.
local function settle(keys, forgotten, identity, member)
  local kept = identity ~= '' and redis.call('HGET', keys, identity)
  if kept and string.sub(kept, 42) == member then forget(keys, forgotten, identity, string.sub(kept, 1, 40)) end
end
