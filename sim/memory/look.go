package memory

import (
	"hash/maphash"
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// Each shows the ids and fields of all entries of a stream, the oldest first, until show is
// false. Nobody may change them, or send commands meanwhile.
func (s *Server) Each(key string, show func(id string, fields []string) bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	st, _ := find[stream](s, key)
	if st == nil {
		return
	}
	for i := range st.entries {
		if !show(st.entries[i].id, st.entries[i].fields) {
			return
		}
	}
}

// Backlog is what a consumer group has to do.
type Backlog struct {
	Name    string
	Pending int   // entries that were not acknowledged
	Unread  int64 // entries that it has not been given, as far as a Redis can tell
}

// Groups are the consumer groups of a stream.
func (s *Server) Groups(key string) []Backlog {
	s.lock.Lock()
	defer s.lock.Unlock()
	st, _ := find[stream](s, key)
	if st == nil {
		return nil
	}
	out := make([]Backlog, len(st.groups))
	for i, g := range st.groups {
		out[i] = Backlog{Name: g.name, Pending: len(g.pending)}
		if lag := st.lag(g); lag.Kind == resp.Integer {
			out[i].Unread = lag.Int
		}
	}
	return out
}

// Members are those of a sorted set, in their order.
func (s *Server) Members(key string) []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	z, _ := find[sorted](s, key)
	if z == nil {
		return nil
	}
	out := make([]string, len(z.ranked))
	for i := range z.ranked {
		out[i] = z.ranked[i].member
	}
	return out
}

// Ranked shows the members of a sorted set and their scores, in their order. Nobody may
// send commands meanwhile.
func (s *Server) Ranked(key string, show func(member string, score float64)) {
	s.lock.Lock()
	defer s.lock.Unlock()
	z, _ := find[sorted](s, key)
	if z == nil {
		return
	}
	for i := range z.ranked {
		show(z.ranked[i].member, z.ranked[i].score)
	}
}

// Fields shows the fields of a hash, in their order. Nobody may send commands meanwhile.
func (s *Server) Fields(key string, show func(name, value string)) {
	s.lock.Lock()
	defer s.lock.Unlock()
	h, _ := find[hash](s, key)
	if h == nil {
		return
	}
	for i := 0; i < len(h.pairs); i += 2 {
		show(h.pairs[i], h.pairs[i+1])
	}
}

// Keys are those that begin with a prefix, sorted.
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

// Sum adds to h what stands under a key that is a hash or a stream: the same for the
// same, in its order. It reports false if there is nothing, or something else.
func (s *Server) Sum(h *maphash.Hash, key string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	it := s.item(key)
	if it == nil {
		return false
	}
	switch value := it.value.(type) {
	case *hash:
		sumTexts(h, value.pairs)
	case *stream:
		for i := range value.entries {
			sumText(h, value.entries[i].id)
			sumTexts(h, value.entries[i].fields)
		}
	default:
		return false
	}
	return true
}

func sumTexts(h *maphash.Hash, texts []string) {
	for _, text := range texts {
		sumText(h, text)
	}
	_ = h.WriteByte(end) // a hash takes everything
}

// sumText adds a text, and where it ends.
func sumText(h *maphash.Hash, text string) {
	_, _ = h.WriteString(text)
	_ = h.WriteByte(end)
}

// end is in no text in UTF-8.
const end = 0xff

// Delivered is how often the entry of a stream was handed out that was so the most, of
// those that are pending.
func (s *Server) Delivered(key string) (most int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	st, _ := find[stream](s, key)
	if st == nil {
		return 0
	}
	for _, g := range st.groups {
		for _, p := range g.pending {
			most = max(most, p.delivery)
		}
	}
	return most
}
