package executor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// outbox sends the results of tasks. While one executor sends, others wait; then one of those
// sends the results of all in one round trip.
type outbox struct {
	store     *store.Store
	unbatched bool // each executor sends its own results, without waiting

	mu      sync.Mutex
	sending bool
	waiting []*submission
}

// submission holds the jobs whose results one executor wants to send.
type submission struct {
	jobs []*job
	turn chan bool // false: it was sent; true: its owner sends for all that wait
}

// send reports the results of jobs and records in each job why it could not be reported. It returns
// the first such error.
func (o *outbox) send(ctx context.Context, jobs []*job) error {
	ctx = context.WithoutCancel(ctx) // the tasks were performed and must be reported even during shutdown
	if o.unbatched {
		o.reply(ctx, jobs)
	} else {
		own := &submission{jobs: jobs, turn: make(chan bool, 1)}
		o.mu.Lock()
		o.waiting = append(o.waiting, own)
		first := !o.sending
		o.sending = true
		o.mu.Unlock()
		if first || <-own.turn {
			o.sendAll(ctx, own)
		}
	}
	for _, j := range jobs {
		if j.err != nil {
			return j.err
		}
	}
	return nil
}

// sendAll sends all waiting submissions, including own, and then makes the next waiting owner the
// sender.
func (o *outbox) sendAll(ctx context.Context, own *submission) {
	o.mu.Lock()
	submissions := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	var jobs []*job
	for _, p := range submissions {
		jobs = append(jobs, p.jobs...)
	}
	o.reply(ctx, jobs)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range submissions {
		if p != own {
			p.turn <- false
		}
	}
	if o.sending = len(o.waiting) > 0; o.sending {
		o.waiting[0].turn <- true
	}
}

// reply sends replies and acknowledges their requests, tenant by tenant, so that an error in one
// tenant's stream does not affect the others. A request that another consumer has claimed is not an
// error.
func (o *outbox) reply(ctx context.Context, jobs []*job) {
	o.stamp(ctx, jobs)
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b *job) int { return strings.Compare(a.message.Tenant, b.message.Tenant) })
	for len(jobs) > 0 {
		var replies []stream.Reply
		for n := 0; n < len(jobs) && jobs[n].message.Tenant == jobs[0].message.Tenant; n++ {
			replies = append(replies, stream.Reply{Message: &jobs[n].message, Event: jobs[n].reply})
		}
		sent, err := stream.New(o.store).Replies(ctx, replies)
		for i, j := range jobs[:len(replies)] {
			j.err = nil
			if !sent[i] {
				j.err = err
			}
		}
		jobs = jobs[len(replies):]
	}
}

// stamp stamps the jobs that have no reply yet with Redis' current time, which it reads once, or on
// a cluster once for each tenant. If Redis does not respond, it uses the time of the read so that
// the lack of a time does not cause a task to be performed again.
func (o *outbox) stamp(ctx context.Context, jobs []*job) {
	var now time.Time
	var err error
	tenant, asked := "", false
	for _, j := range jobs {
		if j.reply != nil {
			continue
		}
		if !asked || j.message.Tenant != tenant && o.store.Keys().Clustered() {
			tenant, asked = j.message.Tenant, true
			now, err = o.store.NowOf(ctx, tenant)
		}
		if err != nil {
			j.report(j.message.Read)
		} else {
			j.report(now)
		}
	}
}
