-- Sets the idle time of messages: 0 renews their lease, a long time lets any consumer claim them.
--
-- KEYS[1]   stream of the tenant
-- ARGV[1]   group
-- ARGV[2]   consumer
-- ARGV[3]   idle time in milliseconds
-- ARGV[4…]  entry ids of the messages
--
-- Returns the entry ids of the messages that the consumer no longer owns.

local stream = KEYS[1]
local group, consumer, idle = ARGV[1], ARGV[2], ARGV[3]

local lost = {}
for i = 4, #ARGV do
  local pending = redis.pcall('XPENDING', stream, group, ARGV[i], ARGV[i], 1)
  if not pending['err'] and #pending == 1 and pending[1][2] == consumer then
    redis.call('XCLAIM', stream, group, consumer, 0, ARGV[i], 'IDLE', idle, 'JUSTID')
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
