-- Reads the newest entries of histories, without long data.
--
-- KEYS     histories
-- ARGV[1]  maximum number of entries of each
-- ARGV[2]  bytes of data above which it is left out
--
-- Returns for each history the fields of its entries, the newest first.

local count, most = ARGV[1], tonumber(ARGV[2])

local out = {}
for i, history in ipairs(KEYS) do
  local found = {}
  for n, entry in ipairs(redis.call('XREVRANGE', history, '+', '-', 'COUNT', count)) do
    local fields = entry[2]
    for j = 1, #fields, 2 do
      if fields[j] == 'data' and #fields[j + 1] > most then fields[j + 1] = '' end
    end
    found[n] = fields
  end
  out[i] = found
end
return out
