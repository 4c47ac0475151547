-- Events whose topic names a Redis stream.

local dates = {} -- by day: most events are due on the same one

-- date_of returns the date of a day since 1970. It counts in eras of 400 years that begin on the
-- first of March.
local function date_of(day)
  local era = math.floor((day + 719468) / 146097)
  local of_era = day + 719468 - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - 365 * year - math.floor(year / 4) + math.floor(year / 100)
  local month = math.floor((5 * of_year + 2) / 153)
  local of_month = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + 400 * era + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02d', year, month, of_month)
end

-- rfc3339 formats a time in milliseconds, in UTC and with a fraction only if it needs one.
local function rfc3339(ms)
  local seconds = math.floor(ms / 1000)
  local day, fraction = math.floor(seconds / 86400), ''
  if ms % 1000 > 0 then fraction = string.match(string.format('.%03d', ms % 1000), '^(.-)0*$') end
  dates[day] = dates[day] or date_of(day)
  local of_day = seconds % 86400
  return string.format('%sT%02d:%02d:%02d%sZ', dates[day], of_day / 3600, of_day / 60 % 60, of_day % 60, fraction)
end

-- topic_of returns an event's due time and topic, both as strings, and where the rest of its
-- content begins; nil if the topic belongs to a tenant. content is the record without the state.
local function topic_of(content)
  return string.match(content, '^{"format":1,"due":(%d+),"topic":"([%w._-]+)"()')
end

-- append adds an event to the stream of its topic, with the same fields as scheduler.Streams. It
-- returns false if Redis rejects the entry.
local function append(stream, attributes, id, due, content, rest, attempt)
  local ends = string.find(content, '\n', rest, true)
  local known = {}
  if string.sub(content, rest, rest + 10) ~= ',"created":' then known = cjson.decode(string.sub(content, 1, ends - 1)) end
  local fields = {'id', id, unpack(attributes)}
  local n = #fields
  fields[n + 1], fields[n + 2] = 'time', rfc3339(tonumber(due))
  fields[n + 3], fields[n + 4] = 'key', known.key or id
  fields[n + 5], fields[n + 6] = 'attempt', attempt
  fields[n + 7], fields[n + 8] = 'data', string.sub(content, ends + 1)
  if known.headers then
    local names = {}
    for name in pairs(known.headers) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      fields[#fields + 1], fields[#fields + 2] = 'header:' .. name, known.headers[name]
    end
  end
  return type(redis.pcall('XADD', stream, '*', unpack(fields))) == 'string'
end
