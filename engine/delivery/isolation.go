package delivery

import (
	"errors"
	"slices"
	"sync"

	"flunq.io/flunq/engine/store"
)

// ErrBusy says that others have to finish first: the step is to be repeated a
// little later. It is no failure.
var ErrBusy = errors.New("others have to finish first")

// Isolation lets the instances of one service handle messages side by side, or a
// suspect alone.
type Isolation struct {
	mu       sync.Mutex
	inside   int
	isolated bool // the one inside is alone
	wanted   bool // somebody waits to be alone: nobody else may enter
}

// Enter reports whether a message may be handled now. Whoever was let in leaves.
func (g *Isolation) Enter(m store.Message) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.isolated:
		return false
	case PoisonCandidate(m):
		g.wanted = g.inside > 0
		g.isolated = !g.wanted
	case g.wanted:
		return false
	}
	if g.wanted {
		return false
	}
	g.inside++
	return true
}

// Give takes back that somebody waits to be alone: its message is another's by now.
func (g *Isolation) Give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = false
}

// Leave lets others in.
func (g *Isolation) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.isolated = false
}

// Buffer is the messages that one service instance has read and not handled yet,
// in their order.
type Buffer struct {
	mu   sync.Mutex
	msgs []store.Message
}

// Put adds messages behind those that are there. They are the shelf's from then on.
func (s *Buffer) Put(msgs []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.msgs) == 0 {
		s.msgs = msgs
		return
	}
	s.msgs = append(s.msgs, msgs...)
}

// Held are all messages on the shelf.
func (s *Buffer) Held() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.msgs)
}

// handled is what is to be acknowledged with the next read.
type handled struct {
	mu      sync.Mutex
	entries []store.Handled
}

func (s *handled) put(msgs []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range msgs {
		s.entries = append(s.entries, store.Handled{Tenant: msgs[i].Tenant, ID: msgs[i].ID})
	}
}

func (s *handled) add(entries []store.Handled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 {
		s.entries = entries
		return
	}
	s.entries = append(s.entries, entries...)
}

// back takes back what could not be acknowledged.
func (s *handled) back(entries []store.Handled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(entries, s.entries...)
}

func (s *handled) clear() []store.Handled {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.entries
	s.entries = nil
	return entries
}

// buffered are messages as far as it takes to release them.
func (s *handled) buffered(r store.Reader) []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.Message
	for _, e := range s.entries {
		out = append(out, store.Message{Tenant: e.Tenant, Group: r.Group, Consumer: r.Consumer, ID: e.ID})
	}
	return out
}
