-- Trims a stream: removes entries that are old enough and that every group has acknowledged, but
-- keeps a minimum for other readers. The last entry that the slowest group has read also stays.
--
-- KEYS[1]   stream of the tenant
-- ARGV[1]   minimum number of entries to keep
-- ARGV[2]   age in milliseconds below which entries stay
-- ARGV[3…]  groups without which nothing is removed
--
-- Returns the number of removed entries.

local stream = KEYS[1]
local keep, age = tonumber(ARGV[1]), tonumber(ARGV[2])

local length = redis.call('XLEN', stream)
if length <= keep then return 0 end
local now = redis.call('TIME')
local young = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000) - age
local first = string.format('%.0f-0', math.max(young, 0))
local missing, left = {}, #ARGV - 2
for i = 3, #ARGV do missing[ARGV[i]] = true end
for _, reply in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local group = named(reply)
  if missing[group['name']] then left = left - 1 end
  if before(group['last-delivered-id'], first) then first = group['last-delivered-id'] end
  local pending = redis.call('XPENDING', stream, group['name'])
  if pending[1] > 0 and before(pending[2], first) then first = pending[2] end
end
if left > 0 or first == '0-0' then return 0 end

-- miniredis, whose XINFO STREAM has few fields, ignores LIMIT.
if #redis.call('XINFO', 'STREAM', stream) <= 4 then
  local kept = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', keep)
  if keep > 0 and before(kept[keep][1], first) then first = kept[keep][1] end
  return redis.call('XTRIM', stream, 'MINID', first)
end
return redis.call('XTRIM', stream, 'MINID', '~', first, 'LIMIT', math.min(length - keep, 100000))
