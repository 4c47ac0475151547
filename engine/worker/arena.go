package worker

import (
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// arena is what the decisions of a round are written on, one behind the other, and
// again once these have been committed.
type arena struct {
	history, publish []event.Event   // all of it, to be used again
	left             decide.Decision // what nothing is written on yet
	entries          int             // that were written, here or elsewhere
}

// Paper is for few entries first, and for more where they are many: for the end of one
// execution's and a chunk of the next one's, and as many as a commit may have beyond
// those, as a rule.
const (
	fewEntries = 16
	kept       = 8
)

// fresh is called when all that was written is committed: nobody looks at it again.
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
	p.left, p.entries = p.left.On(p.history, p.publish), 0
}

// decision is an empty decision.
func (p *arena) decision() decide.Decision { return p.left }

// used takes up what a decision has left.
func (p *arena) used(d *decide.Decision) {
	p.entries += len(d.History)
	p.left = d.Next()
}
