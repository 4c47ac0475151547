package memory

import (
	"math"
	"slices"
	"strconv"

	"flunq.io/flunq/sim/resp"
)

// hash keeps its fields in insertion order, like a small hash of Redis. A large one
// changes the order when a field is deleted.
type hash struct {
	pairs []string       // name, value, name, value …
	place map[string]int // index of each name in pairs; nil if there are few
}

// fewFields is the number of fields up to which a linear search is fast enough.
const fewFields = 16

// at returns the index of a field's name; -1 if there is none.
func (h *hash) at(field string) int {
	if h.place != nil {
		if i, ok := h.place[field]; ok {
			return i
		}
		return -1
	}
	for i := 0; i < len(h.pairs); i += 2 {
		if h.pairs[i] == field {
			return i
		}
	}
	return -1
}

func (h *hash) get(field string) (string, bool) {
	if h == nil {
		return "", false
	}
	if i := h.at(field); i >= 0 {
		return h.pairs[i+1], true
	}
	return "", false
}

// put sets a field, and reports whether it is new.
func (h *hash) put(field, value string) bool {
	if i := h.at(field); i >= 0 {
		h.pairs[i+1] = value
		return false
	}
	h.pairs = append(h.pairs, field, value)
	if h.place != nil {
		h.place[field] = len(h.pairs) - 2
	} else if len(h.pairs) > 2*fewFields {
		h.place = make(map[string]int, len(h.pairs))
		for i := 0; i < len(h.pairs); i += 2 {
			h.place[h.pairs[i]] = i
		}
	}
	return true
}

// remove deletes a field, and reports whether it existed.
func (h *hash) remove(field string) bool {
	i := h.at(field)
	if i < 0 {
		return false
	}
	if h.place == nil {
		h.pairs = slices.Delete(h.pairs, i, i+2)
		return true
	}
	last := len(h.pairs) - 2
	copy(h.pairs[i:], h.pairs[last:])
	h.place[h.pairs[i]] = i
	delete(h.place, field)
	clear(h.pairs[last:])
	h.pairs = h.pairs[:last]
	return true
}

// names returns the names of the fields.
func (h *hash) names() []string {
	out := make([]string, 0, h.size())
	for i := 0; i < len(h.pairs); i += 2 {
		out = append(out, h.pairs[i])
	}
	return out
}

func (h *hash) size() int { return len(h.pairs) / 2 }

func hashCommands() map[string]command {
	return map[string]command{
		"hset":    {hset, -4},
		"hincrby": {hincrBy, 4},
		"hdel":    {removes((*hash).remove, (*hash).size), -3},
		"hget":    {reads(func(_ *Database, h *hash, args []string) resp.Reply { return h.value(args[2]) }), 3},
		"hmget":   {reads(hmget), -3},
		"hexists": {reads(func(_ *Database, h *hash, args []string) resp.Reply { return resp.Bool(h.at(args[2]) >= 0) }), 3},
		"hgetall": {reads(func(_ *Database, h *hash, _ []string) resp.Reply { return resp.Strings(slices.Clone(h.pairs)) }), 2},
		"hkeys":   {reads(func(_ *Database, h *hash, _ []string) resp.Reply { return resp.Strings(h.names()) }), 2},
		"hlen":    {reads(func(_ *Database, h *hash, _ []string) resp.Reply { return resp.Int(h.size()) }), 2},
		"hscan":   {scans(2, func(h *hash) []string { return h.pairs }), -3},
	}
}

// value returns the value of a field as a reply.
func (h *hash) value(field string) resp.Reply {
	if value, ok := h.get(field); ok {
		return resp.Text(value)
	}
	return resp.Reply{}
}

func hmget(_ *Database, h *hash, args []string) resp.Reply {
	out := make([]resp.Reply, len(args)-2)
	for i, field := range args[2:] {
		out[i] = h.value(field)
	}
	return resp.List(out...)
}

func hset(db *Database, args []string) resp.Reply {
	if len(args)%2 != 0 {
		return resp.Fail("ERR wrong number of arguments for 'hset' command")
	}
	h := ensure[hash](db, args[1])
	added := 0
	for i := 2; i < len(args); i += 2 {
		if h.put(args[i], args[i+1]) {
			added++
		}
	}
	return resp.Int(added)
}

func hincrBy(db *Database, args []string) resp.Reply {
	by := number(args[3])
	h := find[hash](db, args[1])
	n := int64(0)
	if old, there := h.get(args[2]); there {
		var ok bool
		if n, ok = integer(old); !ok {
			return resp.Fail(noNumber)
		}
	}
	if overflows(n, by) {
		return resp.Fail(overflow)
	}
	h = ensure[hash](db, args[1])
	h.put(args[2], strconv.FormatInt(n+by, 10))
	return resp.Int(int(n + by))
}

func overflows(n, by int64) bool {
	return by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by
}
