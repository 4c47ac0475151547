-- Stores a version of a definition if the latest version is the expected one.
--
-- KEYS[1]   hash of the definition
-- KEYS[2]   set of the tenant's workflows
-- ARGV[1]   the expected latest version, '' for none
-- ARGV[2]   id of the workflow
-- ARGV[3…]  field names and values to set
--
-- Returns 1 if it was stored, 0 if the latest version is a different one.

local definition, workflows = KEYS[1], KEYS[2]
local latest, id = ARGV[1], ARGV[2]

if (redis.call('HGET', definition, 'latest') or '') ~= latest then return 0 end
local is = redis.call('TYPE', workflows)['ok']
if is ~= 'none' and is ~= 'set' then
  return redis.error_reply('WRONGTYPE ' .. workflows .. ' is a ' .. is .. ', want a set')
end
redis.call('HSET', definition, unpack(ARGV, 3))
redis.call('SADD', workflows, id)
return 1
