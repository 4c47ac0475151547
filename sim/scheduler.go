package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
)

// scheduler decides which service has the next turn.
type scheduler struct {
	shared

	processes []*process
	services  []*service // of the live processes
	active    []*service // the services that are not idle
	groups    []*consumerGroup
	turns     uint64 // number of turns of all services
	lazy      bool   // see allDone
	parallel  bool   // see delayCall
	timeUp    bool   // Config.MaxTime has passed

	deadServices bool // services of dead processes have to be removed
}

// service is one instance of an engine service, run as a coroutine: it runs until its
// next command, then another service may have a turn.
type service struct {
	process       *process
	consumerGroup *consumerGroup
	consumer      string // the name under which it reads
	engine.Service

	context context.Context //nolint:containedctx // passed to its first step
	next    func() (struct{}, bool)
	end     func()
	yield   func(struct{}) bool

	hash uint64 // of its name

	tenant string // of the last message that it began to handle

	turns    uint64
	commands uint64    // sent by this incarnation of its process
	calls    uint64    // made by this incarnation of its process
	parked   bool      // between two steps, with nothing to do
	sleeping bool      // within a step, until wake
	waits    bool      // within a step, blocked in a read until wake or until something is written
	calling  bool      // within a step, until a call returns
	woken    bool      // something was written that it may have to read
	active   bool      // it is in scheduler.active
	callRank uint64    // within a step, until nothing else happens: see delayCall
	wake     time.Time // zero: not scheduled
	answerAt time.Time // when its call is answered, if its process crashed before; zero otherwise
	err      error     // of the last step
}

func newService(ctx context.Context, p *process, consumerGroup *consumerGroup, s engine.Service) *service {
	consumer := consumerGroup.group + "-" + p.name()
	if consumerGroup.firesTimers() {
		consumer = s.Name // each timer service reads under its own name
	}
	return &service{process: p, consumerGroup: consumerGroup, consumer: consumer, Service: s, context: ctx, hash: hashed(s.Name), parked: true}
}

// resume continues a service, or starts its coroutine: most services of a simulation
// never run.
func (s *service) resume() {
	if s.next == nil {
		s.next, s.end = iter.Pull(s.steps)
	}
	s.next()
}

// steps runs one step after another.
func (s *service) steps(yield func(struct{}) bool) {
	s.yield = yield
	for {
		s.wake, s.err = s.Step(s.context)
		s.parked = true
		if !yield(struct{}{}) {
			return
		}
	}
}

func (s *service) stop() {
	if s.end != nil {
		s.end()
	}
}

// pause hands the turn back to the simulation; it returns false once the simulation has
// ended.
func (s *service) pause() bool { return s.yield(struct{}{}) }

// resting reports whether a service has nothing to do until something is written or its
// wake time comes.
func (s *service) resting() bool { return s.parked || s.waits }

// free reports whether a service rests and was not woken.
func (s *service) free() bool { return s.resting() && !s.woken }

// ready reports whether a service can have a turn now.
func (s *service) ready(now time.Time) bool {
	switch {
	case s.calling || s.callRank > 0:
		return false
	case s.sleeping:
		return !s.wake.After(now)
	case s.resting() && s.process.stopping:
		return false
	case s.resting():
		return s.woken || !s.wake.IsZero() && !s.wake.After(now)
	default:
		return true
	}
}

// idle reports whether only a wake-up can give the service a turn.
func (s *service) idle() bool { return s.parked && !s.woken && s.wake.IsZero() }

// wakeService wakes a service: it gets a turn as soon as possible.
func (sched *scheduler) wakeService(s *service) {
	s.woken = true
	if !s.active {
		s.active = true
		sched.active = append(sched.active, s)
	}
}

// removeIdle removes idle services from the active ones.
func (sched *scheduler) removeIdle() {
	sched.active = slices.DeleteFunc(sched.active, func(s *service) bool {
		s.active = !s.idle()
		return !s.active
	})
}

// choose returns the service that has the next turn, nil if none is ready. The choice depends
// only on the seed and on how many turns each service has had, so removing one service does
// not affect the others.
func (sched *scheduler) choose() *service {
	var best *service
	var lowest uint64
	for _, s := range sched.active {
		if !s.ready(sched.clock.now) || sched.clock.now.Before(s.process.frozen) {
			continue
		}
		if h := mix(sched.cfg.Seed, s.hash, s.turns); best == nil || h < lowest {
			best, lowest = s, h
		}
	}
	return best
}

// The pauses of a service after an error, and when other services have to finish first, as in
// the engine's own loop.
const (
	errorPause = 200 * time.Millisecond
	busyPause  = 5 * time.Millisecond
)

// nextService returns the service that has the next turn; nil if none can have one now.
func (sched *scheduler) nextService() *service {
	s := sched.choose()
	if s == nil && sched.parallel && sched.releaseCall() {
		s = sched.choose()
	}
	return s
}

// releaseCall releases the delayed call with the lowest rank once nothing else happens. It
// reports whether there was one.
func (sched *scheduler) releaseCall() bool {
	var next *service
	var lowest uint64
	for _, s := range sched.active {
		if s.callRank == 0 || sched.clock.now.Before(s.process.frozen) {
			continue
		}
		h := mix(sched.cfg.Seed, s.hash, s.turns)
		if next == nil || s.callRank < next.callRank || s.callRank == next.callRank && h < lowest {
			next, lowest = s, h
		}
	}
	if next == nil {
		return false
	}
	next.callRank = 0
	return true
}

// Choice returns a pseudorandom number that depends on seed and name only.
func Choice(seed uint64, name string) uint64 {
	return Draw(seed, name, 0)
}

// Draw is like Choice for the count-th number of the same name.
func Draw(seed uint64, name string, count uint64) uint64 {
	return mix(seed, hashed(name), count)
}

// hashed returns the FNV-1a hash of name.
func hashed(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// mix returns a pseudorandom number that depends on seed, hash and count only.
func mix(seed, hash, count uint64) uint64 {
	x := hash ^ seed*0x9e3779b97f4a7c15 ^ count*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	x *= 0xff51afd7ed558ccd
	return x ^ x>>32
}

// turn runs a service until its next command.
func (sched *scheduler) turn(s *service) {
	s.turns++
	sched.turns++
	if s.parked {
		s.parked, s.woken, s.wake = false, false, time.Time{}
	}
	s.sleeping = false
	sched.current = s
	s.resume()
	sched.current = nil
	if s.parked {
		sched.reschedule(s)
	}
}

// reschedule sets when a service that has ended a step wants its next turn.
func (sched *scheduler) reschedule(s *service) {
	if sched.cfg.Waits > 0 && s.consumerGroup.firesTimers() && s.err == nil {
		s.wake = sched.clock.now // to block in its next read
		return
	}
	if s.idle() && s.err == nil {
		sched.removeIdle()
		return
	}
	switch {
	case errors.Is(s.err, delivery.ErrBusy):
		s.wake = sched.clock.now.Add(busyPause)
		return
	case s.err != nil && s.process.dead:
		return
	case s.err != nil && (errors.Is(s.err, errLost) || errors.Is(s.err, errCrashed)):
		s.wake = sched.clock.now.Add(errorPause) // like the engine's own loop after an error
		return
	case s.err != nil:
		sched.failure = s.err
		return
	}
	if s.wake.IsZero() || s.wake.After(sched.clock.now) {
		return
	}
	until, done := sched.allDone(s)
	if !done {
		sched.wakeOther(s) // there may be more work
		return
	}
	s.wake = until
	s.consumerGroup.skipped++
	sched.removeIdle()
}

// wakeRenewals wakes the services that renew leases before the clock moves. It reports
// whether there were any.
func (sched *scheduler) wakeRenewals() bool {
	found := false
	for _, s := range sched.services {
		if s.Kind != renewal || !s.parked || s.process.stopping || !s.wake.IsZero() || !sched.busy(s.process) {
			continue
		}
		sched.wakeService(s)
		found = true
	}
	return found
}

// busy reports whether an executor of a process is within a step, and the process is not
// frozen.
func (sched *scheduler) busy(p *process) bool {
	return !sched.clock.now.Before(p.frozen) &&
		slices.ContainsFunc(sched.active, func(s *service) bool { return s.process == p && s.Kind == "executor" && !s.parked })
}

// nextWake returns the earliest time at which a service wants a turn; zero if there is
// none.
func (sched *scheduler) nextWake() time.Time {
	next := sched.nextRestart()
	for _, s := range sched.active {
		if sched.clock.now.Before(s.process.frozen) || sched.onlyTidies(s) || s.resting() && s.process.stopping {
			continue
		}
		if s.resting() || s.sleeping {
			next = event.Earlier(next, s.wake)
		}
	}
	return next
}

// nextRestart returns when the next dead or frozen process continues; zero if there is none.
func (sched *scheduler) nextRestart() time.Time {
	var next time.Time
	for _, p := range sched.processes {
		if p.dead && !p.restartAt.After(sched.clock.now) {
			return sched.clock.now // the clock jumped past its restart
		}
		for _, at := range []time.Time{p.restartAt, p.frozen, p.grace} {
			if at.After(sched.clock.now) {
				next = event.Earlier(next, at)
			}
		}
	}
	return next
}

// sleep blocks the current service for d of virtual time.
func (sched *scheduler) sleep(ctx context.Context, d time.Duration) error {
	s := sched.current
	if d <= 0 || s == nil {
		return ctx.Err()
	}
	s.wake, s.sleeping = sched.clock.now.Add(d), true
	sched.wakeSubstitute(s)
	if !s.pause() {
		return ErrStopped
	}
	if s.process.dead {
		return errCrashed
	}
	return ctx.Err()
}
