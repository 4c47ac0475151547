-- The record of an event at P:event:<id> is one text of up to three parts:
--   {"status":…,"version":…,"attempts":…,"failures":…,…}    its state, a line; missing while nothing
--                                                            has happened to the event
--   {"format":1,"due":…,"topic":…,…}                         its content, a line
--   the payload as it is
-- Both lines are JSON. A state begins with the members that are shown here, and an error comes last.

-- state_of returns the state of a record, and where its content begins.
local function state_of(record)
  if string.sub(record, 1, 10) ~= '{"status":' then return 'SCHEDULED', 1, 0, 0, 1 end
  local status, version, attempts, failures =
    string.match(record, '^{"status":"(%u+)","version":(%d+),"attempts":(%d+),"failures":(%d+)')
  return status, tonumber(version), tonumber(attempts), tonumber(failures), string.find(record, '\n', 1, true) + 1
end

-- text_of returns an id as the text of a UUID.
local function text_of(id)
  return string.format('%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x', string.byte(id, 1, 16))
end

