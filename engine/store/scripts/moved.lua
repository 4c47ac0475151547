-- remove_moved removes a timer that an operator has moved to another time. The execution's field
-- "moved:<tombstone>" holds its current member. It returns false if the timer was not moved.
local function remove_moved(timers, execution, tombstone)
  local member = redis.call('HGET', execution, 'moved:' .. tombstone)
  if not member then return false end
  redis.call('ZREM', timers, member)
  redis.call('HDEL', execution, 'moved:' .. tombstone)
  return true
end
