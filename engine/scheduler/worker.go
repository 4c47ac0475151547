package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/schedule"
)

// work is a step of a worker: it claims due events of one partition, publishes them, and records the
// outcomes. While one worker publishes, others claim, so their number limits the concurrent batches. It
// returns how long to wait until the next step.
func (s *Scheduler) work(ctx context.Context, wake chan struct{}) (time.Duration, error) {
	partition, due, ok := s.queue.reserve(wake)
	if !ok {
		return maxRest, nil
	}
	if rest := due.Sub(s.clock.now()); rest > 0 {
		return min(rest, maxRest), nil
	}
	claimed, err := s.claim(ctx, partition)
	if err == nil {
		_, _, err = s.publish(ctx, partition, claimed)
	}
	return 0, err
}

// claim claims due events of a partition, and then releases the partition.
func (s *Scheduler) claim(ctx context.Context, partition int) (schedule.Claimed, error) {
	began := s.clock.local()
	claimed, err := s.ledger.Claim(ctx, schedule.Claim{
		Partition: partition, Limit: s.opts.Batch, Owner: s.opts.Process, Lease: s.opts.Retry.Lease,
	})
	if err != nil {
		s.queue.release(partition, s.clock.now().Add(s.opts.Retry.Longest))
		return claimed, err
	}
	s.setClock(claimed.Now)
	s.queue.release(partition, event.Earlier(claimed.Next, claimed.Now.Add(s.opts.Poll)))
	for i := range claimed.Fired {
		e := &claimed.Fired[i]
		s.opts.observe(Publication{Event: e, Partition: partition, Status: e.Status, Lateness: claimed.Now.Sub(e.Due), Took: s.clock.local().Sub(began)})
	}
	return claimed, nil
}

// publish publishes claimed events and records the outcomes. It returns how many were published,
// including those published by the ledger, and how many became dead. An event whose outcome cannot be
// recorded is claimed again when its lease expires.
func (s *Scheduler) publish(ctx context.Context, partition int, claimed schedule.Claimed) (published, dead int, err error) {
	published = len(claimed.Fired)
	if len(claimed.Events) == 0 {
		return published, 0, nil
	}
	at := s.clock.now()
	if at.Before(claimed.Now) { // a slow reply to another worker has set the clock back since the claim
		at = claimed.Now
	}
	began := s.clock.local()
	s.publishing.Add(1)
	errs := s.sink.Publish(ctx, claimed.Events)
	s.publishing.Add(-1)
	took := s.clock.local().Sub(began)
	now := at.Add(took)
	publications := make([]Publication, len(claimed.Events))
	var ends []schedule.Settled
	var settled []*Publication // those with known outcomes
	for i := range claimed.Events {
		e, p := &claimed.Events[i], &publications[i]
		*p = Publication{Event: e, Partition: partition, Err: errs[i], Lateness: at.Sub(e.Due), Took: took}
		if end, known := s.opts.Retry.Settle(e, errs[i], now); known {
			p.Status = end.Status
			ends, settled = append(ends, end), append(settled, p)
		}
		if errors.Is(errs[i], schedule.ErrUnreachable) {
			s.queue.pause(now.Add(s.opts.Retry.Longest))
		}
		if errs[i] == nil {
			published++
		}
	}
	var recorded []bool
	if len(ends) > 0 {
		recorded, err = s.ledger.Settle(ctx, partition, ends, now)
	}
	for i, p := range settled {
		p.Unrecorded = recorded == nil || !recorded[i] // with an error, some may be recorded
		switch {
		case p.Unrecorded:
		case p.Status.Open():
			s.queue.notify(partition, ends[i].Next)
		case p.Status == schedule.Dead:
			dead++
		}
	}
	for _, p := range publications {
		s.opts.observe(p)
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

// partitionQueue knows when each partition is due. Each waiting worker reserves a different partition, so
// that together they wait for those that are due first.
type partitionQueue struct {
	mu         sync.Mutex
	partitions map[int]*partition
	idle       []chan struct{} // of workers that found no partition
	paused     time.Time       // nothing is claimed before this time
}

// partition is one partition in a partitionQueue.
type partition struct {
	due   time.Time     // when to claim from it
	grace time.Duration // 0 if it belongs to this process
	wake  chan struct{} // of the worker that has reserved it; nil: none
}

func newPartitionQueue() *partitionQueue {
	return &partitionQueue{partitions: map[int]*partition{}}
}

// grace is how much later than its owner another process looks at a partition so that a partition
// whose owner has died is served before the owner's registration expires.
const grace = time.Second

// set changes the partitions and which of them belong to this process.
func (q *partitionQueue) set(all []int, owned func(int) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.partitions, func(p int, _ *partition) bool { return !slices.Contains(all, p) })
	for _, p := range all {
		known := q.partitions[p]
		if known == nil {
			known = &partition{}
			q.partitions[p] = known
			q.offer(known)
		}
		if !owned(p) {
			known.grace = grace
		} else if known.grace > 0 {
			known.grace, known.due = 0, time.Time{} // look immediately: it may have waited for its former owner
			q.offer(known)
		}
	}
}

// reserve reserves the partition that is due first for the worker with a wake channel, instead of the
// one that it has reserved before, and returns when to claim from it. The worker is woken when it should
// reserve again.
func (q *partitionQueue) reserve(wake chan struct{}) (p int, due time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle = slices.DeleteFunc(q.idle, func(one chan struct{}) bool { return one == wake })
	first := -1
	for p, one := range q.partitions {
		if one.wake == wake {
			one.wake = nil
		}
		if one.wake == nil && (first < 0 || one.due.Before(q.partitions[first].due) || one.due.Equal(q.partitions[first].due) && p < first) {
			first = p
		}
	}
	if first < 0 {
		q.idle = append(q.idle, wake)
		return 0, due, false
	}
	one := q.partitions[first]
	one.wake, due = wake, one.due
	if due.Before(q.paused) {
		due = q.paused
	}
	return first, due, true
}

// offer wakes a worker for a partition: the one that has reserved it, an idle one, or the one that waits
// for the partition that is due last, if that is later.
func (q *partitionQueue) offer(p *partition) {
	wake := p.wake
	if wake == nil && len(q.idle) > 0 {
		wake, q.idle = q.idle[0], q.idle[1:]
	}
	if wake == nil {
		last, number := p, 0
		for n, one := range q.partitions {
			if one.wake != nil && (one.due.After(last.due) || one.due.Equal(last.due) && last != p && n < number) {
				last, number = one, n
			}
		}
		wake = last.wake
	}
	select {
	case wake <- struct{}{}:
	default: // it is nil, or the worker has not yet noticed that it was woken before
	}
}

// release ends the reservation of a partition, which is due again at a given time.
func (q *partitionQueue) release(p int, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.partitions[p]; one != nil {
		one.wake, one.due = nil, due.Add(one.grace)
		q.offer(one)
	}
}

// notify records that a partition is due at a time, which may be earlier than known.
func (q *partitionQueue) notify(p int, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.partitions[p]; one != nil && due.Before(one.due) {
		one.due = due
		q.offer(one)
	}
}

// pause stops all claims until a given time.
func (q *partitionQueue) pause(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused.Before(until) {
		q.paused = until
	}
}

// restart makes all partitions due now.
func (q *partitionQueue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused = time.Time{}
	for _, one := range q.partitions {
		one.due = time.Time{}
		q.offer(one)
	}
}

// owned returns the number of partitions that this process owns.
func (q *partitionQueue) owned() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.partitions {
		if one.grace == 0 {
			n++
		}
	}
	return n
}
