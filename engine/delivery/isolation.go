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
	wanted   bool // a poison candidate is waiting for isolation: no other message may enter
}

// Enter reports whether a message may be handled now. If so, the caller must call Leave.
func (i *Isolation) Enter(m store.Message) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.isolated:
		return false
	case PoisonCandidate(m):
		i.wanted = i.inside > 0
		i.isolated = !i.wanted
	}
	if i.wanted {
		return false
	}
	i.inside++
	return true
}

// StopWaiting ends the wait of a poison candidate that was lost.
func (i *Isolation) StopWaiting() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = false
}

// Leave ends the handling of a message that Enter admitted.
func (i *Isolation) Leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inside--
	i.isolated = false
}

// Buffer holds the messages that one service instance has read and not handled yet, in
// order. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	msgs []store.Message
}

// Put appends messages and takes ownership of the slice.
func (b *Buffer) Put(msgs []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.msgs) == 0 {
		b.msgs = msgs
		return
	}
	b.msgs = append(b.msgs, msgs...)
}

// held returns a copy of all messages in the buffer.
func (b *Buffer) held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.msgs)
}

// handled holds the entries to acknowledge with the next read.
type handled struct {
	mu      sync.Mutex
	entries []stream.Handled
}

func (h *handled) put(msgs []store.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range msgs {
		h.entries = append(h.entries, stream.Handled{Tenant: msgs[i].Tenant, ID: msgs[i].ID})
	}
}

func (h *handled) add(entries []stream.Handled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) == 0 {
		h.entries = entries
		return
	}
	h.entries = append(h.entries, entries...)
}

// putBack puts back entries that could not be acknowledged.
func (h *handled) putBack(entries []stream.Handled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(entries, h.entries...)
}

func (h *handled) clear() []stream.Handled {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries := h.entries
	h.entries = nil
	return entries
}

// buffered returns messages with the fields needed to release them.
func (h *handled) buffered(r stream.Reader) []store.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []store.Message
	for _, e := range h.entries {
		out = append(out, store.Message{Tenant: e.Tenant, Group: r.Group, Consumer: r.Consumer, ID: e.ID})
	}
	return out
}
