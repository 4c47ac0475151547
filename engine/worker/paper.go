package worker

import (
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// paper is what the decisions of a round are written on, one behind the other, and
// again once these have been committed.
type paper struct {
	history, publish []event.Event   // all of it, to be used again
	left             decide.Decision // what nothing is written on yet
}

// spare is how many entries a commit may have beyond a chunk, as a rule.
const spare = 8

// fresh is called when all that was written is committed: nobody looks at it again,
// unless it is shown to somebody.
func (p *paper) fresh(opts Options) {
	switch {
	case opts.Committed != nil:
		p.left = decide.Decision{}
		return
	case p.history == nil:
		p.history, p.publish = make([]event.Event, opts.Chunk+spare), make([]event.Event, opts.Chunk/2)
	default:
		clear(p.history[:max(0, len(p.history)-cap(p.left.History))])
		clear(p.publish[:max(0, len(p.publish)-cap(p.left.Publish))])
	}
	p.left = decide.Decision{History: p.history[:0], Publish: p.publish[:0]}
}

// sheet is an empty decision.
func (p *paper) sheet() decide.Decision { return p.left }

// used takes up what a decision has left.
func (p *paper) used(d *decide.Decision) {
	if p.history != nil {
		p.left = d.Next()
	}
}
