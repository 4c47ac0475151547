-- find_mine adds to mine the entries that a consumer has pending between two entries, up to limit
-- of them, and returns their number. It returns 0 if the group does not exist.
local mine = {}
local function find_mine(stream, group, consumer, first, last, limit)
  local pending = redis.pcall('XPENDING', stream, group, first, last, limit, consumer)
  if pending['err'] then
    if string.find(pending['err'], 'NOGROUP', 1, true) then return 0 end
    error(pending['err'], 0)
  end
  for i = 1, #pending do mine[pending[i][1]] = true end
  return #pending
end
