package memory

import (
	"cmp"
	"slices"
	"strconv"
)

// node is a listpack of entries, in which Redis stores a stream: approximate trimming removes
// whole nodes.
type node struct {
	first   streamID
	last    streamID
	names   []string // of the fields of its first entry
	entries int      // existing entries
	count   int      // existing and deleted entries
	bytes   int
}

// The defaults of Redis: a node takes no further entry once it has this many entries, see
// Server.Node, or bytes.
const (
	nodeEntries = 100
	nodeBytes   = 4096
)

// computeNodes computes the nodes of a stream, each of at most most entries. As long as only
// whole nodes were removed, the nodes follow from the entries.
func (st *stream) computeNodes(most int) {
	if st.nodes != nil {
		return
	}
	st.nodes = []node{}
	for i := range st.entries {
		st.addToNode(&st.entries[i], most)
	}
}

// addToNode appends an entry to the last node, or to a new one if that is full.
func (st *stream) addToNode(e *entry, most int) {
	names, size := fieldNames(e.fields), 0
	for _, text := range e.fields {
		size += len(text)
	}
	last := len(st.nodes) - 1
	if last < 0 || st.nodes[last].bytes+size >= nodeBytes || st.nodes[last].count >= cmp.Or(most, nodeEntries) {
		const header = 7 // a listpack's header and end
		n := node{names: names, first: e.streamID, bytes: header + 3*packed("0") + packed(strconv.Itoa(len(names)))}
		for _, name := range names {
			n.bytes += packed(name)
		}
		st.nodes = append(st.nodes, n)
		last++
	}
	n := &st.nodes[last]
	n.last = e.streamID
	n.entries++
	n.count++
	n.bytes += n.packed(e, names)
}

// packed returns the size of an entry in bytes.
func (n *node) packed(e *entry, names []string) int {
	const flags, numbers = "0", 3
	elements := numbers + len(names)
	size := packed(flags) + packed(strconv.FormatInt(int64(e.ms-n.first.ms), 10)) + packed(strconv.FormatInt(int64(e.seq-n.first.seq), 10)) //nolint:gosec // differences, as Redis computes them
	if !slices.Equal(n.names, names) {
		elements += 1 + len(names)
		size += packed(strconv.Itoa(len(names)))
		for _, name := range names {
			size += packed(name)
		}
	}
	for i := 1; i < len(e.fields); i += 2 {
		size += packed(e.fields[i])
	}
	return size + packed(strconv.Itoa(elements))
}

func fieldNames(fields []string) []string {
	names := make([]string, 0, len(fields)/2) //nolint:mnd // every other one
	for i := 0; i < len(fields); i += 2 {
		names = append(names, fields[i])
	}
	return names
}

// packed returns the size of a text in a listpack: numbers are stored compactly, and each
// element has its length before and after it.
func packed(text string) int {
	var n int
	if number, ok := integer(text); ok {
		switch {
		case number >= 0 && number < 1<<7:
			n = 1
		case number >= -1<<12 && number < 1<<12:
			n = 2
		case number >= -1<<15 && number < 1<<15:
			n = 3
		case number >= -1<<23 && number < 1<<23:
			n = 4
		case number >= -1<<31 && number < 1<<31:
			n = 5
		default:
			n = 9
		}
	} else {
		switch {
		case len(text) < 1<<6:
			n = 1 + len(text)
		case len(text) < 1<<12:
			n = 2 + len(text)
		default:
			n = 5 + len(text)
		}
	}
	switch {
	case n < 1<<7:
		return n + 1
	case n < 1<<14-1:
		return n + 2
	case n < 1<<21-1:
		return n + 3
	default:
		return n + 4
	}
}

// removeFromNode removes an entry from its node, and a node that becomes empty from the
// stream.
func (st *stream) removeFromNode(id streamID) {
	at := slices.IndexFunc(st.nodes, func(n node) bool { return !n.last.less(id) })
	if st.nodes[at].entries--; st.nodes[at].entries == 0 {
		st.nodes = slices.Delete(st.nodes, at, at+1)
	}
}

// wholeNodes returns the number of entries in the oldest nodes that can be removed as a
// whole within the bounds of t.
func (st *stream) wholeNodes(t trimming, most int) (gone int) {
	st.computeNodes(most)
	for i := range st.nodes {
		n := &st.nodes[i]
		switch {
		case t.by == "maxlen" && len(st.entries)-gone-n.entries < t.most, t.by == "minid" && !n.last.less(t.min):
			return gone
		case t.limit > 0 && gone+n.entries > t.limit:
			return gone
		}
		gone += n.entries
	}
	return gone
}
