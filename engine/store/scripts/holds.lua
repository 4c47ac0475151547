-- holds reports whether a consumer has exactly these pending entries: n of them, none before
-- first and none after last. Three replies tell it for any n > 0; it reports false for 0.
local function holds(stream, group, consumer, first, last, n)
  if n == 0 then return false end
  local summary = redis.pcall('XPENDING', stream, group)
  if summary['err'] then return false end
  local held = 0
  for _, one in ipairs(summary[4] or {}) do
    if one[1] == consumer then held = tonumber(one[2]) end
  end
  if held ~= n then return false end
  local head = redis.call('XPENDING', stream, group, '-', first, 2, consumer)
  local tail = redis.call('XPENDING', stream, group, last, '+', 2, consumer)
  return #head == 1 and head[1][1] == first and #tail == 1 and tail[1][1] == last
end
