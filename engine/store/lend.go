package store

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Loan is entries of a stream that a reader was shown before its group is given them.
// Whoever does what they ask for moves the group over them with that, if they are still
// what it is to be given next: nothing is pending meanwhile, and nothing is acknowledged,
// which both cost Redis more than most of what is asked for. Who dies leaves nothing
// behind.
//
// A loan is settled when the group has been moved over it, or never will be; no message
// of it can be put off or given up. Those of a stream are settled in their order.
type Loan struct {
	spot        spot
	first, last string
	entries     int
	before      *Loan // to be settled first; nil: none
	patient     bool  // it waits for that

	settled chan struct{}
	kept    bool // the group was moved over it
}

// lending is the loans of a process: of one stream at a time, the only one with a
// backlog. A group is read where somebody else reads it as well, and whenever it is
// not certain where it stands.
type lending struct {
	mu    sync.Mutex
	spot  spot
	shown string        // the last entry that a reader has seen; "": the group is read
	busy  chan struct{} // a reader is being shown what is behind that; closed when it was
	last  *Loan
	left  int // so many more before the group is read again
	pause int // full reads before there is a loan
	reads int // see Options.Lend
}

const (
	// mostLoans come one after the other. Then the group is read, so that Redis sees its
	// consumer, and counts with whom it dies.
	mostLoans = 256
	// loanPause is how many times as many reads as a loan is go by when one came to
	// nothing: somebody else reads as well.
	loanPause = 16
)

// preview is what a reader is shown of a stream.
type preview struct {
	spot    spot
	after   string // where it begins
	count   int
	patient bool
}

// full notes that a reader was given as much of one stream, and of no other, as it
// asked for. There is more of it.
func (l *lending) full(at spot, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.reads == 0 || l.busy != nil:
	case l.pause > 1:
		l.pause--
	case l.shown == "":
		l.spot, l.shown, l.left = at, last, mostLoans
	case l.spot == at && compareIDs(last, l.shown) > 0:
		l.shown = last
	}
}

// begin is what a reader is to be shown, who then ends it; nil if its streams are to be
// read. It waits for those who are before it, unless they only go on when it is done.
func (l *lending) begin(ctx context.Context, r *Reader, count int) *preview {
	for {
		p, wait := l.turn(r)
		if wait == nil || !r.Often {
			if p != nil {
				p.count, p.patient = min(l.reads*count, mostWishes), r.Often
			}
			return p
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil
		}
	}
}

// turn is what a reader is to be shown, or what to wait for before that.
func (l *lending) turn(r *Reader) (p *preview, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !r.Lend || r.Notes == nil || l.spot.group != r.Group || !slices.Contains(r.Tenants, l.spot.tenant):
		return nil, nil
	case l.busy != nil:
		return nil, l.busy
	case l.shown != "":
		l.busy = make(chan struct{})
		return &preview{spot: l.spot, after: "(" + l.shown}, nil
	case l.last != nil:
		return nil, l.last.settled
	default:
		return nil, nil
	}
}

// end ends what was begun: so many entries were found, from the first to the last. It
// makes the loan of them; nil if there are none, or one before it came to nothing.
func (l *lending) end(p *preview, first, last string, entries int) (loan *Loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy)
	l.busy = nil
	if l.shown != "" && entries > 0 {
		loan = &Loan{spot: p.spot, first: first, last: last, entries: entries, before: l.last, patient: p.patient, settled: make(chan struct{})}
		l.last, l.shown, l.left = loan, last, l.left-1
	}
	if entries < p.count || l.left <= 0 {
		l.shown = ""
	}
	return loan
}

// settle says what became of a loan, unless that is known. One that came to nothing
// shows that it is not certain where the group stands.
func (l *lending) settle(loan *Loan, kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if loan.over() {
		return
	}
	if loan.kept, loan.before = kept, nil; !kept {
		l.shown, l.pause = "", loanPause*l.reads
	}
	if l.last == loan {
		l.last = nil
	}
	close(loan.settled)
}

// over reports whether a loan is settled.
func (loan *Loan) over() bool {
	select {
	case <-loan.settled:
		return true
	default:
		return false
	}
}

// due reports whether a loan may come to anything. It waits for those before it, where
// readers do.
func (l *lending) due(ctx context.Context, loan *Loan) bool {
	l.mu.Lock()
	before := loan.before
	l.mu.Unlock()
	if before == nil {
		return !loan.over()
	}
	if loan.patient {
		select {
		case <-before.settled:
		case <-ctx.Done():
			return false
		}
	}
	return !loan.over() && (!before.over() || before.kept)
}

// Keep moves the group over a loan of which nothing is left to be done, unless it is
// settled.
func (s *Store) Keep(ctx context.Context, loan *Loan) error {
	if loan.over() {
		return nil
	}
	if !s.lending.due(ctx, loan) {
		s.Return(loan)
		return nil
	}
	list := []any{
		nil, nil, nil, &s.home(loan.spot.tenant).stream,
		&loan.spot.group, "", &loan.first, &loan.last, loan.entries,
	}
	reply, err := s.call(ctx, takeScript, 1, list).Slice()
	s.settle(loan, err == nil && len(reply) == 2) //nolint:mnd // see takeScript
	return failed("move a group", unlent(err))
}

// unlent is why a loan was not kept, unless it is to be read all the same: what is wrong
// with it, if not with Redis, is found there.
func unlent(err error) error {
	if _, said := errors.AsType[redis.Error](err); said && !temporary(err) {
		return nil
	}
	return err
}

// Return gives a loan back, unless it is settled: all of it is read, or shown, again.
func (s *Store) Return(loan *Loan) { s.lending.settle(loan, false) }

// settle says what became of a loan.
func (s *Store) settle(loan *Loan, kept bool) {
	if kept {
		s.passages.given(loan.spot, loan.last)
	}
	s.lending.settle(loan, kept)
}
