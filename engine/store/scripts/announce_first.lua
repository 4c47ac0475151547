-- announce_first announces a timer to the timer services if it is the next to fire, since they may be
-- sleeping until a later one. It is for timers that no event requested. ARGV[from] to ARGV[to] are the
-- fields of the announcing event.
local function announce_first(timers, member, stream, from, to)
  if redis.call('ZRANGE', timers, 0, 0)[1] == member then redis.pcall('XADD', stream, '*', unpack(ARGV, from, to)) end
end
