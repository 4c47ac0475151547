package delivery

import (
	"errors"
	"sync"

	"flunq.io/flunq/engine/store"
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
