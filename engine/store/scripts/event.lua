-- An event among the arguments is
--   n, and n field names and values
-- or, as most events have the same fields,
--   '', id, source, type, time, workflow, execution, task, data

-- add_event adds the event at a position of ARGV to a stream, and returns the reply. Additional fields
-- of the event may be at the positions from `from` to `to`.
local function add_event(stream, entry, tenant, at, from, to)
  if ARGV[at] ~= '' then return redis.pcall('XADD', stream, entry, unpack(ARGV, at + 1, at + ARGV[at])) end
  local id, source, kind, time, workflow, execution, task, data = unpack(ARGV, at + 1, at + 8)
  return redis.pcall('XADD', stream, entry, 'id', id, 'source', source, 'specversion', '1.0', 'type', kind, 'time', time,
    'tenantid', tenant, 'workflowid', workflow, 'executionid', execution, 'taskid', task, 'data', data, unpack(ARGV, from or 1, to or 0))
end

-- after_event returns the position after the event at a position.
local function after_event(at)
  return at + 1 + (ARGV[at] == '' and 8 or ARGV[at])
end

-- type_of returns the type of the event at a position.
local function type_of(at)
  if ARGV[at] == '' then return ARGV[at + 3] end
  for i = at + 1, at + ARGV[at], 2 do
    if ARGV[i] == 'type' then return ARGV[i + 1] end
  end
end
