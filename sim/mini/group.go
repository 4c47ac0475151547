package mini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/sim/resp"
)

// reader is a consumer group of a stream.
type reader struct{ stream, group string }

// note notes what a command has changed.
func (s *Server) note(args []string, reply []byte) {
	if len(args) < 4 {
		return
	}
	switch name := strings.ToUpper(args[0]); {
	case name == "XREADGROUP" && args[len(args)-1] == ">" && reply[0] == '*':
		s.read(args[2], string(reply))
	case s.Added == nil:
	case name == "XADD" && reply[0] == '$' && reply[1] != '-':
		s.Added(args[1], fieldsOf(args[2:]))
	case name == "ZADD" && reply[0] == ':':
		s.Added(args[1], nil)
	}
}

// fieldsOf returns the fields of the entry that an XADD adds.
func fieldsOf(args []string) []string {
	for i, arg := range args {
		// Before the id there are only options, and bounds after MAXLEN and MINID.
		bound := i > 0 && slices.ContainsFunc([]string{"maxlen", "minid", "~", "="}, func(option string) bool { return strings.EqualFold(args[i-1], option) })
		if !bound && strings.ContainsAny(arg[:min(1, len(arg))], "*0123456789") {
			return args[i+1:]
		}
	}
	return nil
}

// read notes how far a group has read.
func (s *Server) read(group, reply string) {
	r := resp.Reader{Text: reply}
	streams, _ := r.Reply() // an array, since nothing else begins with an asterisk
	for _, stream := range streams.List {
		if entries := stream.List[1].List; len(entries) > 0 {
			s.positions[reader{stream.List[0].Text, group}] = entries[len(entries)-1].List[0].Text
		}
	}
}

// Open counts the entries of a stream that match: those that a group has not read, and those
// that a consumer of the group, or any if it is "", has read and not acknowledged. The group must
// read with Execute only. matches must not change the fields or send commands.
func (s *Server) Open(key, group, consumer string, matches func(fields []string) bool) (unread, pending int) {
	last := s.position(reader{key, group})
	entries, err := s.Stream(key)
	if last == "" || err != nil {
		return 0, 0
	}
	at, read := find(entries, last)
	if read {
		at++
	}
	for _, e := range entries[at:] {
		if matches(e.Values) {
			unread++
		}
	}
	const all = "1000000000"
	list := []string{"XPENDING", key, group, "-", "+", all}
	if consumer != "" {
		list = append(list, consumer)
	}
	reply, _ := s.do(list...) // an error has no elements
	for _, p := range reply.List {
		if at, exists := find(entries, p.List[0].Text); exists && matches(entries[at].Values) {
			pending++
		}
	}
	return unread, pending
}

// position returns the id of the entry that a group has read last; "" if there is no such group.
// Only a read moves it, since miniredis has no XGROUP SETID. Positions are cached because
// miniredis reports them only in XINFO GROUPS, which looks up all pending entries of all groups.
func (s *Server) position(r reader) string {
	if last := s.positions[r]; last != "" {
		return last
	}
	groups, _ := s.do("XINFO", "GROUPS", r.stream) // an error has no elements
	for _, g := range groups.List {
		about := map[string]string{}
		for i := 0; i+1 < len(g.List); i += 2 {
			about[g.List[i].Text] = g.List[i+1].Text
		}
		if about["name"] == r.group {
			return about["last-delivered-id"]
		}
	}
	return ""
}

// find returns the index of an entry, or where it would be.
func find(entries []miniredis.StreamEntry, id string) (at int, exists bool) {
	return slices.BinarySearchFunc(entries, entry(id), func(e miniredis.StreamEntry, id [2]uint64) int {
		own := entry(e.ID)
		return slices.Compare(own[:], id[:])
	})
}

// entry parses the id of an entry.
func entry(id string) (out [2]uint64) {
	ms, seq, _ := strings.Cut(id, "-")
	out[0], _ = strconv.ParseUint(ms, 10, 64) // ids from Redis always parse
	out[1], _ = strconv.ParseUint(seq, 10, 64)
	return out
}
