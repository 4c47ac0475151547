-- The keys of a partition with the prefix P, "scheduler:{<partition>}", or on a Redis Cluster
-- "scheduler:{scheduler}:<partition>":
--   P:scheduled:<leaf>  sorted set of up to 63 ids by their due time in milliseconds
--   P:buckets           sorted set of the leaves that are not empty, by the time when each begins
--   P:processing        sorted set of ids that a process has taken, by the end of the lease
--   P:dlq               sorted set of ids of dead events by the time when they died
--   P:event:<id>        record of an event: one string of up to three parts, see below
--
-- A leaf is named after the time when it begins, and holds the ids that are due from then until
-- the next leaf begins; leaf 0 holds those before the first other leaf. This way Redis keeps each
-- leaf as a listpack: compact, and short enough to be searched from its beginning. A leaf grows
-- beyond 63 ids only if all are due in the same millisecond. An id is the 16 bytes of a UUID.
--
-- Calls made for each event pass numbers as strings: Redis 7.0 takes 0.6 µs to format a number.

local MOST = 64

-- leaf_of returns the leaf for a time, and its key.
local function leaf_of(P, due)
  local leaf = redis.call('ZREVRANGEBYSCORE', P .. ':buckets', due, '-inf', 'LIMIT', '0', '1')[1] or '0'
  return leaf, P .. ':scheduled:' .. leaf
end

-- split moves the second half of a leaf, which has 64 ids or more, to new leaves.
local function split(P, leaf, key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  local middle = redis.call('ZRANGE', key, MOST / 2, MOST / 2, 'WITHSCORES')[2]
  if middle == first then
    middle = redis.call('ZRANGEBYSCORE', key, '(' .. first, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  if middle then
    -- Copying a leaf and removing half of each takes a tenth of the time of moving ids one by one.
    local upper = P .. ':scheduled:' .. middle
    redis.call('COPY', key, upper)
    redis.call('ZREMRANGEBYSCORE', key, middle, '+inf')
    redis.call('ZREMRANGEBYSCORE', upper, '-inf', '(' .. middle)
    redis.call('ZADD', P .. ':buckets', middle, middle)
    if redis.call('ZCARD', upper) >= MOST then split(P, middle, upper) end
  elseif leaf ~= first then
    -- All are due in the same millisecond. Let the leaf begin there so that ids with an earlier
    -- time go to the leaf before it, and those with a later time split off one by one.
    redis.call('RENAME', key, P .. ':scheduled:' .. first)
    redis.call('ZREM', P .. ':buckets', leaf)
    redis.call('ZADD', P .. ':buckets', first, first)
  end
end

-- insert adds up to 64 ids (together with a leaf of 63 they still fit in a listpack), or changes their
-- times if they are already in the same leaf. ids lists the due time and the id of each, the latest
-- first, so that the ids of one leaf are adjacent and are added together. Ids that are due after a full
-- leaf begin a new one: if times ascend, leaves stay full and are not split.
local function insert(P, ids)
  local from = 1
  while ids[from] do
    local leaf, key = leaf_of(P, ids[from])
    local begins, last = tonumber(leaf), from
    while ids[last + 2] and tonumber(ids[last + 2]) >= begins do last = last + 2 end
    local size = redis.call('ZCARD', key)
    if size > 0 and size + (last - from) / 2 + 1 >= MOST and
      tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) < tonumber(ids[last]) then
      leaf, key, size = ids[last], P .. ':scheduled:' .. ids[last], 0
    end
    if size == 0 then redis.call('ZADD', P .. ':buckets', leaf, leaf) end
    if size + redis.call('ZADD', key, unpack(ids, from, last + 1)) >= MOST then split(P, leaf, key) end
    from = last + 2
  end
end

-- remove removes an id that is due at the given time.
local function remove(P, due, id)
  local leaf, key = leaf_of(P, due)
  if redis.call('ZREM', key, id) == 1 and redis.call('EXISTS', key) == 0 then
    redis.call('ZREM', P .. ':buckets', leaf)
  end
end

-- clock returns the time in milliseconds as a string.
local function clock()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- take_ended returns up to most ids whose lease has expired, without removing them.
local function take_ended(P, now, most)
  return redis.call('ZRANGEBYSCORE', P .. ':processing', '-inf', now, 'LIMIT', 0, most)
end

-- take_due removes up to most due ids from their leaves, the oldest first. It calls take with the ids
-- of each leaf; take returns how many of them count towards most.
local function take_due(P, now, most, take)
  local taken = 0
  while taken < most do
    local leaf = redis.call('ZRANGE', P .. ':buckets', 0, 0)[1]
    if not leaf then break end
    local key = P .. ':scheduled:' .. leaf
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, most - taken)
    if #found == 0 then break end
    redis.call('ZREMRANGEBYRANK', key, 0, #found - 1)
    if redis.call('EXISTS', key) == 0 then redis.call('ZREM', P .. ':buckets', leaf) end
    taken = taken + take(found)
  end
end

-- next_due returns when the next id is due or the next lease expires, or '' if the index is empty.
local function next_due(P)
  local leaf = redis.call('ZRANGE', P .. ':buckets', 0, 0)[1]
  local due = leaf and redis.call('ZRANGE', P .. ':scheduled:' .. leaf, 0, 0, 'WITHSCORES')[2]
  local ends = redis.call('ZRANGE', P .. ':processing', 0, 0, 'WITHSCORES')[2]
  if due and ends then return tonumber(due) < tonumber(ends) and due or ends end
  return due or ends or ''
end

-- The parts of a record:
--   {"status":…,"version":…,"attempts":…,"failures":…,…}    its state, a line; missing while nothing
--                                                            has happened to the event
--   {"format":1,"due":…,"topic":…,…}                         its content, a line
--   the payload, unchanged
-- Both lines are JSON. A state begins with the members shown here; an error comes last.

-- state_of returns the fields of a record's state, and where its content begins.
local function state_of(record)
  if string.sub(record, 1, 10) ~= '{"status":' then return 'SCHEDULED', 1, 0, 0, 1 end
  local status, version, attempts, failures =
    string.match(record, '^{"status":"(%u+)","version":(%d+),"attempts":(%d+),"failures":(%d+)')
  return status, tonumber(version), tonumber(attempts), tonumber(failures), string.find(record, '\n', 1, true) + 1
end

-- text_of formats an id as a UUID. One format of six numbers takes half the time of one of sixteen
-- bytes.
local function text_of(id)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = string.byte(id, 1, 16)
  return string.format('%08x-%04x-%04x-%04x-%04x%08x', ((a * 256 + b) * 256 + c) * 256 + d, e * 256 + f, g * 256 + h,
    i * 256 + j, k * 256 + l, ((m * 256 + n) * 256 + o) * 256 + p)
end

