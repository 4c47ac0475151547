-- A service need not read events that it ignores: if its group has read all earlier entries, the
-- group skips them. Otherwise three groups would read each event, and each reading would be sent to
-- the replicas (testdata/figures.md).

-- readers holds the group of the service whose Handles accepts events of a type, '' if none does. No
-- group skips an event whose type is unknown here, and a group with another name skips nothing.
local readers = {
  ['io.flunq.execution.started'] = 'worker-service', ['io.flunq.task.completed'] = 'worker-service',
  ['io.flunq.timer.fired'] = 'worker-service', ['io.flunq.task.requested'] = 'executor-service',
  ['io.flunq.timer.scheduled'] = 'timer-service', ['io.flunq.timer.cancelled'] = 'timer-service',
  ['io.flunq.workflow.completed'] = '', ['io.flunq.workflow.failed'] = '', ['io.flunq.workflow.cancelled'] = '',
}

-- skippers returns the groups of the services that have read the whole stream.
local function skippers(stream)
  local groups, read_all, out = redis.pcall('XINFO', 'GROUPS', stream), {}, {}
  for i = 1, #groups do -- none after an error
    local group = {}
    for j = 1, #groups[i], 2 do group[groups[i][j]] = groups[i][j + 1] end
    local name, last = group.name, group['last-delivered-id']
    if (name == 'worker-service' or name == 'executor-service' or name == 'timer-service') and (group.lag or 0) == 0 then
      if read_all[last] == nil then -- Redis 6 has no lag, and a wrong one would lose events
        local rest = redis.pcall('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)
        read_all[last] = #rest == 0 and not rest['err']
      end
      if read_all[last] then out[#out + 1] = {name = name, read = group['entries-read'], skipped = 0} end
    end
  end
  return out
end

-- appended records that an entry with an event of a type was appended to the stream.
local function appended(groups, entry, kind)
  local reader = readers[kind] or kind and string.find(kind, 'io.flunq.lifecycle.', 1, true) == 1 and ''
  for i = 1, #groups do
    local group = groups[i]
    if not reader or reader == group.name then
      group.stopped = true
    elseif not group.stopped then
      group.last, group.skipped = entry, group.skipped + 1
    end
  end
end

-- skip moves each group past the entries that it skips.
local function skip(stream, groups)
  for i = 1, #groups do
    local group = groups[i]
    if group.last and group.read then
      redis.pcall('XGROUP', 'SETID', stream, group.name, group.last, 'ENTRIESREAD', group.read + group.skipped)
    elseif group.last then
      redis.pcall('XGROUP', 'SETID', stream, group.name, group.last)
    end
  end
end
