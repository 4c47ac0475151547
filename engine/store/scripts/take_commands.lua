-- Delivers operators' commands to a consumer ahead of the entries that precede them in the stream.
-- The group reads them again when it reaches them, without effect.
--
-- Only commands to executions that have begun are delivered. Others stay in the list: the start
-- of their execution comes first.
--
-- KEYS[1]  stream of the tenant
-- KEYS[2]  commands that workers may not have read: "<entry id> <execution>", by the time of the entry
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  prefix of the keys of executions
-- ARGV[4]  maximum number of commands to deliver
-- ARGV[5]  maximum number of commands to examine
--
-- Returns the entries as claim.lua does.

local stream, commands = KEYS[1], KEYS[2]
local name, consumer, executions, most, look = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

local function begun(execution)
  local version = redis.pcall('HGET', executions .. execution, 'version')
  return type(version) == 'string' and version ~= '0'
end

local delivered
for _, reply in ipairs(redis.pcall('XINFO', 'GROUPS', stream)) do -- an error without entries if there is no stream
  local group = named(reply)
  if group['name'] == name then delivered = group['last-delivered-id'] end
end
local out = {}
if not delivered then return out end
for _, member in ipairs(redis.call('ZRANGE', commands, 0, look - 1)) do
  local id, execution = string.match(member, '^(%S+) (.*)$')
  if not id or not before(delivered, id) then
    redis.call('ZREM', commands, member)
  elseif #out < most and begun(execution) then
    redis.call('ZREM', commands, member)
    local entry = redis.call('XCLAIM', stream, name, consumer, 0, id, 'FORCE')[1]
    if entry then out[#out + 1] = {id, 0, entry[2], 0} end
  end
end
return out
