-- Runs one command even if Redis is full.
--
-- KEYS[1]  key of the command
-- ARGV     the command with its arguments
--
-- Returns the reply of the command.

return redis.call(unpack(ARGV))
