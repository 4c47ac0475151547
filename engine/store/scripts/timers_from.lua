-- Reads a page of timers after or before a position, even if the timer at that position is gone: the
-- place is then found by binary search among the timers with its score.
--
-- KEYS[1]  timers
-- ARGV[1]  score of the position
-- ARGV[2]  member of the position
-- ARGV[3]  maximum number of timers
-- ARGV[4]  'on' to read after the position, 'back' to read before it
--
-- Returns members and scores, in the order of the timers.

local timers = KEYS[1]
local score, member, count, onward = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == 'on'

-- before compares byte by byte, as Redis does; Lua's < depends on the locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local from = redis.call('ZRANK', timers, member)
if from then
  if onward then from = from + 1 end
else
  from = redis.call('ZCOUNT', timers, '-inf', '(' .. score)
  local to = redis.call('ZCOUNT', timers, '-inf', score)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if before(member, redis.call('ZRANGE', timers, middle, middle)[1]) then to = middle else from = middle + 1 end
  end
end
if onward then return redis.call('ZRANGE', timers, from, from + count - 1, 'WITHSCORES') end
if from == 0 then return {} end
return redis.call('ZRANGE', timers, math.max(0, from - count), from - 1, 'WITHSCORES')
