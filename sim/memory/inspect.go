package memory

import (
	"slices"
	"strings"
)

// view calls at with the value of a key, unless there is none of this type. at must not send
// commands.
func view[T any](s *Server, key string, at func(value *T)) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if value, _ := lookup[T](&s.Database, key); value != nil {
		at(value)
	}
}

// Each calls show with the id and fields of each entry of a stream, the oldest first, until
// show returns false. show must not change the fields or send commands.
func (s *Server) Each(key string, show func(id string, fields []string) bool) {
	view(s, key, func(st *stream) {
		for i := range st.entries {
			if !show(st.entries[i].id, st.entries[i].fields) {
				return
			}
		}
	})
}

// Backlog is the work that a consumer group has left.
type Backlog struct {
	Name    string
	Pending int   // entries that are not acknowledged
	Unread  int64 // entries not yet read, as far as XINFO can tell
}

// Groups returns the consumer groups of a stream.
func (s *Server) Groups(key string) (out []Backlog) {
	view(s, key, func(st *stream) {
		for _, g := range st.groups {
			out = append(out, Backlog{g.name, len(g.pending), st.lag(g).Int})
		}
	})
	return out
}

// Open counts the entries of a stream whose fields satisfy matches: unread are those that the
// group has not read, and pending those that the consumer (any if "") has read and not
// acknowledged. matches is called with the server locked.
func (s *Server) Open(key, group, consumer string, matches func(fields []string) bool) (unread, pending int) {
	view(s, key, func(st *stream) {
		g := st.group(group)
		if g == nil {
			return
		}
		for i := st.search(g.lastDelivered.next()); i < len(st.entries); i++ {
			if matches(st.entries[i].fields) {
				unread++
			}
		}
		for _, p := range g.pending {
			if consumer != "" && p.owner.name != consumer {
				continue
			}
			if e := st.entry(p.streamID); e != nil && matches(e.fields) {
				pending++
			}
		}
	})
	return unread, pending
}

// Members returns the members of a sorted set in order.
func (s *Server) Members(key string) (out []string) {
	s.Ranked(key, func(member string, _ float64) { out = append(out, member) })
	return out
}

// Ranked calls show with the members of a sorted set and their scores, in order. show
// must not send commands.
func (s *Server) Ranked(key string, show func(member string, score float64)) {
	view(s, key, func(z *sortedSet) {
		for i := range z.members {
			show(z.members[i].member, z.members[i].score)
		}
	})
}

// Fields calls show with the fields of a hash in order. show must not send commands.
func (s *Server) Fields(key string, show func(name, value string)) {
	view(s, key, func(h *hash) {
		for i := 0; i < len(h.pairs); i += 2 {
			show(h.pairs[i], h.pairs[i+1])
		}
	})
}

// Keys returns the keys with a prefix, sorted.
func (s *Server) Keys(prefix string) []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	var out []string
	for key := range s.keys {
		if strings.HasPrefix(key, prefix) && s.item(key) != nil {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Delivered returns the highest delivery count of the pending entries of a stream.
func (s *Server) Delivered(key string) (most int64) {
	view(s, key, func(st *stream) {
		for _, g := range st.groups {
			for _, p := range g.pending {
				most = max(most, p.deliveries)
			}
		}
	})
	return most
}
