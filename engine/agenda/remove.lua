-- Removes ids.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- ARGV     for each: id, and when it is due in milliseconds; an id with another time stays
--
-- Returns the number of ids given.

local P = KEYS[1]

for i = 1, #ARGV, 2 do
  local id, due = ARGV[i], ARGV[i + 1]
  redis.call('ZREM', P .. ':processing', id)
  local _, key = leaf_of(P, due)
  if redis.call('ZSCORE', key, id) == due then remove(P, due, id) end
end
return #ARGV / 2
