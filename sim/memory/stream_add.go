package memory

import (
	"math"
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// xtrim implements XTRIM key MINID [~] id [LIMIT count]. With ~ Redis removes only whole nodes of
// entries; here it removes as much as if each node had one entry.
func xtrim(db *Database, args []string) resp.Reply {
	rest, limit := args[3:], math.MaxInt
	about := rest[0] == "~"
	if about {
		rest = rest[1:]
	}
	if about && len(rest) == 3 && strings.EqualFold(rest[1], "limit") {
		n, ok := integer(rest[2])
		if !ok || n < 0 {
			return resp.Fail(noInteger)
		}
		rest = rest[:1]
		if n > 0 {
			limit = int(n)
		}
	}
	if !strings.EqualFold(args[2], "minid") || len(rest) != 1 {
		return resp.Fail(syntax)
	}
	first := idOf(rest[0])
	st := find[stream](db, args[1])
	if st == nil {
		return resp.Int(0)
	}
	return resp.Int(db.trim(args[1], st, min(st.search(first), limit)))
}

// trim removes the first n entries, and returns n.
func (db *Database) trim(key string, st *stream, n int) int {
	db.lost(st, st.entries[:n])
	db.trimmed(key, st.entries[:n])
	st.entries = slices.Delete(st.entries, 0, n)
	return n
}

// xadd implements XADD key [NOMKSTREAM] [MAXLEN [~] count] id field value... With ~ it trims like
// xtrim.
func xadd(db *Database, args []string) resp.Reply {
	key, rest, create, limit := args[1], args[2:], true, math.MaxInt
	if strings.EqualFold(rest[0], "nomkstream") {
		create, rest = false, rest[1:]
	}
	if len(rest) > 2 && strings.EqualFold(rest[0], "maxlen") {
		if rest = rest[1:]; rest[0] == "~" {
			rest = rest[1:]
		}
		n, ok := integer(rest[0])
		if !ok || n < 0 {
			return resp.Fail(noInteger)
		}
		limit, rest = int(n), rest[1:]
	}
	if len(rest) < 3 || len(rest)%2 == 0 {
		return resp.Fail("ERR wrong number of arguments for 'xadd' command")
	}
	var id streamID
	if rest[0] != "*" {
		if id = idOf(rest[0]); id == (streamID{}) {
			return resp.Fail(notAboveZero)
		}
	}
	st := find[stream](db, key)
	switch {
	case st == nil && !create:
		return resp.Reply{}
	case st == nil:
		st = &stream{}
	}
	switch now := uint64(db.ms); {
	case rest[0] != "*":
	case now > st.lastID.ms:
		id.ms = now
	default:
		id = st.lastID.next()
	}
	if !st.lastID.less(id) {
		return resp.Fail(notAfterLast)
	}
	text := id.String()
	st.entries = append(st.entries, entry{id, text, slices.Clone(rest[1:])})
	st.lastID = id
	st.entriesAdded++
	if db.keys[key] == nil {
		db.keys[key] = &item{value: st}
	}
	if n := len(st.entries) - limit; n > 0 {
		db.trim(key, st, n)
	}
	if db.Added != nil {
		db.Added(key, rest[1:])
	}
	return resp.Text(text)
}
