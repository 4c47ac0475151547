-- named turns a flat reply of names and values into a table.
local function named(flat)
  local out = {}
  for i = 1, #flat, 2 do out[flat[i]] = flat[i + 1] end
  return out
end

-- before compares two entry ids as text: their numbers are too large for Lua's.
local function smaller(a, b) return #a < #b or #a == #b and a < b end
local function before(a, b)
  local ams, aseq = string.match(a, '^(%d+)%-?(%d*)$')
  local bms, bseq = string.match(b, '^(%d+)%-?(%d*)$')
  if ams ~= bms then return smaller(ams, bms) end
  return smaller(aseq, bseq)
end
