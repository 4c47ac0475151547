-- Reads the first pending entries of a group.
--
-- KEYS[1]  stream of the tenant
-- ARGV[1]  group
-- ARGV[2]  maximum number of entries
-- ARGV[3]  bytes of data above which it is left out
--
-- Returns for each entry: id, consumer, idle time in milliseconds, deliveries, event type,
-- execution, workflow, task and data. There are none if the group does not exist.

local stream = KEYS[1]
local group, count, most = ARGV[1], ARGV[2], tonumber(ARGV[3])

local out = {}
local pending = redis.pcall('XPENDING', stream, group, '-', '+', count)
if pending['err'] then
  if string.find(pending['err'], 'NOGROUP', 1, true) or string.find(pending['err'], 'no such key', 1, true) then return out end
  return pending
end
for _, one in ipairs(pending) do
  local id, consumer, idle, deliveries = unpack(one)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    local data = fields['data'] or ''
    if #data > most then data = '' end
    out[#out + 1] = {id, consumer, idle, deliveries, fields['type'] or '', fields['executionid'] or '', fields['workflowid'] or '', fields['taskid'] or '', data}
  end
end
return out
