-- Describes a stream and its groups.
--
-- KEYS[1]  stream of the tenant
-- KEYS[2]  stream of dead letters
--
-- Returns: length, number of dead letters, id of the first entry ('' for none), and the groups,
-- each as name, id of the last delivered entry, pending, lag, consumers (name, pending, idle time)
-- and the first pending entry as XPENDING has it.
--
-- The lag is the one that Redis reports. Older servers report none, nor does Redis for a stream
-- with gaps, and miniredis reports the length of the stream: then up to 1,000 entries are counted.

local stream, dead_letters = KEYS[1], KEYS[2]

local function id(command, from, to)
  local found = redis.call(command, stream, from, to, 'COUNT', 1)
  return found[1] and found[1][1] or ''
end
local length, dead = redis.call('XLEN', stream), redis.call('XLEN', dead_letters)
local first, last = id('XRANGE', '-', '+'), id('XREVRANGE', '+', '-')
local groups = {}
if redis.call('EXISTS', stream) == 0 then return {length, dead, first, groups} end
for i, reply in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local group = named(reply)
  local name, delivered, lag = group['name'], group['last-delivered-id'], group['lag']
  if last == '' or not before(delivered, last) then
    lag = 0
  elseif type(lag) ~= 'number' or lag >= length and not before(delivered, first) then
    lag = #redis.call('XRANGE', stream, '(' .. delivered, '+', 'COUNT', 1000)
  end
  local consumers = {}
  for n, one in ipairs(redis.call('XINFO', 'CONSUMERS', stream, name)) do
    local consumer = named(one)
    consumers[n] = {consumer['name'], consumer['pending'], consumer['idle']}
  end
  local oldest = {}
  if group['pending'] > 0 then oldest = redis.call('XPENDING', stream, name, '-', '+', 1)[1] or oldest end
  groups[i] = {name, delivered, group['pending'], lag, consumers, oldest}
end
return {length, dead, first, groups}
