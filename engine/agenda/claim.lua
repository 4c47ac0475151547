-- Claims events that are due, and those whose lease has ended: nobody knows how their last
-- publication ended, so it counts as an attempt. An id without an open event leaves the index.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see leaves.lua
-- ARGV[1]  how many
-- ARGV[2]  owner, as JSON
-- ARGV[3]  lease in milliseconds
--
-- Returns the time in milliseconds, when the next event is due or the next lease ends or '', and
-- for each event its id and its record as it is now, the oldest first.

local P, most, owner, lease = KEYS[1], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local now = clock()
local ends = string.format('%.0f', now + lease)
local claimed = string.format(',"owner":%s,"lease":%s,"updated":%s', owner, ends, now)
local out, leases = {}, {}

local function claim(id)
  local key = P .. ':event:' .. text_of(id)
  local record = redis.call('GET', key)
  if not record then return false end
  local status, version, attempts, failures, content = state_of(record)
  if status ~= 'SCHEDULED' and status ~= 'FIRING' then return false end
  local rest = ''
  if content > 1 then
    -- The members that stay as they are.
    local state = string.sub(record, 1, content - 2)
    rest = (string.match(state, ',"next":%d+') or '') .. (string.match(state, '(,"error":".*)}$') or '')
    if status == 'FIRING' then attempts = attempts + 1 end
    record = string.sub(record, content)
  end
  record = string.format('{"status":"FIRING","version":%d,"attempts":%d,"failures":%d', version + 1, attempts, failures) ..
    claimed .. rest .. '}\n' .. record
  redis.call('SET', key, record)
  out[#out + 1], out[#out + 2] = id, record
  leases[#leases + 1], leases[#leases + 2] = ends, id
  return true
end

local ended = take_ended(P, now, most)
for _, id in ipairs(ended) do
  if not claim(id) then redis.call('ZREM', P .. ':processing', id) end
end
take_due(P, now, most - #out / 2, claim)
if #leases > 0 then redis.call('ZADD', P .. ':processing', unpack(leases)) end
return {now, next_due(P), out}
