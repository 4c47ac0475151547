package worker

import (
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// arena is the memory for the decisions of a round. Decisions are appended one after
// another, and the memory is reused once they are committed.
type arena struct {
	history, publish []event.Event   // all of it, for reuse
	left             decide.Decision // the unused rest
	entries          int             // entries written, here or on the heap
}

// The arena starts small and grows to twice the entries of the last round, up to two
// chunks. Each execution may exceed its chunk by some entries.
const (
	fewEntries = 16
	kept       = 8
)

// fresh reclaims the memory. The caller guarantees that everything written is committed
// and that nobody reads it any more.
func (p *arena) fresh(opts Options) {
	size := len(p.history)
	if p.entries > size || p.history == nil {
		size = min(max(fewEntries, 2*p.entries), 2*(opts.Chunk+kept))
	}
	if size > len(p.history) {
		p.history, p.publish = make([]event.Event, size), make([]event.Event, (size+1)/2)
	} else {
		clear(p.history[:max(0, len(p.history)-cap(p.left.History))])
		clear(p.publish[:max(0, len(p.publish)-cap(p.left.Publish))])
	}
	p.left, p.entries = p.left.WithBuffers(p.history, p.publish), 0
}

// decision returns an empty decision that appends to the arena.
func (p *arena) decision() decide.Decision { return p.left }

// used marks what a decision occupies as used.
func (p *arena) used(d *decide.Decision) {
	p.entries += len(d.History)
	p.left = d.Next()
}
