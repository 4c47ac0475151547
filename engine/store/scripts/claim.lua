-- Claims entries that have been idle for a lease, and counts for each how many consumers crashed
-- while holding it.
-- A consumer that released an entry has not crashed. After a number of crashes the entry is a
-- poison candidate, and another crash counts only if the entry was handled in isolation: a
-- consumer that crashed while handling other entries, too, says nothing about this one.
--
-- KEYS[1]  stream of the tenant
-- KEYS[2]  hash of crash counts: "<group> <entry>" is a count, "alone <group> <entry>" marks
--          an entry that is being handled in isolation
-- ARGV[1]  group
-- ARGV[2]  consumer that claims
-- ARGV[3]  lease in milliseconds
-- ARGV[4]  idle time of released entries in milliseconds
-- ARGV[5]  first entry id to examine
-- ARGV[6]  maximum number of entries to examine
-- ARGV[7]  number of crashes that makes a poison candidate
-- ARGV[8]  bytes of values after which no other entry is claimed
-- ARGV[9]  bytes above which a value is left out
--
-- Returns for each entry: id, crashes, fields, and the length of the value that was left out or 0.

local stream, crashes = KEYS[1], KEYS[2]
local group, consumer, lease, released = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local first, count, candidate = ARGV[5], ARGV[6], tonumber(ARGV[7])
local most_bytes, most_value = tonumber(ARGV[8]), tonumber(ARGV[9])

local out, bytes = {}, 0
for _, pending in ipairs(redis.call('XPENDING', stream, group, 'IDLE', lease, first, '+', count)) do
  local id, owner, idle = pending[1], pending[2], pending[3]
  local field = group .. ' ' .. id
  local crashed = tonumber(redis.call('HGET', crashes, field) or '0')
  if idle < released and owner ~= consumer then
    if crashed < candidate or redis.call('HDEL', crashes, 'alone ' .. field) == 1 then
      crashed = redis.call('HINCRBY', crashes, field, 1)
    end
  end
  local claimed = redis.call('XAUTOCLAIM', stream, group, consumer, lease, id, 'COUNT', 1)[2]
  if claimed[1] and claimed[1][1] == id then
    local fields, omitted = claimed[1][2], 0
    for i = 1, #fields do
      if #fields[i] > most_value then
        omitted = #fields[i]
        fields[i] = omitted .. ' bytes were left out'
      end
      bytes = bytes + #fields[i]
    end
    out[#out + 1] = {id, crashed, fields, omitted}
    if bytes > most_bytes then break end
  end
end
return out
