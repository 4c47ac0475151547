-- Changes an event.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- KEYS[2]  record of the event
-- KEYS[3]  hash of the partitions, see set_partitions.lua
-- ARGV[1]  id
-- ARGV[2]  expected version
-- ARGV[3]  when the event was due before, in milliseconds
-- ARGV[4]  new record
-- ARGV[5]  when it is due now, in milliseconds; '' if never
-- ARGV[6]  when the record expires, in milliseconds; '' if never
-- ARGV[7]  the former number of partitions that finds the event here, or 0. If it is remembered,
--          it is remembered as if it had been replaced only now.
-- ARGV[8]  the current time in milliseconds
--
-- Returns 1, or 0 if the event has another version.

local P, key, partitions = KEYS[1], KEYS[2], KEYS[3]
local id, expected, from, changed, to, expiry, former, now = unpack(ARGV)

local record = redis.call('GET', key)
if not record then return 0 end
local status, version = state_of(record)
if version ~= tonumber(expected) then return 0 end
if status == 'SCHEDULED' then remove(P, from, id) end
if status == 'DEAD' then redis.call('ZREM', P .. ':dlq', id) end
if expiry == '' then
  redis.call('SET', key, changed)
else
  redis.call('SET', key, changed, 'PXAT', expiry)
end
if to ~= '' then insert(P, {to, id}) end
if redis.call('HEXISTS', partitions, 'former:' .. former) == 1 then
  redis.call('HSET', partitions, 'former:' .. former, now)
end
return 1
