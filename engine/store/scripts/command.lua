-- Appends an operator's command to a stream and lists it so that a worker finds it before reading
-- the entries ahead of it.
--
-- KEYS[1]   stream of the tenant
-- KEYS[2]   commands that workers may not have read: "<entry id> <execution>", by the time of the entry
-- ARGV[1]   execution
-- ARGV[2]   seconds after which the list is dropped
-- ARGV[3…]  fields of the event
--
-- Returns the id of the entry.

local stream, commands = KEYS[1], KEYS[2]
local execution, keep = ARGV[1], tonumber(ARGV[2])

local id = redis.call('XADD', stream, '*', unpack(ARGV, 3))
-- The list only saves time: without it the command takes effect later.
if type(redis.pcall('ZADD', commands, string.match(id, '^%d+'), id .. ' ' .. execution)) == 'number' then
  redis.call('EXPIRE', commands, keep)
end
return id
