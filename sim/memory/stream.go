package memory

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// stream is a stream with its consumer groups.
type stream struct {
	entries      []entry
	lastID       streamID // id of the last entry ever added
	maxDeletedID streamID // greatest id that was deleted
	entriesAdded int64    // number of entries ever added
	groups       []*group // sorted by name
}

// entry is an entry of a stream. Its fields never change.
type entry struct {
	streamID

	id     string
	fields []string // name, value, name, value …
}

func (e *entry) reply() resp.Reply { return resp.Reply{Kind: resp.Entry, Text: e.id, Texts: e.fields} }

// streamID is the id of an entry in comparable form.
type streamID struct{ ms, seq uint64 }

// greatest is the maximum of both parts of an id.
const greatest = math.MaxUint64

func (s streamID) less(other streamID) bool {
	return s.ms < other.ms || s.ms == other.ms && s.seq < other.seq
}

// next returns the smallest id after s.
func (s streamID) next() streamID {
	if s.seq == greatest {
		return streamID{s.ms + 1, 0}
	}
	return streamID{s.ms, s.seq + 1}
}

// previous returns the greatest id before s.
func (s streamID) previous() streamID {
	if s.seq == 0 {
		return streamID{s.ms - 1, greatest}
	}
	return streamID{s.ms, s.seq - 1}
}

// String returns the id as Redis sends it.
func (s streamID) String() string {
	var b [41]byte
	return string(strconv.AppendUint(append(strconv.AppendUint(b[:0], s.ms, 10), '-'), s.seq, 10))
}

const (
	noStreamID   = "ERR Invalid stream ID specified as stream command argument"
	notAfterLast = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	notAboveZero = "ERR The ID specified in XADD must be greater than 0-0"
)

// parseStreamID parses an id. seq is the default for a missing second number.
func parseStreamID(text string, seq uint64) (id streamID, ok bool) {
	first, second, whole := strings.Cut(text, "-")
	id.seq = seq
	ms, errMS := strconv.ParseUint(first, 10, 64)
	id.ms = ms
	if whole {
		var errSeq error
		if id.seq, errSeq = strconv.ParseUint(second, 10, 64); errSeq != nil {
			return id, false
		}
	}
	return id, errMS == nil
}

// idOf returns the id that a command names.
func idOf(text string) streamID {
	id, ok := parseStreamID(text, 0)
	if !ok {
		refuse(noStreamID)
	}
	return id
}

// Errors about exclusive ends that make a range empty.
const (
	noStart = "ERR invalid start ID for the interval"
	noEnd   = "ERR invalid end ID for the interval"
)

// parseStreamRange parses the ends of a range.
func parseStreamRange(low, high string) (from, to streamID) {
	return parseStreamBound(low, 0), parseStreamBound(high, greatest)
}

// parseStreamBound parses one end of a range. seq is the default for a missing second number.
func parseStreamBound(text string, seq uint64) streamID {
	switch text {
	case "-":
		return streamID{}
	case "+":
		return streamID{greatest, greatest}
	}
	text, open := strings.CutPrefix(text, "(")
	id, ok := parseStreamID(text, seq)
	switch {
	case !ok:
		refuse(noStreamID)
	case !open:
		return id
	case seq == 0 && id == streamID{greatest, greatest}:
		refuse(noStart)
	case seq > 0 && id == streamID{}:
		refuse(noEnd)
	}
	if seq == 0 {
		return id.next()
	}
	return id.previous()
}

// search returns the index of the first entry with an id of at least id.
func (st *stream) search(id streamID) int {
	return sort.Search(len(st.entries), func(i int) bool { return !st.entries[i].less(id) })
}

// entry returns an entry; nil if it does not exist.
func (st *stream) entry(id streamID) *entry {
	if at := st.search(id); at < len(st.entries) && st.entries[at].streamID == id {
		return &st.entries[at]
	}
	return nil
}

// first returns the id of the first entry.
func (st *stream) first() streamID {
	if len(st.entries) == 0 {
		return streamID{}
	}
	return st.entries[0].streamID
}

func streamCommands() map[string]command {
	return map[string]command{
		"xadd":      {xadd, -5},
		"xlen":      {reads(func(_ *Database, st *stream, _ []string) resp.Reply { return resp.Int(len(st.entries)) }), 2},
		"xrange":    {xrange, -4},
		"xrevrange": {xrange, -4},
		"xdel":      {xdel, -3},
		"xtrim":     {xtrim, -4},
		"xsetid":    {xsetID, 3},
	}
}

// xrange implements XRANGE and XREVRANGE.
func xrange(db *Database, args []string) resp.Reply {
	reverse := len(args[0]) == len("xrevrange")
	low, high := args[2], args[3]
	if reverse {
		low, high = high, low
	}
	from, to := parseStreamRange(low, high)
	count := parseCount(args[4:])
	st := find[stream](db, args[1])
	switch {
	case st == nil:
		return resp.List()
	case count == 0:
		return resp.Reply{Kind: resp.NilArray}
	}
	start, end := st.search(from), len(st.entries)
	if to != (streamID{greatest, greatest}) {
		end = st.search(to.next())
	}
	found := st.entries[start:max(start, end)]
	out := make([]resp.Reply, min(count, len(found)))
	for i := range out {
		e := &found[i]
		if reverse {
			e = &found[len(found)-1-i]
		}
		out[i] = e.reply()
	}
	return resp.List(out...)
}

// parseCount parses COUNT n; without it there is no limit.
func parseCount(args []string) int {
	switch {
	case len(args) == 0:
		return math.MaxInt
	case len(args) != 2 || !strings.EqualFold(args[0], "count"):
		refuse(syntax)
	}
	return int(max(number(args[1]), 0))
}

func xdel(db *Database, args []string) resp.Reply {
	st := find[stream](db, args[1])
	if st == nil {
		return resp.Int(0)
	}
	ids := make([]streamID, 0, len(args)-2)
	for _, text := range args[2:] {
		id := idOf(text)
		ids = append(ids, id)
	}
	n := 0
	for _, id := range ids {
		at := st.search(id)
		if at == len(st.entries) || st.entries[at].streamID != id {
			continue
		}
		st.entries = slices.Delete(st.entries, at, at+1)
		if st.maxDeletedID.less(id) {
			st.maxDeletedID = id
		}
		n++
	}
	return resp.Int(n)
}

// xsetID implements XSETID.
func xsetID(db *Database, args []string) resp.Reply {
	id := idOf(args[2])
	st := find[stream](db, args[1])
	switch {
	case st == nil:
		return resp.Fail("ERR no such key")
	case len(st.entries) > 0 && id.less(st.entries[len(st.entries)-1].streamID):
		return resp.Fail("ERR The ID specified in XSETID is smaller than the target stream top item")
	}
	st.lastID = id
	return resp.OK()
}
