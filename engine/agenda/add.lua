-- Adds the ids that the index lacks.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see leaves.lua
-- ARGV     for each: id, and when it is due in milliseconds
--
-- Returns how many ids were given.

local P = KEYS[1]

for i = 1, #ARGV, 2 do
  local id, due = ARGV[i], ARGV[i + 1]
  local _, key = leaf_of(P, due)
  if not redis.call('ZSCORE', P .. ':processing', id) and not redis.call('ZSCORE', key, id) then insert(P, due, id) end
end
return #ARGV / 2
