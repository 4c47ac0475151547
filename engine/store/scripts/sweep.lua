-- Removes consumers that have no pending entries and have been idle for a given time.
--
-- KEYS[1]  stream of the tenant
-- ARGV[1]  group
-- ARGV[2]  idle time in milliseconds
--
-- Returns the number of removed consumers.

local stream = KEYS[1]
local group, idle = ARGV[1], tonumber(ARGV[2])

local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
if consumers['err'] then
  if string.find(consumers['err'], 'NOGROUP', 1, true) or string.find(consumers['err'], 'no such key', 1, true) then return 0 end
  return consumers
end
local removed = 0
for _, reply in ipairs(consumers) do
  local consumer = named(reply)
  if consumer['pending'] == 0 and consumer['idle'] >= idle
    and #redis.call('XPENDING', stream, group, '-', '+', 1, consumer['name']) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer['name'])
    removed = removed + 1
  end
end
return removed
