-- Records the outcomes of publications. An outcome has no effect if its event is not FIRING in the
-- claimed version.
--
-- KEYS[1]   prefix of the partition; the script uses keys that begin with it, see partition.lua
-- KEYS[2…]  record of each event
-- ARGV[1]   the current time in milliseconds
-- ARGV[2]   the time in milliseconds when closed events expire
-- ARGV[3…]  for each event: id, claimed version, new status, when it is due or its lease ends in
--           milliseconds, and its new state, a line
--
-- Returns for each event 1 or 0.

local P, now, expiry = KEYS[1], ARGV[1], ARGV[2]

redis.call('PERSIST', P .. ':processing') -- so that a full Redis records what was published, see even_if_full.lua

local out, gone = {}, {}
for i, record in ipairs(redis.call('MGET', unpack(KEYS, 2))) do
  local key = KEYS[i + 1]
  local id, claimed, new, next, line = unpack(ARGV, 5 * i - 2, 5 * i + 2)
  local status, version, _, _, content
  if record then status, version, _, _, content = state_of(record) end
  out[i] = 0
  if status == 'FIRING' and version == tonumber(claimed) then
    out[i] = 1
    record = line .. string.sub(record, content)
    if new == 'FIRED' then
      redis.call('SET', key, record, 'PXAT', expiry)
    else
      redis.call('SET', key, record)
    end
    if new == 'FIRING' then
      redis.call('ZADD', P .. ':processing', next, id)
    else
      gone[#gone + 1] = id
    end
    if new == 'SCHEDULED' then insert(P, {next, id}) end
    if new == 'DEAD' then redis.call('ZADD', P .. ':dlq', now, id) end
  end
end
if #gone > 0 then redis.call('ZREM', P .. ':processing', unpack(gone)) end
return out
