-- Replies to messages of one consumer with an event each, in order, and acknowledges them. It skips
-- messages that the consumer no longer owns, and stops at the first event that cannot be written.
--
-- KEYS[1]   stream of the tenant
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   tenant
-- ARGV[4]   lowest entry id of the messages
-- ARGV[5]   highest entry id of the messages
-- ARGV[6]   maximum number of pending entries to examine
-- ARGV[7]   '1' if groups skip events that their services ignore
-- ARGV[8…]  for each reply the entry id of its message, and the event as in event.lua
--
-- Returns the first error or '', and for each reply the entry id of its event, or 0 if it was not
-- written.

local stream = KEYS[1]
local group, consumer, tenant, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6])

local found_all = find_mine(stream, group, consumer, ARGV[4], ARGV[5], limit) < limit
local at, wrong, out, acks = 8, '', {''}, {}
local groups = ARGV[7] == '1' and skippers(stream) or {}
while at <= #ARGV do
  local id, given = ARGV[at], 0
  if wrong == '' and not mine[id] and not found_all then find_mine(stream, group, consumer, id, id, 1) end
  if wrong == '' and mine[id] then
    local entry = add_event(stream, '*', tenant, at + 1)
    if type(entry) == 'table' and entry['err'] then
      wrong = entry['err']
    else
      given, acks[#acks + 1], mine[id] = entry, id, nil
      appended(groups, entry, type_of(at + 1))
    end
  end
  out[#out + 1] = given
  at = after_event(at + 1)
end
skip(stream, groups)
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
out[1] = wrong
return out
