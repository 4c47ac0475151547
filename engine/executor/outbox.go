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

// send reports the results of jobs and records in each job why it could not be reported.
// It returns the first such error.
func (o *outbox) send(ctx context.Context, jobs []*job) error {
	ctx = context.WithoutCancel(ctx) // the tasks were performed and must be reported even during shutdown
	if o.unbatched {
		o.deliver(ctx, jobs)
	} else if p := (&submission{jobs: jobs, turn: make(chan bool, 1)}); o.submit(p) {
		o.deliverAll(ctx, p)
	}
	for _, j := range jobs {
		if j.err != nil {
			return j.err
		}
	}
	return nil
}

// submit queues a submission and waits its turn. It returns true if the owner must send for all,
// and false if the submission has been sent.
func (o *outbox) submit(p *submission) bool {
	o.mu.Lock()
	o.waiting = append(o.waiting, p)
	first := !o.sending
	o.sending = true
	o.mu.Unlock()
	return first || <-p.turn
}

// deliverAll sends all waiting submissions, including own, and then makes the next waiting
// owner the sender.
func (o *outbox) deliverAll(ctx context.Context, own *submission) {
	o.mu.Lock()
	submissions := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	jobs := own.jobs
	if len(submissions) > 1 {
		jobs = nil
		for _, p := range submissions {
			jobs = append(jobs, p.jobs...)
		}
	}
	o.deliver(ctx, jobs)
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

// deliver sends the replies tenant by tenant, so that an error in one tenant's stream
// does not affect the others.
func (o *outbox) deliver(ctx context.Context, jobs []*job) {
	o.stamp(ctx, jobs)
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

// answer sends the replies of one tenant. A request that another consumer has claimed is not an
// error.
func (o *outbox) answer(ctx context.Context, jobs []*job) {
	answers := make([]stream.Answer, len(jobs))
	for i, j := range jobs {
		answers[i] = stream.Answer{Message: &j.message, Event: j.reply}
	}
	sent, err := stream.New(o.store).Replies(ctx, answers)
	for i, j := range jobs {
		j.err = nil
		if !sent[i] {
			j.err = err
		}
	}
}

// stamp stamps the jobs that have no reply yet with Redis' current time, which it reads once, or on
// a cluster once for each tenant. If Redis does not answer, it uses the time of the read, so that
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
