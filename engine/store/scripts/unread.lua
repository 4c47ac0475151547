-- A group need not read events that it ignores: if it has read all earlier entries, its position
-- advances past them. Without this, the timer service would read the events that it publishes, and
-- Redis and flunq would spend 1.4 times as much CPU on a fired timer (testdata/figures.md).
--
-- position returns the position of a group that has read everything; advance moves it.
local function position(stream, name)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups['err'] then return end
  for i = 1, #groups do
    local group = {}
    if groups[i][2] == name then -- the name comes first
      for j = 1, #groups[i], 2 do group[groups[i][j]] = groups[i][j + 1] end
      local rest = redis.pcall('XRANGE', stream, '(' .. group['last-delivered-id'], '+', 'COUNT', 1)
      if #rest == 0 and not rest['err'] then return {read = group['entries-read'], more = 0} end
    end
  end
end
local function advance(stream, name, at)
  if at.read then
    redis.pcall('XGROUP', 'SETID', stream, name, at.last, 'ENTRIESREAD', at.read + at.more)
  else
    redis.pcall('XGROUP', 'SETID', stream, name, at.last)
  end
end
