-- Removes an execution that does not exist from the index of open executions.
--
-- KEYS[1]   index of open executions
-- KEYS[2]   hash of the execution
-- ARGV[1]   id of the execution
--
-- Returns 1 if it was removed, 0 if not.

if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
