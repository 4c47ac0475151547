-- Sets when ids are due, and adds those that the index lacks.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- ARGV     for each: id, and when it is due in milliseconds
--
-- Returns the number of ids given.

local P = KEYS[1]

for i = 1, #ARGV, 2 do
  redis.call('ZREM', P .. ':processing', ARGV[i])
  insert(P, {ARGV[i + 1], ARGV[i]})
end
return #ARGV / 2
