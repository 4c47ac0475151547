package sim

// Mistakes about what is another's, what is to be kept, and who is told.
var restBugs = []workloadBug{
	{"what is another's is renewed", bug{script: replaced(`#p == 1 and p[1][2] == ARGV[2] then`, `#p == 1 then`)}, "what has ended"},
	{"it is claimed from whoever is at work", bug{script: func(source string) string {
		return replaced(`group, me, lease, id`, `group, me, 0, id`)(replaced(`'IDLE', ARGV[3], ARGV[5]`, `'IDLE', 0, ARGV[5]`)(source))
	}}, "what has ended"},
	{"whoever has ended is open for ever", bug{script: replaced(`redis.call('ZREM', open, unpack(names))`, ``)}, "cancelled by"},
	{"whoever has ended is in no list", bug{script: replaced(
		`redis.call('ZADD', keys[shelf], unpack(those))`, ``)}, "cancelled by"},
	{"whoever goes on is among the faulted", bug{script: replaced(`if keys[t.shelf] ~= faulted then redis.call('ZREM', faulted, id) end`, ``)}, "what has faulted"},
	{"notes of timers stay", bug{script: replaced(`or string.find(name, ':', 1, true) then`, `then`)}, "timers that come due"},
	{"one begins twice", bug{script: replaced(`if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end`, ``)}, "cancelled by"},
	{"what is pending is trimmed", bug{script: replaced(`if pending[1] > 0 and before(pending[2], first) then first = pending[2] end`, ``)}, "what has ended"},
	{"what is unread is trimmed", bug{script: replaced(`if before(group['last-delivered-id'], first) then first = group['last-delivered-id'] end`, ``)}, "what has ended"},
	{"a child is removed while its parent goes on", bug{script: replaced(
		`if type(status) == 'table' or status and not over[status] then same = false end`, ``)}, "what has ended"},
	{"an older timer takes the place of a newer one", bug{script: replaced(`if kept and string.sub(kept, 1, 40) >= order then return end`, ``)}, "one timer for"},
	{"a timer with a key is not taken back", bug{script: replaced(`      if kept then redis.call('ZREM', timers, string.sub(kept, 42)) end
`, ``)}, "one timer for"},
	{"the key of a timer that has fired is kept", bug{script: replaced(`for i = 1, #noted do settle(`, `for i = 1, 0 do settle(`)}, "one timer for"},
}
