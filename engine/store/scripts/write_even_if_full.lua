-- Runs one command even if Redis is full.
--
-- KEYS[1]   key of the command
-- ARGV[1]   the command
-- ARGV[2…]  its arguments after the key
--
-- Returns the reply of the command.

return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
