-- Makes a process the owner of something for a lease, unless another process is.
--
-- KEYS[1]  the owner's name; expires with the lease
-- ARGV[1]  the process
-- ARGV[2]  lease in milliseconds; 0 gives up the ownership
--
-- Returns 1 if the process is the owner now, else 0.

local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  -- After the clock of Redis went back, a lease would last until it has caught up.
  if redis.call('PTTL', KEYS[1]) > 2 * ARGV[2] and ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
