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

// Gate lets the instances of one service handle messages side by side, or a
// suspect alone.
type Gate struct {
	mu     sync.Mutex
	inside int
	alone  bool // the one inside is alone
	wanted bool // somebody waits to be alone: nobody else may enter
}

// Enter reports whether a message may be handled now. Whoever was let in leaves.
func (g *Gate) Enter(m store.Message) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.alone:
		return false
	case Suspect(m):
		g.wanted = g.inside > 0
		g.alone = !g.wanted
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
func (g *Gate) Give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = false
}

// Leave lets others in.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.alone = false
}

// Shelf is the messages that one service instance has read and not handled yet,
// in their order.
type Shelf struct {
	mu   sync.Mutex
	msgs []store.Message
}

// Put adds messages behind those that are there.
func (s *Shelf) Put(msgs []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.msgs = append(s.msgs, msgs...)
}

// First is the message to handle next.
func (s *Shelf) First() (store.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.msgs) == 0 {
		return store.Message{}, false
	}
	return s.msgs[0], true
}

// Drop forgets a message.
func (s *Shelf) Drop(m store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.msgs, m.Same); i >= 0 {
		s.msgs = slices.Delete(s.msgs, i, i+1)
	}
}

// Held are all messages on the shelf.
func (s *Shelf) Held() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.msgs)
}
