-- Takes ids that are due, and those whose lease has expired.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- ARGV[1]  maximum number of ids
-- ARGV[2]  lease in milliseconds
--
-- Returns the time in milliseconds; when the next id is due or the next lease expires, or ''; and
-- the ids: first those whose lease has expired, then those that are due, each by time.

local P, most, lease = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local now = clock()
local ids, args = take_ended(P, now, most), {}
take_due(P, now, most - #ids, function(found)
  for _, id in ipairs(found) do ids[#ids + 1] = id end
  return #found
end)
local ends = string.format('%.0f', now + lease)
for i, id in ipairs(ids) do args[2 * i - 1], args[2 * i] = ends, id end
if #args > 0 then redis.call('ZADD', P .. ':processing', unpack(args)) end
return {now, next_due(P), ids}
