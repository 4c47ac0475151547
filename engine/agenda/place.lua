-- Stores events that do not exist yet.
--
-- KEYS[1]   hash of the partitions
-- KEYS[2…]  for each event: prefix of its partition, its record, then its records in the partitions
--           of former counts; the script uses keys that begin with a prefix, see leaves.lua
-- ARGV[1]   expected epoch of the partitions
-- ARGV[2]   number of former counts
-- ARGV[3…]  for each event: id, when it is due in milliseconds, record
--
-- Returns for each event 1, or its record if it exists; an error if the epoch has changed.

local epoch, former = ARGV[1], tonumber(ARGV[2])

if redis.call('HGET', KEYS[1], 'epoch') ~= epoch then return redis.error_reply('EPOCH') end
local out, at = {}, 2
for i = 1, (#ARGV - 2) / 3 do
  local P, key = KEYS[at], KEYS[at + 1]
  at = at + 2 + former
  local known = false
  for f = at - former, at - 1 do known = known or redis.call('GET', KEYS[f]) end
  if known then
    out[i] = known
  elseif redis.call('SETNX', key, ARGV[3 * i + 2]) == 1 then
    insert(P, ARGV[3 * i + 1], ARGV[3 * i])
    out[i] = 1
  else
    out[i] = redis.call('GET', key)
  end
end
return out
