-- This script writes even if Redis has reached maxmemory. Redis checks the memory before the first
-- write of a script only, and PERSIST passes that check: it takes no memory, and changes nothing here.
redis.call('PERSIST', KEYS[1])

