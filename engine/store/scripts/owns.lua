-- owns reports whether a message is still pending for a consumer. It is not if another consumer
-- has claimed it, if it was acknowledged, or if the group is gone (the next read recreates it).
local function owns(stream, group, entry, consumer)
  local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1)
  if pending['err'] then
    if string.find(pending['err'], 'NOGROUP', 1, true) then return false end
    error(pending['err'], 0)
  end
  return #pending == 1 and pending[1][2] == consumer
end
