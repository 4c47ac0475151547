-- Adds ids that the index lacks.
--
-- KEYS[1]   prefix of the partition
-- KEYS[2…]  for each id: prefixes of the partitions of former counts that may hold it; the
--           script uses keys that begin with a prefix, see partition.lua
-- ARGV[1]   n, the number of these prefixes per id
-- ARGV[2…]  for each event: id, and when it is due in milliseconds
--
-- If the leaf already holds the id with a later time, the script makes it due earlier.
--
-- Returns the number of ids that were missing or due later.

local P, n = KEYS[1], tonumber(ARGV[1])

local function has(P, due, id)
  local _, key = leaf_of(P, due)
  local at = redis.call('ZSCORE', key, id)
  return at and tonumber(at) <= tonumber(due) or redis.call('ZSCORE', P .. ':processing', id)
end

local added = 0
for i = 1, (#ARGV - 1) / 2 do
  local id, due = ARGV[2 * i], ARGV[2 * i + 1]
  local known = has(P, due, id)
  for at = 2 + (i - 1) * n, 1 + i * n do known = known or has(KEYS[at], due, id) end
  if not known then
    insert(P, {due, id})
    added = added + 1
  end
end
return added
