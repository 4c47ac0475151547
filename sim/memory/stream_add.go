package memory

import (
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// trimming says which entries of a stream are kept.
type trimming struct {
	by    string // "maxlen" or "minid"; "": all are kept
	most  int
	min   streamID
	about bool // approximate: only whole nodes are removed
	limit int  // maximum number of entries that approximate trimming removes; 0: no limit
}

// mostTrimmed is the default LIMIT of approximate trimming.
const mostTrimmed = 100 * nodeEntries

// trimmingOf parses MAXLEN or MINID, and returns the arguments after it.
func trimmingOf(args []string) (t trimming, rest []string, bad string) {
	t.by = strings.ToLower(args[0])
	args = args[1:]
	about := false
	if len(args) > 1 && (args[0] == "~" || args[0] == "=") {
		about, args = args[0] == "~", args[1:]
	}
	if len(args) == 0 {
		return t, nil, syntax
	}
	if t.by == "maxlen" {
		n, ok := integer(args[0])
		switch {
		case !ok:
			return t, nil, noInteger
		case n < 0:
			return t, nil, "ERR The MAXLEN argument must be >= 0."
		}
		t.most = int(n)
	} else {
		var ok bool
		if t.min, ok = streamIDOf(args[0], 0); !ok {
			return t, nil, noStreamID
		}
	}
	args = args[1:]
	if t.about = about; about {
		t.limit = mostTrimmed
	}
	if len(args) > 1 && strings.EqualFold(args[0], "limit") {
		n, ok := integer(args[1])
		switch {
		case !ok:
			return t, nil, noInteger
		case n < 0:
			return t, nil, "ERR The LIMIT argument must be >= 0."
		case !about:
			return t, nil, "ERR syntax error, LIMIT cannot be used without the special ~ option"
		}
		t.limit, args = int(n), args[2:]
	}
	return t, args, ""
}

// trim removes the oldest entries, and returns their number.
func (db *Database) trim(key string, st *stream, t trimming) int {
	n, known := 0, st.nodes != nil
	switch {
	case t.by != "" && t.about:
		n = st.wholeNodes(t, db.Node)
	case t.by == "maxlen":
		n = max(0, len(st.entries)-t.most)
	case t.by == "minid":
		n = st.search(t.min)
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
	if t.about && !known { // only whole nodes were removed
		st.nodes = nil
	}
	return n
}

func xtrim(db *Database, args []string) resp.Reply {
	if word := strings.ToLower(args[2]); word != "maxlen" && word != "minid" {
		return resp.Fail(syntax)
	}
	t, rest, bad := trimmingOf(args[2:])
	switch {
	case bad != "":
		return resp.Fail(bad)
	case len(rest) > 0:
		return resp.Fail(syntax)
	}
	st, ok := find[stream](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case st == nil:
		return resp.Int(0)
	}
	return resp.Int(db.trim(args[1], st, t))
}

func xadd(db *Database, args []string) resp.Reply {
	key, rest := args[1], args[2:]
	var t trimming
	create := true
	if strings.EqualFold(rest[0], "nomkstream") {
		create, rest = false, rest[1:]
	}
	if strings.EqualFold(rest[0], "maxlen") {
		var bad string
		if t, rest, bad = trimmingOf(rest); bad != "" {
			return resp.Fail(bad)
		}
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
	db.trim(key, st, t)
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
