package memory

import (
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// copyKey implements COPY.
func copyKey(db *Database, args []string) resp.Reply {
	replace := len(args) == 4 && strings.EqualFold(args[3], "replace")
	if len(args) > 3 && !replace {
		return resp.Fail(syntax)
	}
	if args[1] == args[2] {
		return resp.Fail("ERR source and destination objects are the same")
	}
	it := db.item(args[1])
	if it == nil || db.item(args[2]) != nil && !replace {
		return resp.Int(0)
	}
	db.keys[args[2]] = &item{value: cloned(it.value, args[2]), expires: it.expires}
	return resp.Int(1)
}

// cloned returns a deep copy of a value for another key.
func cloned(value any, key string) any {
	switch v := value.(type) {
	case *text:
		return &text{v.value}
	case *hash:
		return &hash{slices.Clone(v.pairs), maps.Clone(v.place)}
	case *set:
		return &set{slices.Clone(v.members)}
	case *sortedSet:
		return &sortedSet{slices.Clone(v.members), maps.Clone(v.scores)}
	case *stream:
		return v.clone(key)
	default:
		panic("memory: a value of an unknown kind")
	}
}

func (st *stream) clone(key string) *stream {
	out := *st
	out.entries, out.groups = slices.Clone(st.entries), nil
	for _, g := range st.groups {
		out.groups = append(out.groups, g.clone(key))
	}
	return &out
}

func (g *group) clone(key string) *group {
	out := &group{stream: key, name: g.name, lastDelivered: g.lastDelivered, entriesRead: g.entriesRead}
	for _, c := range g.consumers {
		out.consumers = append(out.consumers, &consumer{name: c.name, seenAt: c.seenAt})
	}
	for _, p := range g.pending {
		own := *p
		own.owner = out.consumer(p.owner.name)
		out.addPending(own)
	}
	return out
}
