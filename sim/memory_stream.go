package sim

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

var errStreamID = errors.New("ERR Invalid stream ID specified as stream command argument")

// streamID is an entry id as it is ordered.
type streamID struct{ ms, seq uint64 }

// less says whether s comes before other.
func (s streamID) less(other streamID) bool {
	return s.ms < other.ms || s.ms == other.ms && s.seq < other.seq
}

// next is the smallest id after s.
func (s streamID) next() streamID {
	if s.seq == math.MaxUint64 {
		return streamID{s.ms + 1, 0}
	}
	return streamID{s.ms, s.seq + 1}
}

// previous is the greatest id before s.
func (s streamID) previous() streamID {
	if s.seq == 0 {
		return streamID{s.ms - 1, math.MaxUint64}
	}
	return streamID{s.ms, s.seq - 1}
}

// parseStreamID reads the id of an entry that exists.
func parseStreamID(text string) streamID {
	ms, seq, _ := strings.Cut(text, "-")
	var id streamID
	id.ms, _ = strconv.ParseUint(ms, 10, 64)
	id.seq, _ = strconv.ParseUint(seq, 10, 64)
	return id
}

// streamSearch is the place of the first entry that is not before id.
func streamSearch(entries []miniredis.StreamEntry, id streamID) int {
	return sort.Search(len(entries), func(i int) bool { return !parseStreamID(entries[i].ID).less(id) })
}

// xlen is XLEN. That of miniredis replies twice when the key is no stream.
func (m *memory) xlen(peer *server.Peer, args []string) {
	if len(args) != 2 {
		m.server.Dispatch(peer, args)
		return
	}
	entries, err := m.mini.DB(0).Stream(args[1])
	if err != nil {
		peer.WriteError(err.Error())
		return
	}
	peer.WriteInt(len(entries))
}

// xrange is XRANGE and XREVRANGE. Those of miniredis pass all entries from the
// beginning, which makes reading the end of a long history slow.
func (m *memory) xrange(peer *server.Peer, args []string) {
	if len(args) != 4 && len(args) != 6 {
		m.server.Dispatch(peer, args)
		return
	}
	reverse := strings.EqualFold(args[0], "XREVRANGE")
	low, high := args[2], args[3]
	if reverse {
		low, high = high, low
	}
	from, errLow := streamBound(low, 0)
	to, errHigh := streamBound(high, math.MaxUint64)
	count, errCount := rangeCount(args[4:])
	if err := errors.Join(errLow, errHigh, errCount); err != nil {
		// miniredis knows the words of each mistake.
		m.server.Dispatch(peer, args)
		return
	}
	entries, err := m.mini.DB(0).Stream(args[1])
	switch {
	case err != nil:
		peer.WriteError(err.Error())
		return
	case count <= 0 && entries != nil:
		peer.WriteLen(-1)
		return
	}
	start, end := streamSearch(entries, from), len(entries)
	if to != (streamID{math.MaxUint64, math.MaxUint64}) {
		end = streamSearch(entries, to.next())
	}
	writeEntries(peer, entries[start:max(start, end)], count, reverse)
}

// xread is XREAD, from the place of the id and not from the beginning.
func (m *memory) xread(peer *server.Peer, args []string) {
	count, names, err := readOptions(args[1:])
	if err != nil || peer.Resp3 {
		m.withoutBlock(peer, args)
		return
	}
	keys, ids := names[:len(names)/2], names[len(names)/2:]
	found := make([][]miniredis.StreamEntry, len(keys))
	answers := 0
	for i, key := range keys {
		after, err := streamBound(ids[i], 0)
		if err != nil {
			m.withoutBlock(peer, args)
			return
		}
		entries, err := m.mini.DB(0).Stream(key)
		if err != nil {
			peer.WriteError(err.Error())
			return
		}
		if found[i] = entries[streamSearch(entries, after.next()):]; len(found[i]) > 0 {
			answers++
		}
	}
	if answers == 0 {
		peer.WriteLen(-1)
		return
	}
	peer.WriteLen(answers)
	for i, key := range keys {
		if len(found[i]) > 0 {
			peer.WriteLen(2)
			peer.WriteBulk(key)
			writeEntries(peer, found[i], count, false)
		}
	}
}

// readOptions reads COUNT and STREAMS of XREAD; what else there is, and "$",
// is left to miniredis.
func readOptions(args []string) (int, []string, error) {
	count := math.MaxInt
	if len(args) > 2 && strings.EqualFold(args[0], "count") {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return 0, nil, errStreamID
		}
		if n > 0 {
			count = n
		}
		args = args[2:]
	}
	if len(args) < 3 || len(args)%2 == 0 || !strings.EqualFold(args[0], "streams") {
		return 0, nil, errStreamID
	}
	return count, args[1:], nil
}

// streamBound reads one end of a range: what stands for a missing sequence is
// different at the two ends.
func streamBound(text string, seq uint64) (streamID, error) {
	switch text {
	case "-":
		return streamID{}, nil
	case "+":
		return streamID{math.MaxUint64, math.MaxUint64}, nil
	}
	text, exclusive := strings.CutPrefix(text, "(")
	first, second, whole := strings.Cut(text, "-")
	id := streamID{seq: seq}
	var err error
	if id.ms, err = strconv.ParseUint(first, 10, 64); err != nil {
		return id, errStreamID
	}
	if whole {
		if id.seq, err = strconv.ParseUint(second, 10, 64); err != nil {
			return id, errStreamID
		}
	}
	switch {
	case !exclusive:
		return id, nil
	case seq == 0:
		return id.next(), nil
	case id == streamID{}:
		return id, errStreamID
	default:
		return id.previous(), nil
	}
}

// rangeCount reads COUNT n; without it there is no limit.
func rangeCount(args []string) (int, error) {
	if len(args) == 0 {
		return math.MaxInt, nil
	}
	if !strings.EqualFold(args[0], "count") {
		return 0, errStreamID
	}
	return strconv.Atoi(args[1])
}

// writeEntries replies with at most count of the entries, from the end if reverse.
func writeEntries(peer *server.Peer, entries []miniredis.StreamEntry, count int, reverse bool) { //nolint:revive // flag-parameter: the direction
	count = min(count, len(entries))
	peer.Block(func(w *server.Writer) {
		w.WriteLen(count)
		for i := range count {
			entry := entries[i]
			if reverse {
				entry = entries[len(entries)-1-i]
			}
			w.WriteLen(2)
			w.WriteBulk(entry.ID)
			w.WriteStrings(entry.Values)
		}
	})
}
