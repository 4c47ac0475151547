-- Stores events that do not exist yet.
--
-- KEYS[1]  hash of the partitions
-- KEYS[…]  the prefix of each event's partition; the script uses keys that begin with it, see
--          partition.lua
-- KEYS[…]  for each event: its record, then its records in the partitions of former counts
-- ARGV[1]  expected epoch of the partitions
-- ARGV[…]  for each event: id, when it is due in milliseconds, record
--
-- The ids differ. There are up to 64, those of a partition together and the latest due first.
--
-- Returns for each event 1, or its record if it exists; an error if the epoch has changed.

local n = (#ARGV - 1) / 3
local each = (#KEYS - 1) / n - 1 -- records that may exist of one event

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return redis.error_reply('EPOCH') end

local known = redis.call('MGET', unpack(KEYS, n + 2))
local out, records, ids = {}, {}, {} -- ids of one partition
for i = 1, n do
  local id, due, record = unpack(ARGV, 3 * i - 1, 3 * i + 1)
  local at = (i - 1) * each
  for k = at + 1, at + each do
    if known[k] then out[i] = known[k] end
  end
  if not out[i] then
    out[i] = 1
    records[#records + 1], records[#records + 2] = KEYS[n + 2 + at], record
    ids[#ids + 1], ids[#ids + 2] = due, id
  end
  local P = KEYS[1 + i]
  if i == n or KEYS[2 + i] ~= P then
    insert(P, ids)
    ids = {}
  end
end
if #records > 0 then redis.call('MSET', unpack(records)) end
return out
