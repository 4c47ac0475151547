-- Reads a page of a partition's ids.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- ARGV[1]  scheduled, processing or dlq
-- ARGV[2]  the page begins at this time in milliseconds,
-- ARGV[3]  and after this id of that time, if it is not ''
-- ARGV[4]  the page ends before this time in milliseconds, +inf for none
-- ARGV[5]  maximum number of ids
--
-- Returns ids with their times, by time and id.

local P, set, from, after, to, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

-- precedes compares ids by their bytes, regardless of Redis' locale.
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- behind returns the rank of the first id of the page.
local function behind(key)
  local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. from), redis.call('ZCOUNT', key, '-inf', from)
  if after == '' then return low end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(after, redis.call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

local out = {}

-- read adds ids of a set, and reports whether the page is complete: full, or at its end time.
local function read(key)
  local rank = behind(key)
  local found = redis.call('ZRANGE', key, rank, rank + most - #out / 2 - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if to ~= '+inf' and tonumber(found[i + 1]) >= tonumber(to) then return true end
    out[#out + 1], out[#out + 2] = found[i], found[i + 1]
  end
  return #out >= 2 * most
end

if set ~= 'scheduled' then
  read(P .. ':' .. set)
  return out
end
local leaf, key = leaf_of(P, from)
local full = read(key)
while not full do
  leaf = redis.call('ZRANGEBYSCORE', P .. ':buckets', '(' .. leaf, '+inf', 'LIMIT', 0, 1)[1]
  if not leaf then break end
  full = read(P .. ':scheduled:' .. leaf)
end
return out
