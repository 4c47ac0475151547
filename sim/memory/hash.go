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

// each returns every second element of pairs, starting at from.
func (h *hash) each(from int) []string {
	out := make([]string, 0, len(h.pairs)/2)
	for i := from; i < len(h.pairs); i += 2 {
		out = append(out, h.pairs[i])
	}
	return out
}

func hashCommands() map[string]command {
	return map[string]command{
		"hset":    {hset, -4},
		"hincrby": {hincrBy, 4},
		"hdel":    {hdel, -3},
		"hget":    {onHash((*hash).hget), 3},
		"hmget":   {hmget, -3},
		"hexists": {onHash((*hash).hexists), 3},
		"hgetall": {onHash((*hash).hgetAll), 2},
		"hkeys":   {onHash(func(h *hash, _ []string) resp.Reply { return resp.Strings(h.each(0)) }), 2},
		"hlen":    {onHash(func(h *hash, _ []string) resp.Reply { return resp.Int(len(h.pairs) / 2) }), 2},
		"hscan":   {hscan, -3},
	}
}

// onHash returns a command that reads a hash; a missing one is empty.
func onHash(read func(*hash, []string) resp.Reply) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		h, ok := find[hash](db, args[1])
		switch {
		case !ok:
			return resp.Fail(wrongType)
		case h == nil:
			h = &hash{}
		}
		return read(h, args)
	}
}

func (h *hash) hget(args []string) resp.Reply {
	if value, ok := h.get(args[2]); ok {
		return resp.Text(value)
	}
	return resp.Reply{}
}

func hmget(db *Database, args []string) resp.Reply {
	h, ok := find[hash](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	out := db.makeReplies(len(args) - 2)
	for i, field := range args[2:] {
		if value, ok := h.get(field); ok {
			out[i] = resp.Text(value)
		}
	}
	return resp.List(out...)
}

func (h *hash) hexists(args []string) resp.Reply { return resp.Bool(h.at(args[2]) >= 0) }

func (h *hash) hgetAll([]string) resp.Reply { return resp.Strings(slices.Clone(h.pairs)) }

func hscan(db *Database, args []string) resp.Reply {
	return onHash(func(h *hash, args []string) resp.Reply {
		pattern, kind, bad := scanOptions(args[3:])
		if bad != "" || kind != "" {
			return resp.Fail(syntax)
		}
		var out []string
		for i := 0; i < len(h.pairs); i += 2 {
			if glob(pattern, h.pairs[i]) {
				out = append(out, h.pairs[i], h.pairs[i+1])
			}
		}
		return db.page(args[2], out, 2) //nolint:mnd // a name and its value
	})(db, args)
}

func hset(db *Database, args []string) resp.Reply {
	if len(args)%2 != 0 {
		return resp.Fail("ERR wrong number of arguments for 'hset' command")
	}
	h, ok := ensure[hash](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	if h.pairs == nil {
		h.pairs = make([]string, 0, len(args)+2)
	}
	added := 0
	for i := 2; i < len(args); i += 2 {
		if h.put(args[i], args[i+1]) {
			added++
		}
	}
	return resp.Int(added)
}

func hincrBy(db *Database, args []string) resp.Reply {
	by, ok := integer(args[3])
	if !ok {
		return resp.Fail(noInteger)
	}
	h, ok := find[hash](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	n := int64(0)
	if old, there := h.get(args[2]); there {
		if n, ok = integer(old); !ok {
			return resp.Fail(noNumber)
		}
	}
	if overflows(n, by) {
		return resp.Fail(wouldOverWr)
	}
	h, _ = ensure[hash](db, args[1])
	h.put(args[2], strconv.FormatInt(n+by, 10))
	return resp.Int(int(n + by))
}

func overflows(n, by int64) bool {
	return by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by
}

func hdel(db *Database, args []string) resp.Reply {
	h, ok := find[hash](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case h == nil:
		return resp.Int(0)
	}
	n := 0
	for _, field := range args[2:] {
		if h.remove(field) {
			n++
		}
	}
	if len(h.pairs) == 0 {
		delete(db.keys, args[1])
	}
	return resp.Int(n)
}
