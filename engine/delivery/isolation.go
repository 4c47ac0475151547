package delivery

import (
	"errors"
	"slices"
	"sync"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// ErrBusy means that other messages have to finish first. It is not a failure: the caller
// repeats the step a little later.
var ErrBusy = errors.New("other messages have to finish first")

// Isolation lets the instances of one service handle messages concurrently, but a poison
// candidate only while no other message is being handled. It is safe for concurrent use.
type Isolation struct {
	mu       sync.Mutex
	inside   int  // messages being handled
	isolated bool // the only message being handled is a poison candidate
	wanted   bool // a poison candidate waits for isolation: no other message may enter
}

// Enter reports whether a message may be handled now. If so, the caller must call Leave.
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

// StopWaiting ends the wait of a poison candidate that was lost.
func (g *Isolation) StopWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = false
}

// Leave ends the handling of a message that Enter admitted.
func (g *Isolation) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.isolated = false
}

// Buffer holds the messages that one service instance has read and not handled yet, in
// order. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	msgs []store.Message
}

// Put appends messages and takes ownership of the slice.
func (s *Buffer) Put(msgs []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.msgs) == 0 {
		s.msgs = msgs
		return
	}
	s.msgs = append(s.msgs, msgs...)
}

// Held returns a copy of all messages in the buffer.
func (s *Buffer) Held() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.msgs)
}

// handled holds the entries to acknowledge with the next read.
type handled struct {
	mu      sync.Mutex
	entries []stream.Handled
}

func (s *handled) put(msgs []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range msgs {
		s.entries = append(s.entries, stream.Handled{Tenant: msgs[i].Tenant, ID: msgs[i].ID})
	}
}

func (s *handled) add(entries []stream.Handled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 {
		s.entries = entries
		return
	}
	s.entries = append(s.entries, entries...)
}

// putBack puts back what could not be acknowledged.
func (s *handled) putBack(entries []stream.Handled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(entries, s.entries...)
}

func (s *handled) clear() []stream.Handled {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.entries
	s.entries = nil
	return entries
}

// buffered returns messages with the fields needed to release them.
func (s *handled) buffered(r stream.Reader) []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []store.Message
	for _, e := range s.entries {
		out = append(out, store.Message{Tenant: e.Tenant, Group: r.Group, Consumer: r.Consumer, ID: e.ID})
	}
	return out
}
