package scheduler

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/schedule"
)

// Options of a Scheduler.
type Options struct {
	Process    string // unique among the processes on one Redis
	Partitions int    // 1 to 1024
	Adopt      bool   // if Redis knows another number of partitions, use that
	Workers    int    // batches published concurrently, 0 to 256
	Manual     bool   // the caller publishes events by PublishDue, instead of workers
	Batch      int    // events of a batch, 1 to 1000
	Retry      schedule.Retry
	// Poll is the interval at which a partition without due events is polled. An event that another
	// process schedules for earlier than that may fire late, so it is half of the minimum delay.
	Poll time.Duration
	// MemberTTL is how long the registration of a process lasts; it is renewed three times as often.
	MemberTTL time.Duration
	// Clock is the clock of the machine, in simulation the virtual one.
	Clock func() time.Time
	// Observe, if set, receives each publication when it has ended.
	Observe func(Publication)
}

// DefaultOptions returns the options of an ordinary process, except Process and Clock.
func DefaultOptions() Options {
	retry := schedule.DefaultRetry()
	return Options{Partitions: 16, Workers: 20, Batch: 50, Retry: retry, Poll: PollFor(schedule.DefaultLimits().MinDelay), MemberTTL: retry.Lease}
}

// PollFor returns the Poll for a minimum delay of events.
func PollFor(minDelay time.Duration) time.Duration {
	return min(max(minDelay/2, 100*time.Millisecond), maxRest)
}

func (o Options) check() error {
	var errs []error
	within := func(name string, n, least, most int) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("%s is %d, want %d to %d", name, n, least, most))
		}
	}
	if o.Process == "" {
		errs = append(errs, errors.New("the process has no name"))
	}
	within("the number of partitions", o.Partitions, 1, MaxPartitions)
	within("the number of workers", o.Workers, 0, maxWorkers)
	within("the batch size", o.Batch, 1, MaxBatch)
	within("the number of attempts", o.Retry.Attempts, 1, maxAttempts)
	if o.Retry.Lease < time.Second {
		errs = append(errs, fmt.Errorf("the lease is %s, want 1s or more", o.Retry.Lease))
	}
	return errors.Join(errs...)
}

// Limits of the options.
const (
	MaxPartitions = 1024
	maxWorkers    = 256
	maxAttempts   = 1000
)

// fires reports whether the process publishes events.
func (o Options) fires() bool { return o.Workers > 0 || o.Manual }

func (o Options) observe(p Publication) {
	if o.Observe != nil {
		o.Observe(p)
	}
}

// Scheduler holds the actors of one process.
type Scheduler struct {
	ledger Ledger
	sink   Sink
	opts   Options
	clock  *clock
	queue  *partitionQueue
	actors []Actor
	count  atomic.Int64 // of partitions, as last read from Redis; before that, as configured

	publishing atomic.Int64 // batches that are being published
}

// Actor is one part of the scheduler that runs independently.
type Actor struct {
	Name string
	// Step does one round of work and returns how long to wait until the next one.
	Step func(context.Context) (rest time.Duration, err error)
	Wake <-chan struct{} // ends the wait early; may be nil
}

// New returns the Scheduler of one process. The sink may be nil without workers.
func New(ledger Ledger, sink Sink, opts Options) (*Scheduler, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Scheduler{ledger: ledger, sink: sink, opts: opts, clock: &clock{local: opts.Clock}, queue: newPartitionQueue()}
	s.count.Store(int64(opts.Partitions))
	s.actors = append(s.actors, Actor{Name: "membership", Step: s.heartbeat})
	for range opts.Workers {
		wake := make(chan struct{}, 1)
		step := func(ctx context.Context) (time.Duration, error) { return s.work(ctx, wake) }
		s.actors = append(s.actors, Actor{Name: "worker", Step: step, Wake: wake})
	}
	return s, nil
}

// Add adds another actor to the process, that of a Consumer or a Reconciler, before Run.
func (s *Scheduler) Add(a Actor) { s.actors = append(s.actors, a) }

// Actors returns the actors of the process, for a caller that steps them instead of calling Run. The
// first one, on which the others depend, must be stepped first.
func (s *Scheduler) Actors() []Actor { return s.actors }

// Now returns the time of Redis, as exactly as the process knows it.
func (s *Scheduler) Now() time.Time { return s.clock.now() }

// ReadTime reads the time of Redis, which Now then returns.
func (s *Scheduler) ReadTime(ctx context.Context) error {
	now, err := s.ledger.Now(ctx)
	if err == nil {
		s.setClock(now)
	}
	return err
}

// Owned returns the number of partitions that belong to this process.
func (s *Scheduler) Owned() int { return s.queue.owned() }

// Publishing returns the number of batches that this process is publishing.
func (s *Scheduler) Publishing() int { return int(s.publishing.Load()) }

// Notify informs the workers of this process that the event with an id is due at a time, so that it fires
// in time even if that is before they look at its partition again.
func (s *Scheduler) Notify(id string, due time.Time) {
	s.queue.notify(schedule.Partition(id, int(s.count.Load())), due)
}

// Prepare sets the clock and checks the number of partitions. The first process sets it; if
// Redis knows another number, the error wraps schedule.ErrPartitions, except with Options.Adopt. The
// process is registered when its actors run.
func (s *Scheduler) Prepare(ctx context.Context) error {
	err := s.ledger.SetPartitions(ctx, 0, s.opts.Partitions)
	if err != nil && (!s.opts.Adopt || !errors.Is(err, schedule.ErrPartitions)) {
		return err
	}
	return s.ReadTime(ctx)
}

// heartbeat registers the process, and reads the other processes and the partitions.
func (s *Scheduler) heartbeat(ctx context.Context) (time.Duration, error) {
	name := s.opts.Process
	if !s.opts.fires() {
		name = ""
	}
	members, err := s.ledger.Members(ctx, name, s.opts.MemberTTL)
	if err != nil {
		return 0, err
	}
	s.setClock(members.Now)
	if members.Count == 0 { // Redis has lost everything
		return 0, s.ledger.SetPartitions(ctx, 0, int(s.count.Load()))
	}
	s.count.Store(int64(members.Count))
	s.queue.set(members.Partitions, func(p int) bool { return name != "" && owner(p, members.Processes) == name })
	return s.opts.MemberTTL / 3, nil
}

// owner returns the process that owns a partition: the one with the greatest hash of its name and the
// partition (rendezvous hashing), so that few partitions move when a process starts or stops. It
// returns "" if there are no processes.
func owner(p int, processes []string) (owner string) {
	var most uint64
	for _, name := range processes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{byte(p), byte(p >> 8)})
		if sum := mix(h.Sum64()); owner == "" || sum > most {
			owner, most = name, sum
		}
	}
	return owner
}

// mix spreads a hash over all bits (the finalizer of MurmurHash3): FNV changes little when only the
// last byte changes.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Run works until ctx ends, after Prepare. It then claims nothing more, and publications in progress
// get a few seconds to finish. A failed step is logged and repeated.
func (s *Scheduler) Run(ctx context.Context, log *slog.Logger) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(shutdownTimeout, cancel) })
	defer stop()
	var wg sync.WaitGroup
	for _, a := range s.actors {
		wg.Go(func() { loop(ctx, work, a, s.opts.Retry.Longest, log.With("actor", a.Name)) })
	}
	wg.Wait()
	if !s.opts.fires() {
		return nil
	}
	ended, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	_, err := s.ledger.Members(ended, s.opts.Process, 0)
	return err
}

// PublishDue publishes what is due in all partitions. It returns how many events were published, how
// many became dead, and when the next event is due, zero if there is none. It replaces running workers
// when a virtual clock is about to be advanced.
func (s *Scheduler) PublishDue(ctx context.Context) (published, dead int, next time.Time, err error) {
	members, err := s.ledger.Members(ctx, s.opts.Process, s.opts.MemberTTL)
	if err != nil {
		return 0, 0, next, err
	}
	for _, partition := range members.Partitions {
		for {
			claimed, err := s.claim(ctx, partition)
			if err != nil {
				return published, dead, next, err
			}
			if len(claimed.Events)+len(claimed.Fired) == 0 {
				next = event.Earlier(next, claimed.Next)
				break
			}
			n, gone, err := s.publish(ctx, partition, claimed)
			published, dead = published+n, dead+gone
			if err != nil {
				return published, dead, next, err
			}
		}
	}
	return published, dead, next, nil
}

// shutdownTimeout is how long a stopping process waits for publications in progress.
const shutdownTimeout = 5 * time.Second

// loop steps an actor until ctx ends; the steps use work as their context.
func loop(ctx, work context.Context, a Actor, pause time.Duration, log *slog.Logger) {
	timer, steps := time.NewTimer(0), engine.StepLog{Log: log}
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-a.Wake:
		case <-timer.C:
		}
		rest, err := a.Step(work)
		if err != nil {
			rest = max(rest, pause)
		}
		if work.Err() == nil {
			steps.Add(ctx, time.Now(), err)
		}
		timer.Reset(rest)
	}
}

// clock estimates the time of Redis between two replies. Jumps of the machine's clock do not matter.
type clock struct {
	local func() time.Time

	mu       sync.Mutex
	read, at time.Time // the time of Redis in the last reply, and the local time then; zero before the first
}

// set records that Redis' time is now, and returns by how much the estimate was wrong.
func (c *clock) set(now time.Time) (jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump = c.estimate().Sub(now).Abs()
	c.read, c.at = now, c.local()
	return jump
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate()
}

func (c *clock) estimate() time.Time {
	if c.at.IsZero() {
		return c.local()
	}
	return c.read.Add(c.local().Sub(c.at))
}

// setClock sets the clock. If Redis' time has jumped, the partitions are checked as if for the first
// time: they would wait too long, by the time that it had before.
func (s *Scheduler) setClock(now time.Time) {
	if s.clock.set(now) > time.Second {
		s.queue.restart()
	}
}
