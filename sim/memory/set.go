package memory

import (
	"slices"

	"flunq.io/flunq/sim/resp"
)

// set keeps its members sorted.
type set struct{ members []string }

func (s *set) has(member string) bool {
	_, found := slices.BinarySearch(s.members, member)
	return found
}

func setCommands() map[string]command {
	return map[string]command{
		"sadd":      {sadd, -3},
		"srem":      {srem, -3},
		"smembers":  {onSet(func(m *set, _ []string) resp.Reply { return resp.Strings(slices.Clone(m.members)) }), 2},
		"scard":     {onSet(func(m *set, _ []string) resp.Reply { return resp.Int(len(m.members)) }), 2},
		"sismember": {onSet(func(m *set, args []string) resp.Reply { return resp.Bool(m.has(args[2])) }), 3},
		"sscan":     {sscan, -3},
	}
}

// onSet returns a command that reads a set; a missing one is empty.
func onSet(read func(*set, []string) resp.Reply) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		m, ok := find[set](db, args[1])
		switch {
		case !ok:
			return resp.Fail(wrongType)
		case m == nil:
			m = &set{}
		}
		return read(m, args)
	}
}

func sscan(db *Database, args []string) resp.Reply {
	return onSet(func(m *set, args []string) resp.Reply {
		pattern, kind, bad := scanOptions(args[3:])
		if bad != "" || kind != "" {
			return resp.Fail(syntax)
		}
		found := slices.DeleteFunc(slices.Clone(m.members), func(member string) bool { return !glob(pattern, member) })
		return db.page(args[2], found, 1)
	})(db, args)
}

func sadd(db *Database, args []string) resp.Reply {
	m, ok := ensure[set](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	n := 0
	for _, member := range args[2:] {
		if at, found := slices.BinarySearch(m.members, member); !found {
			m.members = slices.Insert(m.members, at, member)
			n++
		}
	}
	return resp.Int(n)
}

func srem(db *Database, args []string) resp.Reply {
	m, ok := find[set](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case m == nil:
		return resp.Int(0)
	}
	n := 0
	for _, member := range args[2:] {
		if at, found := slices.BinarySearch(m.members, member); found {
			m.members = slices.Delete(m.members, at, at+1)
			n++
		}
	}
	if len(m.members) == 0 {
		delete(db.keys, args[1])
	}
	return resp.Int(n)
}
