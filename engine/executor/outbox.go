package executor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/store"
)

// outbox sends what tasks came to. Whoever comes while another's reports are on
// their way waits, and all that wait are sent in one round trip, by one of them.
type outbox struct {
	store *store.Store
	apart bool // nobody waits for another: each sends its own

	mu      sync.Mutex
	sending bool
	waiting []*parcel
}

// parcel is what one executor has to send.
type parcel struct {
	jobs []*job
	turn chan bool // false: it has been sent; true: its owner is to send for all that wait
}

// send reports what came of jobs, and notes with each what kept it from being
// reported. The first such error comes back.
func (o *outbox) send(ctx context.Context, jobs []*job) error {
	ctx = context.WithoutCancel(ctx) // the deed is done
	if o.apart {
		o.deliver(ctx, jobs)
	} else if p := (&parcel{jobs: jobs, turn: make(chan bool, 1)}); o.lead(p) {
		o.deliverAll(ctx, p)
	}
	for _, j := range jobs {
		if j.err != nil {
			return j.err
		}
	}
	return nil
}

// lead hands a parcel in, and reports whether its owner is to send for all; if
// not, it has been sent.
func (o *outbox) lead(p *parcel) bool {
	o.mu.Lock()
	o.waiting = append(o.waiting, p)
	first := !o.sending
	o.sending = true
	o.mu.Unlock()
	return first || <-p.turn
}

// deliverAll sends what waits, one's own among it, and then leaves it to the next
// who waits to send what has come meanwhile.
func (o *outbox) deliverAll(ctx context.Context, own *parcel) {
	o.mu.Lock()
	parcels := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	jobs := own.jobs
	if len(parcels) > 1 {
		jobs = nil
		for _, p := range parcels {
			jobs = append(jobs, p.jobs...)
		}
	}
	o.deliver(ctx, jobs)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range parcels {
		if p != own {
			p.turn <- false
		}
	}
	if o.sending = len(o.waiting) > 0; o.sending {
		o.waiting[0].turn <- true
	}
}

// deliver sends the reports of jobs, tenant by tenant: what is wrong with one
// tenant's stream is no other's concern.
func (o *outbox) deliver(ctx context.Context, jobs []*job) {
	o.date(ctx, jobs)
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b *job) int { return strings.Compare(a.message.Tenant, b.message.Tenant) })
	for len(jobs) > 0 {
		tenant, n := jobs[0].message.Tenant, 1
		for n < len(jobs) && jobs[n].message.Tenant == tenant {
			n++
		}
		o.answer(ctx, jobs[:n])
		jobs = jobs[n:]
	}
}

// answer sends the reports of jobs of one tenant. One whose request is not ours any
// more is not wanted.
func (o *outbox) answer(ctx context.Context, jobs []*job) {
	answers := make([]store.Answer, len(jobs))
	for i, j := range jobs {
		answers[i] = store.Answer{Message: &j.message, Event: j.reply}
	}
	given, err := o.store.Replies(ctx, answers)
	for i, j := range jobs {
		j.err = nil
		if !given[i] {
			j.err = err
		}
	}
}

// date says of those that were done outside when that was: by Redis' own time,
// asked for once, or that before them if it does not answer. What was done is not
// done again for want of a time.
func (o *outbox) date(ctx context.Context, jobs []*job) {
	var now time.Time
	var err error
	for _, j := range jobs {
		if j.reply != nil {
			continue
		}
		if now.IsZero() && err == nil {
			now, err = o.store.Now(ctx)
		}
		if err != nil {
			j.report(j.message.Read)
		} else {
			j.report(now)
		}
	}
}
