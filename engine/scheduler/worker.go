package scheduler

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// worker claims due events of one partition after another, publishes them, and records the outcomes.
// The workers of a process share its partitionQueue. While one publishes, others claim, so their
// number limits the concurrent batches.
type worker struct {
	*Scheduler

	wake      chan struct{} // receives when the partition it waits for is due earlier
	partition int           // that it waits for, if waiting
	waiting   bool
}

func newWorker(s *Scheduler) *worker { return &worker{Scheduler: s, wake: make(chan struct{}, 1)} }

// step publishes one batch, if there are due events. It returns how long to wait until the
// next step.
func (w *worker) step(ctx context.Context) (time.Duration, error) {
	if !w.waiting {
		if w.partition, w.waiting = w.queue.reserve(w.wake); !w.waiting {
			return maxRest, nil
		}
	}
	if rest := w.queue.due(w.partition).Sub(w.clock.now()); rest > 0 {
		return min(rest, maxRest), nil
	}
	claimed, err := w.claim(ctx)
	if err == nil {
		_, _, err = w.publish(ctx, claimed)
	}
	return 0, err
}

// claim claims due events of the partition, then lets other instances have the partition.
func (w *worker) claim(ctx context.Context) (schedule.Claimed, error) {
	w.waiting = false
	began := w.clock.local()
	claimed, err := w.ledger.Claim(ctx, schedule.Claim{
		Partition: w.partition, Limit: w.opts.Batch, Owner: w.opts.Process, Lease: w.opts.Retry.Lease,
	})
	if err != nil {
		w.queue.release(w.partition, w.clock.now().Add(w.opts.Retry.Longest))
		return claimed, err
	}
	w.setClock(claimed.Now)
	next := claimed.Now.Add(w.opts.Poll)
	if !claimed.Next.IsZero() && claimed.Next.Before(next) {
		next = claimed.Next
	}
	w.queue.release(w.partition, next)
	for i := range claimed.Fired {
		e := &claimed.Fired[i]
		w.opts.observe(Publication{Event: e, Partition: w.partition, Status: e.Status, Lateness: claimed.Now.Sub(e.Due), Took: w.clock.local().Sub(began)})
	}
	return claimed, nil
}

// publish publishes claimed events and records the outcomes. It returns how many were published,
// including those published by the ledger, and how many became dead. An event whose outcome cannot be
// recorded is claimed again when its lease expires.
func (w *worker) publish(ctx context.Context, claimed schedule.Claimed) (published, dead int, err error) {
	published = len(claimed.Fired)
	if len(claimed.Events) == 0 {
		return published, 0, nil
	}
	at := w.clock.now()
	if at.Before(claimed.Now) { // a slow reply to another worker has set the clock back since the claim
		at = claimed.Now
	}
	began := w.clock.local()
	w.publishing.Add(1)
	errs := w.sink.Publish(ctx, claimed.Events)
	w.publishing.Add(-1)
	took := w.clock.local().Sub(began)
	now := at.Add(took)
	publications := make([]Publication, len(claimed.Events))
	var ends []schedule.Settled
	var settled []*Publication // those with known outcomes
	for i := range claimed.Events {
		e, p := &claimed.Events[i], &publications[i]
		*p = Publication{Event: e, Partition: w.partition, Err: errs[i], Lateness: at.Sub(e.Due), Took: took}
		if end, known := w.opts.Retry.Settle(e, errs[i], now); known {
			p.Status = end.Status
			ends, settled = append(ends, end), append(settled, p)
		}
		if errors.Is(errs[i], schedule.ErrUnreachable) {
			w.queue.pause(now.Add(w.opts.Retry.Longest))
		}
		if errs[i] == nil {
			published++
		}
	}
	var recorded []bool
	if len(ends) > 0 {
		recorded, err = w.ledger.Settle(ctx, w.partition, ends, now)
	}
	for i, p := range settled {
		p.Unrecorded = err != nil || !recorded[i]
		switch {
		case p.Unrecorded:
		case p.Status.Open():
			w.queue.notify(w.partition, ends[i].Next)
		case p.Status == schedule.Dead:
			dead++
		}
	}
	for _, p := range publications {
		w.opts.observe(p)
	}
	return published, dead, err
}

// maxRest is the longest time that an idle actor rests.
const maxRest = 30 * time.Second

// Publication describes one publication, for metrics and logs.
type Publication struct {
	Event      *schedule.Event // as it was claimed; of one that the ledger published, see schedule.Claimed
	Partition  int
	Status     schedule.Status // of the event afterwards; "" if it is unknown whether it was published
	Err        error           // of the sink
	Lateness   time.Duration   // from Due until the publication began
	Took       time.Duration   // the publication, of the whole batch
	Unrecorded bool            // the Status could not be recorded: another process claims the event
}
