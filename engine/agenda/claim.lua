-- Claims events that are due, and those whose lease has expired: the outcome of their last
-- publication is unknown, so it counts as an attempt. An id without an open event is removed from
-- the index. With KEYS[2], events whose topic names a Redis stream are published immediately; one
-- that the stream rejects is claimed like the others.
--
-- KEYS[1]  prefix of the partition; the script uses keys that begin with it, see partition.lua
-- KEYS[2]  prefix of the streams, or missing
-- ARGV[1]  maximum number of events
-- ARGV[2]  owner, as JSON
-- ARGV[3]  lease in milliseconds
-- ARGV[4]  how long published events are kept, in milliseconds
-- ARGV[5…] fields to add to each stream entry
--
-- Returns the time in milliseconds; when the next event is due or the next lease expires, or '';
-- for each claimed event its id and its new record: first those whose lease has expired, then those
-- that are due, each by time; and for each published event its id, due time, topic, earlier attempts,
-- and when it was to be claimed.

local P, streams, most, owner, lease = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local now = clock()
local ends = string.format('%.0f', now + lease)
local expiry = string.format('%.0f', now + ARGV[4])
local attributes = {unpack(ARGV, 5)}
local claimed = string.format(',"owner":%s,"lease":%s,"updated":%s', owner, ends, now)
local published = string.format(',"updated":%s,"published":%s}\n', now, now)
local out, records, leases, fired = {}, {}, {}, {}

-- fire publishes an event and returns true, or returns false if it must be claimed.
local function fire(id, key, content, version, attempts, failures, next)
  local due, topic, rest = topic_of(content)
  if not topic or not append(streams .. topic, attributes, string.sub(key, -36), due, content, rest, attempts + 1) then return false end
  redis.call('SET', key, string.format('{"status":"FIRED","version":%d,"attempts":%d,"failures":%d', version + 1, attempts + 1, failures) ..
    published .. content, 'PXAT', expiry)
  local n = #fired
  fired[n + 1], fired[n + 2], fired[n + 3], fired[n + 4], fired[n + 5] = id, due, topic, attempts, next or due
  return true
end

-- claim returns 'claimed' or 'published', or nil if the id has no open event.
local function claim(id, key, record)
  if not record then return nil end
  local status, version, attempts, failures, content = state_of(record)
  if status ~= 'SCHEDULED' and status ~= 'FIRING' then return nil end
  local next, rest = nil, ''
  if content > 1 then
    -- Members that do not change.
    local state = string.sub(record, 1, content - 2)
    next = string.match(state, ',"next":(%d+)')
    rest = (next and ',"next":' .. next or '') .. (string.match(state, '(,"error":".*)}$') or '')
    if status == 'FIRING' then attempts = attempts + 1 end
    record = string.sub(record, content)
  end
  if streams and fire(id, key, record, version, attempts, failures, next) then return 'published' end
  record = string.format('{"status":"FIRING","version":%d,"attempts":%d,"failures":%d', version + 1, attempts, failures) ..
    claimed .. rest .. '}\n' .. record
  records[#records + 1], records[#records + 2] = key, record
  out[#out + 1], out[#out + 2] = id, record
  leases[#leases + 1], leases[#leases + 2] = ends, id
  return 'claimed'
end

-- claim_all claims ids. It returns how many have an open event, and the ids that are not claimed.
local function claim_all(ids)
  local keys, others = {}, {}
  for i, id in ipairs(ids) do keys[i] = P .. ':event:' .. text_of(id) end
  local open = 0
  for i, record in ipairs(redis.call('MGET', unpack(keys))) do
    local what = claim(ids[i], keys[i], record)
    if what then open = open + 1 end
    if what ~= 'claimed' then others[#others + 1] = ids[i] end
  end
  return open, others
end

-- restart_leases restarts leases that began before the clock of Redis went back: otherwise an event of
-- a dead process would wait until the clock has caught up.
local function restart_leases()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':processing', '(' .. ends, '+inf', 'LIMIT', 0, most)) do
    local record = redis.call('GET', P .. ':event:' .. text_of(id))
    local updated = record and string.match(record, '^[^\n]*,"updated":(%d+)')
    if updated and tonumber(updated) > tonumber(now) then redis.call('ZADD', P .. ':processing', ends, id) end
  end
end

restart_leases()
local ended = take_ended(P, now, most)
if #ended > 0 then
  local open, others = claim_all(ended)
  most = most - open
  if #others > 0 then redis.call('ZREM', P .. ':processing', unpack(others)) end
end
take_due(P, now, most, claim_all)
if #leases > 0 then
  redis.call('MSET', unpack(records))
  redis.call('ZADD', P .. ':processing', unpack(leases))
end
return {now, next_due(P), out, fired}
