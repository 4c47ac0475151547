package memory

import (
	"slices"

	"flunq.io/flunq/sim/resp"
)

// set keeps its members sorted.
type set struct{ members []string }

func setCommands() map[string]command {
	return map[string]command{
		"sadd":     {sadd, -3},
		"srem":     {removes((*set).remove, func(m *set) int { return len(m.members) }), -3},
		"smembers": {reads(func(_ *Database, m *set, _ []string) resp.Reply { return resp.Strings(slices.Clone(m.members)) }), 2},
		"scard":    {reads(func(_ *Database, m *set, _ []string) resp.Reply { return resp.Int(len(m.members)) }), 2},
		"sismember": {reads(func(_ *Database, m *set, args []string) resp.Reply {
			_, found := slices.BinarySearch(m.members, args[2])
			return resp.Bool(found)
		}), 3},
		"sscan": {scans(1, func(m *set) []string { return m.members }), -3},
	}
}

func sadd(db *Database, args []string) resp.Reply {
	m := ensure[set](db, args[1])
	n := 0
	for _, member := range args[2:] {
		if at, found := slices.BinarySearch(m.members, member); !found {
			m.members = slices.Insert(m.members, at, member)
			n++
		}
	}
	return resp.Int(n)
}

func (s *set) remove(member string) bool {
	at, found := slices.BinarySearch(s.members, member)
	if found {
		s.members = slices.Delete(s.members, at, at+1)
	}
	return found
}
