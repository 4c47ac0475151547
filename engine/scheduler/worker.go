package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Worker claims due events of one partition after another, publishes them, and records the outcomes.
// Its instances in a process share a partitionQueue. While one publishes, others claim, so their
// number limits the concurrent batches.
type Worker struct {
	ledger Ledger
	sink   Sink
	queue  *partitionQueue
	clock  *clock
	opts   Options
	wake   chan struct{} // receives when the partition it waits for is due earlier

	publishing *atomic.Int64 // of the Scheduler

	partition int // that it waits for, if waiting
	waiting   bool
}

func newWorker(s *Scheduler) *Worker {
	return &Worker{
		ledger: s.ledger, sink: s.sink, queue: s.queue, clock: s.clock, opts: s.opts, wake: make(chan struct{}, 1), publishing: &s.publishing,
	}
}

// Step publishes one batch, if there are due events. It returns how long to wait until the
// next step.
func (w *Worker) Step(ctx context.Context) (time.Duration, error) {
	if !w.waiting {
		if w.partition, w.waiting = w.queue.take(w.wake); !w.waiting {
			return longestRest, nil
		}
	}
	if rest := w.queue.due(w.partition).Sub(w.clock.now()); rest > 0 {
		return min(rest, longestRest), nil
	}
	claimed, err := w.claim(ctx)
	if err == nil {
		_, err = w.publish(ctx, claimed)
	}
	return 0, err
}

// claim claims due events of the partition, then lets other instances have the partition.
func (w *Worker) claim(ctx context.Context) (schedule.Claimed, error) {
	w.waiting = false
	began := w.clock.local()
	claimed, err := w.ledger.Claim(ctx, schedule.Claim{
		Partition: w.partition, Most: w.opts.Batch, Owner: w.opts.Process, Lease: w.opts.Retry.Lease,
	})
	if err != nil {
		w.queue.give(w.partition, w.clock.now().Add(w.opts.Retry.Longest))
		return claimed, err
	}
	w.clock.set(claimed.Now)
	next := claimed.Now.Add(w.opts.Look)
	if !claimed.Next.IsZero() && claimed.Next.Before(next) {
		next = claimed.Next
	}
	w.queue.give(w.partition, next)
	for i := range claimed.Fired {
		e := &claimed.Fired[i]
		w.opts.observe(Activity{Event: e, Partition: w.partition, End: e.Status, Lateness: claimed.Now.Sub(e.Due), Took: w.clock.local().Sub(began)})
	}
	return claimed, nil
}

// publish publishes claimed events and records the outcomes. It returns how many were published,
// including those published by the ledger. An event whose outcome cannot be recorded is claimed
// again when its lease expires.
func (w *Worker) publish(ctx context.Context, claimed schedule.Claimed) (published int, err error) {
	published = len(claimed.Fired)
	if len(claimed.Events) == 0 {
		return published, nil
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
	ends := make([]schedule.Settled, 0, len(claimed.Events))
	for i := range claimed.Events {
		if errors.Is(errs[i], schedule.ErrAway) {
			w.queue.pause(now.Add(w.opts.Retry.Longest))
		}
		if end, known := w.opts.Retry.Settle(&claimed.Events[i], errs[i], now); known {
			ends = append(ends, end)
		}
		if errs[i] == nil {
			published++
		}
	}
	recorded, err := w.settle(ctx, ends, now)
	for i := range claimed.Events {
		e := &claimed.Events[i]
		a := Activity{Event: e, Partition: w.partition, Err: errs[i], Lateness: at.Sub(e.Due), Took: took}
		if len(ends) > 0 && ends[0].ID == e.ID { // otherwise the outcome is unknown
			a.End, a.Lost = ends[0].Status, err != nil || !recorded[0]
			ends, recorded = ends[1:], recorded[min(1, len(recorded)):]
		}
		w.opts.observe(a)
	}
	return published, err
}

// settle records outcomes and notes when events that stay open are due again.
func (w *Worker) settle(ctx context.Context, ends []schedule.Settled, now time.Time) ([]bool, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	took, err := w.ledger.Settle(ctx, w.partition, ends, now)
	if err != nil {
		return nil, err
	}
	for i, end := range ends {
		if took[i] && end.Status.Open() {
			w.queue.note(w.partition, end.Next)
		}
	}
	return took, nil
}

// longestRest is the longest time that an idle actor rests.
const longestRest = 30 * time.Second

// Activity is the outcome of one publication, for metrics and logs.
type Activity struct {
	Event     *schedule.Event // as it was claimed; of one that the ledger published, see schedule.Claimed
	Partition int
	End       schedule.Status // "" if it is unknown whether it was published
	Err       error           // of the sink
	Lateness  time.Duration   // from Due until the publication began
	Took      time.Duration   // the publication, of the whole batch
	Lost      bool            // the outcome was not recorded: another process claims the event
}
