package memory

import (
	"slices"

	"flunq.io/flunq/sim/resp"
)

type list struct{ values []string }

func listCommands() map[string]command {
	return map[string]command{
		"rpush":  {rpush, -3},
		"lpush":  {lpush, -3},
		"lpop":   {pop(func(l *list) int { return 0 }), 2},
		"rpop":   {pop(func(l *list) int { return len(l.values) - 1 }), 2},
		"llen":   {onList(func(l *list, _ []string) resp.Reply { return resp.Int(len(l.values)) }), 2},
		"lindex": {onList((*list).lindex), 3},
		"lrange": {onList((*list).lrange), 4},
	}
}

// onList returns a command that reads a list; a missing one is empty.
func onList(read func(*list, []string) resp.Reply) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		l, ok := find[list](db, args[1])
		switch {
		case !ok:
			return resp.Fail(wrongType)
		case l == nil:
			l = &list{}
		}
		return read(l, args)
	}
}

func rpush(db *Database, args []string) resp.Reply {
	l, ok := ensure[list](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	l.values = append(l.values, args[2:]...)
	return resp.Int(len(l.values))
}

func lpush(db *Database, args []string) resp.Reply {
	l, ok := ensure[list](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	front := slices.Clone(args[2:])
	slices.Reverse(front)
	l.values = append(front, l.values...)
	return resp.Int(len(l.values))
}

// pop implements LPOP and RPOP.
func pop(place func(*list) int) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		l, ok := find[list](db, args[1])
		switch {
		case !ok:
			return resp.Fail(wrongType)
		case l == nil:
			return resp.Reply{}
		}
		at := place(l)
		value := l.values[at]
		l.values = slices.Delete(l.values, at, at+1)
		if len(l.values) == 0 {
			delete(db.keys, args[1])
		}
		return resp.Text(value)
	}
}

func (l *list) lindex(args []string) resp.Reply {
	at, ok := integer(args[2])
	if !ok {
		return resp.Fail(noInteger)
	}
	if at < 0 {
		at += int64(len(l.values))
	}
	if at < 0 || at >= int64(len(l.values)) {
		return resp.Reply{}
	}
	return resp.Text(l.values[at])
}

func (l *list) lrange(args []string) resp.Reply {
	from, to, ok := span(args[2], args[3], len(l.values))
	if !ok {
		return resp.Fail(noInteger)
	}
	return resp.Strings(slices.Clone(l.values[from:to]))
}

// span parses the first and the last index of a range, where negative ones count from the
// end. It returns the range as from and to, excluding to.
func span(first, last string, length int) (from, to int, ok bool) {
	low, okLow := integer(first)
	high, okHigh := integer(last)
	if !okLow || !okHigh {
		return 0, 0, false
	}
	n := int64(length)
	if low < 0 {
		low = max(low+n, 0)
	}
	if high < 0 {
		high += n
	}
	high = min(high+1, n)
	if low >= high {
		return 0, 0, true
	}
	return int(low), int(high), true
}
