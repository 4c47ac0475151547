-- Reads entries of a stream, without long data.
--
-- KEYS[1]   stream
-- ARGV[1]   bytes of data above which it is left out
-- ARGV[2…]  a command such as XRANGE with its arguments; the second element, the key, is replaced
--
-- Returns the entries as the command does.

local stream, most = KEYS[1], tonumber(ARGV[1])

ARGV[3] = stream
local entries = redis.call(unpack(ARGV, 2))
for _, entry in ipairs(entries) do
  local fields = entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'data' and #fields[i + 1] > most then fields[i + 1] = '' end
  end
end
return entries
