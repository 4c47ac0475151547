package scheduling

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/broker"
	"flunq.io/flunq/sim/memory"
	"flunq.io/flunq/sim/table"
)

// simulation is a running simulation.
type simulation struct {
	ctx     context.Context //nolint:containedctx // of the whole run; the steps of all actors get it
	plan    Plan
	mistake Mistake
	setting Setting
	now     time.Time // of Redis and of every timer
	redis   *memory.Server
	client  wire.Redis
	table   *table.Table // nil: Redis keeps the records
	broker  *broker.Broker

	bridges *bridges // nil: the scheduler runs

	processes []*process
	actors    []*actor // of live processes, and of requests under way
	current   *actor   // whose turn it is; nil while the simulation itself acts
	timeline  []moment // what happens without an actor, the next first
	turns     int      // since the clock moved

	forgotten bool // Redis has lost everything
	outages   map[target]time.Time
	injected  []sim.Fault
	drawn     int               // number of random faults
	calls     map[string]uint64 // by each actor
	points    []point
	trace     uint64
	story     []Line

	names      map[string]string // of events, by id
	groups     map[string]*group // by name
	partitions int               // the newest count, with which processes start
	checker    *checker
}

// moment is an action and its time.
type moment struct {
	at time.Time
	do func()
}

func newSimulation(ctx context.Context, plan Plan, mistake Mistake) *simulation {
	s := &simulation{
		ctx: ctx, plan: plan, mistake: mistake, setting: settingOf(plan.Seed), now: sim.Epoch(),
		redis: memory.New(sim.Epoch()), outages: map[target]time.Time{}, names: map[string]string{}, groups: map[string]*group{}, calls: map[string]uint64{}, checker: newChecker(),
	}
	s.redis.Tamper = mistake.Script
	s.redis.Added = s.added
	s.client = wire.Passive(s.redis.Dial)
	s.client.AddHook(memory.Hook{Send: s.performed, Before: func(redis.Cmder) error { return nil }, Answer: s.redis.Answer})
	begin := s.scheduleEvent
	if plan.Bridge {
		s.openBridges()
		begin = s.bridgeEvent
	} else {
		if s.setting.Table {
			s.table = table.New(table.Options{Hook: s.tableRequest, Now: func() time.Time { return s.now }, Lag: s.lag})
		}
		s.openBroker()
		s.partitions = s.setting.Partitions
	}
	for i := range s.setting.Processes {
		p := &process{index: i}
		s.processes = append(s.processes, p)
		s.boot(p)
	}
	for n := range s.setting.Events {
		if len(plan.Events) == 0 || slices.Contains(plan.Events, n) {
			begin(n)
		}
	}
	if len(s.setting.Changes) > 0 {
		s.at(sim.Epoch().Add(s.setting.MinDelay/2+s.span("change", 30*time.Second)), func() { s.send(s.repartition(0)) })
	}
	return s
}

func (s *simulation) close() {
	for _, a := range s.actors {
		s.end(a)
	}
	_ = s.client.Close() // nothing is open any more
	s.redis.Close()
}

// chance returns a number that depends on the seed, a name and a count only, so leaving
// out one thing changes no other.
func (s *simulation) chance(name string, count uint64) uint64 {
	return sim.Draw(s.plan.Seed, name, count)
}

// at calls do at time t.
func (s *simulation) at(t time.Time, do func()) {
	i, _ := slices.BinarySearchFunc(s.timeline, t, func(m moment, t time.Time) int {
		return cmp.Or(m.at.Compare(t), -1) // after those of the same time
	})
	s.timeline = slices.Insert(s.timeline, i, moment{t, do})
}

// actor is a part of a process, or a request under way, that runs as a coroutine: until its next
// call, then another actor may have a turn.
type actor struct {
	name    string // unique in a simulation
	process *process
	wake    <-chan struct{} // ends a rest early; may be nil

	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	doing   string   // the method of the scheduler's interfaces that it is in
	idle    bool     // it looks for work
	events  []string // the ids of the events that it works on
	turns   uint64
	resting bool      // between two steps, until rest or until it is woken
	rest    time.Time // until when it rests, or waits in a call
	over    bool
}

// start adds an actor.
func (s *simulation) start(a *actor, body func(a *actor)) {
	a.next, a.stop = iter.Pull(iter.Seq[struct{}](func(yield func(struct{}) bool) {
		a.yield = yield
		body(a)
		a.over = true
	}))
	s.actors = append(s.actors, a)
}

// ready reports whether an actor can have a turn now.
func (a *actor) ready(now time.Time) bool {
	if now.Before(a.process.frozen) {
		return false
	}
	return !a.rest.After(now) || a.resting && len(a.wake) > 0
}

// choose returns the actor that has the next turn, nil if none is ready. The choice depends only
// on the seed and on how many turns each actor has had.
func (s *simulation) choose() *actor {
	var best *actor
	var lowest uint64
	for _, a := range s.actors {
		if !a.ready(s.now) {
			continue
		}
		if n := s.chance("turn "+a.name, a.turns); best == nil || n < lowest {
			best, lowest = a, n
		}
	}
	return best
}

// turn runs an actor until its next call.
func (s *simulation) turn(a *actor) {
	a.turns++
	if a.resting {
		select {
		case <-a.wake:
		default:
		}
	}
	a.resting, a.rest = false, time.Time{}
	s.current = a
	a.next()
	s.current = nil
}

// end ends an actor: its calls fail from now on.
func (s *simulation) end(a *actor) {
	current := s.current
	s.current = a
	a.over = true
	a.stop()
	s.current = current
}

// sleep gives others turns for a while. It returns false if the actor has been ended.
func (s *simulation) sleep(a *actor, d time.Duration) bool {
	a.rest = s.now.Add(d)
	return a.yield(struct{}{})
}

// removeEnded removes the actors that are over, and those of dead processes.
func (s *simulation) removeEnded() {
	s.actors = slices.DeleteFunc(s.actors, func(a *actor) bool {
		if !a.over && a.process.dead && !strings.HasPrefix(a.name, requestPrefix) {
			s.end(a)
		}
		return a.over
	})
}

// advance moves the clock to the next moment at which something happens. It returns false if
// there is none, or if it is too late.
func (s *simulation) advance() bool {
	var next time.Time
	soonest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, a := range s.actors {
		soonest(later(a.rest, a.process.frozen))
	}
	if len(s.timeline) > 0 {
		soonest(s.timeline[0].at)
	}
	if next.IsZero() || next.After(s.deadline()) {
		return false
	}
	s.now, s.turns = later(s.now, next), 0
	s.redis.SetTime(s.now)
	for len(s.timeline) > 0 && !s.timeline[0].at.After(s.now) {
		do := s.timeline[0].do
		s.timeline = s.timeline[1:]
		do()
	}
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// note adds a step to the trace.
func (s *simulation) note(who, text string) {
	s.trace = sim.Draw(s.trace, who, uint64(s.now.UnixNano()))
	s.trace = sim.Draw(s.trace, text, 0)
}

// log adds a step to the trace and to the story; ids are those of the events that it is about, if any.
func (s *simulation) log(who, text string, ids ...string) {
	s.note(who, text)
	if s.plan.Story {
		s.story = append(s.story, Line{At: s.now, Who: who, Text: text, Events: ids})
	}
}
