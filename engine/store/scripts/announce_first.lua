-- announce_first announces a timer that no event has requested to the timer services if it is the
-- next to fire: they may be sleeping until a later one. ARGV[from] to ARGV[to] are the event's fields.
local function announce_first(timers, member, stream, from, to)
  if redis.call('ZRANGE', timers, 0, 0)[1] == member then redis.pcall('XADD', stream, '*', unpack(ARGV, from, to)) end
end
