-- Removes a version of a definition, unless it or the latest version has changed, and sources that no
-- version has.
--
-- KEYS[1]   hash of the definition
-- KEYS[2]   set of the tenant's workflows
-- ARGV[1]   id of the workflow
-- ARGV[2]   the version, '' to remove sources only
-- ARGV[3]   the expected hash of its source
-- ARGV[4]   the expected latest version
-- ARGV[5]   the latest version afterwards, '' if none is left
-- ARGV[6…]  hashes of the sources to remove
--
-- Returns 1 if it was removed, 0 if something has changed.

local definition, workflows = KEYS[1], KEYS[2]
local id, version, hash, latest, next = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if version ~= '' then
  local is = redis.call('HMGET', definition, 'version:' .. version, 'latest')
  if is[1] ~= hash or is[2] ~= latest then return 0 end
  redis.call('HDEL', definition, 'version:' .. version)
  if next == '' then
    redis.call('HDEL', definition, 'latest')
    redis.call('SREM', workflows, id)
  else
    redis.call('HSET', definition, 'latest', next)
  end
end

local fields, named = redis.call('HGETALL', definition), {}
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 8) == 'version:' then named[fields[i + 1]] = true end
end
for i = 6, #ARGV do
  if not named[ARGV[i]] then redis.call('HDEL', definition, 'text:' .. ARGV[i]) end
end
return 1
