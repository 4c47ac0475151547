-- wake tells the timer services of a timer that no event has asked for, if it is the first one:
-- they may sleep until a later one. ARGV holds the fields of the event between two places.
local function announce_first(timers, member, stream, from, to)
  if redis.call('ZRANGE', timers, 0, 0)[1] == member then redis.pcall('XADD', stream, '*', unpack(ARGV, from, to)) end
end
