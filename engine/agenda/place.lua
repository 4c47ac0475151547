-- Stores events that do not exist.
--
-- KEYS[1]   prefix of the partition; the script uses keys that begin with it, see leaves.lua
-- KEYS[2]   hash of the partitions
-- KEYS[3…]  for each event: its record, then its records in the partitions of former counts
-- ARGV[1]   expected epoch of the partitions
-- ARGV[2]   n, the number of records of each event among KEYS
-- ARGV[3…]  for each event: id, when it is due in milliseconds, record
--
-- Returns for each event 1, or its record if it exists; an error if the epoch is another one.

local P, partitions = KEYS[1], KEYS[2]
local epoch, n = ARGV[1], tonumber(ARGV[2])

if redis.call('HGET', partitions, 'epoch') ~= epoch then return redis.error_reply('EPOCH') end
local out = {}
for i = 1, (#ARGV - 2) / 3 do
  local id, due, record = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local first, known = 3 + (i - 1) * n, false
  for at = first + 1, first + n - 1 do known = known or redis.call('GET', KEYS[at]) end
  if known then
    out[i] = known
  elseif redis.call('SETNX', KEYS[first], record) == 1 then
    insert(P, due, id)
    out[i] = 1
  else
    out[i] = redis.call('GET', KEYS[first])
  end
end
return out
