package memory

import (
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// mostTrimmed is the default LIMIT of approximate trimming.
const mostTrimmed = 100 * nodeEntries

// xtrim implements XTRIM with MINID.
func xtrim(db *Database, args []string) resp.Reply {
	about, limit, rest := false, 0, args[3:]
	if !strings.EqualFold(args[2], "minid") {
		return resp.Fail(syntax)
	}
	if len(rest) > 1 && rest[0] == "~" { // only whole nodes are removed
		about, limit, rest = true, mostTrimmed, rest[1:]
	}
	least, ok := streamIDOf(rest[0], 0)
	if !ok {
		return resp.Fail(noStreamID)
	}
	if rest = rest[1:]; len(rest) > 0 {
		if !about || len(rest) != 2 || !strings.EqualFold(rest[0], "limit") {
			return resp.Fail(syntax)
		}
		n, ok := integer(rest[1])
		switch {
		case !ok:
			return resp.Fail(noInteger)
		case n < 0:
			return resp.Fail("ERR The LIMIT argument must be >= 0.")
		}
		limit = int(n)
	}
	st, ok := find[stream](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case st == nil:
		return resp.Int(0)
	}
	return resp.Int(db.trim(args[1], st, least, about, limit))
}

// trim removes the entries before least, and returns their number. If about is set, it removes
// only whole nodes, with at most limit entries; 0: no limit.
func (db *Database) trim(key string, st *stream, least streamID, about bool, limit int) int {
	known := st.nodes != nil
	n := st.search(least)
	if about {
		n = st.wholeNodes(least, limit, db.Node)
	}
	if n == 0 {
		if !known {
			st.nodes = nil
		}
		return 0
	}
	st.computeNodes(db.Node)
	for i := range n {
		st.removeFromNode(st.entries[i].streamID)
	}
	db.lost(st, st.entries[:n])
	db.trimmed(key, st.entries[:n])
	st.entries = slices.Delete(st.entries, 0, n)
	if about && !known { // only whole nodes were removed
		st.nodes = nil
	}
	return n
}

func xadd(db *Database, args []string) resp.Reply {
	key, rest := args[1], args[2:]
	create := !strings.EqualFold(rest[0], "nomkstream")
	if !create {
		rest = rest[1:]
	}
	if len(rest) < 3 || len(rest)%2 == 0 {
		return resp.Fail("ERR wrong number of arguments for 'xadd' command")
	}
	var id streamID
	if rest[0] != "*" {
		given, ok := streamIDOf(rest[0], 0)
		switch {
		case !ok:
			return resp.Fail(noStreamID)
		case given == streamID{}:
			return resp.Fail(notAboveZero)
		}
		id = given
	}
	st, ok := find[stream](db, key)
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case st == nil && !create:
		return resp.Reply{}
	case st == nil:
		st = &stream{}
	}
	switch now := uint64(db.ms); {
	case rest[0] != "*":
	case now > st.last.ms:
		id.ms = now
	default:
		id = st.last.next()
	}
	if !st.last.less(id) {
		return resp.Fail(notAfterLast)
	}
	text := id.String()
	st.add(entry{id, text, db.copyFields(rest[1:])}, db.Node)
	if db.keys[key] == nil {
		db.keys[key] = &item{value: st}
	}
	if db.Added != nil {
		db.Added(key, rest[1:])
	}
	return resp.Text(text)
}

// block returns an empty block for fields.
func (s *scratch) block() []string {
	const size = 256
	if s.begun == len(s.blocks) {
		s.blocks = append(s.blocks, make([]string, 0, size))
	}
	s.begun++
	return s.blocks[s.begun-1]
}

// releaseBlocks clears the blocks, and releases all but the first 64.
func (s *scratch) releaseBlocks() {
	const most = 64
	for i := range s.blocks[:s.begun] {
		clear(s.blocks[i][:cap(s.blocks[i])])
	}
	clear(s.blocks[min(most, len(s.blocks)):])
	s.blocks, s.begun = s.blocks[:min(most, len(s.blocks))], 0
}

func (st *stream) add(e entry, most int) {
	if st.entries == nil {
		st.entries = make([]entry, 0, 16)
	}
	st.entries = append(st.entries, e)
	if st.nodes != nil {
		st.addToNode(&e, most)
	}
	st.last = e.streamID
	st.added++
}
