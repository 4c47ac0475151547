-- The record of an event at P:event:<id> is one string of up to three parts:
--   {"status":…,"version":…,"attempts":…,"failures":…,…}    its state, a line; missing while nothing
--                                                            has happened to the event
--   {"format":1,"due":…,"topic":…,…}                         its content, a line
--   the payload, unchanged
-- Both lines are JSON. A state begins with the members shown here; an error comes last.

-- state_of returns the fields of a record's state, and where its content begins.
local function state_of(record)
  if string.sub(record, 1, 10) ~= '{"status":' then return 'SCHEDULED', 1, 0, 0, 1 end
  local status, version, attempts, failures =
    string.match(record, '^{"status":"(%u+)","version":(%d+),"attempts":(%d+),"failures":(%d+)')
  return status, tonumber(version), tonumber(attempts), tonumber(failures), string.find(record, '\n', 1, true) + 1
end

-- text_of formats an id as a UUID. One format of six numbers takes half the time of one of sixteen
-- bytes.
local function text_of(id)
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = string.byte(id, 1, 16)
  return string.format('%08x-%04x-%04x-%04x-%04x%08x', ((a * 256 + b) * 256 + c) * 256 + d, e * 256 + f, g * 256 + h,
    i * 256 + j, k * 256 + l, ((m * 256 + n) * 256 + o) * 256 + p)
end
