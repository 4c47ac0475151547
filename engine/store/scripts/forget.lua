-- Removes executions that have ended, each completely or not at all. An execution is removed if it
-- has not changed since it was read and its parent has ended.
--
-- KEYS[1…3]  indexes of executions that have ended
-- KEYS[4…]   for each execution: its hash, its history, and the hash of its parent (its own
--            if it has none)
-- ARGV       for each execution: id, number of its index among KEYS, version, when it ended,
--            and id of its parent ('' if it has none)
--
-- Returns for each execution: 1 removed, 2 already gone, 0 kept.

local over = {completed = true, faulted = true, cancelled = true}
local out = {}
for i = 1, #ARGV / 5 do
  local id, index, version, ended, parent = unpack(ARGV, 5 * i - 4, 5 * i)
  local execution, history, parent_key = KEYS[3 * i + 1], KEYS[3 * i + 2], KEYS[3 * i + 3]
  local is = redis.pcall('HMGET', execution, 'version', 'ended', 'parent', 'status')
  local same = not is['err'] and (is[1] or '') == version and (is[2] or '') == ended and (is[3] or '') == parent
  if same and is[4] and not over[is[4]] then same = false end
  if same and parent ~= '' then
    local status = redis.pcall('HGET', parent_key, 'status')
    if type(status) == 'table' or status and not over[status] then same = false end
  end
  out[i] = 0
  if same then
    redis.call('UNLINK', execution, history)
    out[i] = redis.call('ZREM', KEYS[tonumber(index)], id) == 1 and 1 or 2
  end
end
return out
