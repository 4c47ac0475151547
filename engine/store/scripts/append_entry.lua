-- append_entry appends an operator's entry to the history of an execution that has not ended.
-- ARGV[from] to ARGV[to] hold its id without the version, then its other fields.
local function append_entry(execution, history, from, to)
  if to < from then return end
  local is = redis.call('HMGET', execution, 'version', 'status')
  local version = tonumber(is[1] or '0')
  if version == 0 or is[2] == 'completed' or is[2] == 'faulted' or is[2] == 'cancelled' then return end
  local next = string.format('%.0f', version + 1)
  redis.call('XADD', history, next, 'id', ARGV[from] .. next, unpack(ARGV, from + 1, to))
  redis.call('HSET', execution, 'version', next)
end
