-- Answers messages to one consumer with an event each, in their order, and acknowledges them. A
-- message that is not the consumer's any more is left out. After an event that cannot be written
-- none is.
--
-- The entries are looked up among what the consumer has pending between the first and the last of
-- them, and one by one if there is too much of that.
--
-- KEYS[1]   stream of the tenant
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   lowest entry id of the messages
-- ARGV[4]   highest entry id of the messages
-- ARGV[5]   how many pending entries to look at
-- ARGV[6]   tenant
-- ARGV[7]   number of answers
-- ARGV[8]   where the answers begin
-- ARGV[9…]  words, then the answers
--
-- An answer is the entry id of its message and a shape of bytes: how many fields its event has, which
-- follow; or the places of the words for source, type, time, workflow, task and the end of the id,
-- and then execution and data follow.
--
-- Returns the first error or '', and for each answer the entry id of its event, or 0 if it was not given.

local args, stream, group, me = ARGV, KEYS[1], ARGV[1], ARGV[2]
local all = find_mine(stream, group, me, args[3], args[4], args[5]) < tonumber(args[5])
local shapes = {}

local function read(shape)
  local places = {string.byte(shape, 1, 12)}
  local s = {}
  for i = 1, #places / 2 do s[i] = places[2 * i - 1] * 256 + places[2 * i] end
  if #s == 1 then
    s = {fields = s[1], length = s[1] + 2}
  else
    s = {source = args[s[1]], kind = args[s[2]], time = args[s[3]], workflow = args[s[4]], task = args[s[5]], suffix = args[s[6]], length = 4}
  end
  shapes[shape] = s
  return s
end

local function add(s, at)
  if s.fields then return redis.pcall('XADD', stream, '*', unpack(args, at, at + s.fields - 1)) end
  return redis.pcall('XADD', stream, '*', 'id', args[at] .. s.suffix, 'source', s.source, 'specversion', '1.0', 'type', s.kind,
    'time', s.time, 'tenantid', args[6], 'workflowid', s.workflow, 'executionid', args[at], 'taskid', s.task, 'data', args[at + 1])
end

local at, wrong, out, acks = tonumber(args[8]), '', {''}, {}
for i = 1, tonumber(args[7]) do
  local id, s = args[at], shapes[args[at + 1]] or read(args[at + 1])
  local given = 0
  if wrong == '' and not all and not mine[id] then find_mine(stream, group, me, id, id, 1) end
  if wrong == '' and mine[id] then
    local entry = add(s, at + 2)
    if type(entry) == 'table' and entry['err'] then
      wrong = entry['err']
    else
      given, acks[#acks + 1], mine[id] = entry, id, nil
    end
  end
  out[i + 1] = given
  at = at + s.length
end
if #acks > 0 then redis.call('XACK', stream, group, unpack(acks)) end
out[1] = wrong
return out
