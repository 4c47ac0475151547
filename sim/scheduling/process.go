package scheduling

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/broker"
)

// process is one process of the simulation, which can crash and restart.
type process struct {
	index, incarnation int

	dead   bool
	frozen time.Time     // the end of a freeze
	skew   time.Duration // of its clock relative to that of Redis

	scheduler *scheduler.Scheduler
	api       *scheduler.API
	prepared  bool // answers requests
}

// operators is the index of the processes that operators start on the command line.
const operators = -1

func (p *process) name() string { return fmt.Sprintf("process %d.%d", p.index, p.incarnation) }

// boot starts a process.
func (s *simulation) boot(p *process) {
	if s.bridges != nil {
		s.bootBridge(p)
		return
	}
	g := &s.setting
	p.skew = time.Duration(s.chance("skew "+p.name(), 0)%uint64(2*g.Skew+1)) - g.Skew
	opts := scheduler.DefaultOptions()
	opts.Process, opts.Partitions, opts.Workers, opts.Batch = p.name(), s.partitions, g.Workers, g.Batch
	opts.Retry.Lease, opts.MemberTTL = g.Lease, g.Lease
	opts.Retry.Attempts = g.Attempts
	opts.Poll = scheduler.PollFor(g.MinDelay)
	opts.Clock = func() time.Time { return s.now.Add(p.skew) }
	var feed *broker.Feed
	var producer scheduler.Producer
	if g.Feed {
		feed = s.broker.Feed(p.name())
		producer = feed
	}
	index := s.index()
	ledger := s.ledger(index, producer)
	var err error
	if p.scheduler, err = scheduler.New(ledger, s.sink(p), opts); err != nil {
		panic(err)
	}
	limits := schedule.DefaultLimits()
	limits.MinDelay = g.MinDelay
	api := scheduler.APIOptions{Limits: limits, Tenant: "default", Now: p.scheduler.Now, ReadTime: p.scheduler.ReadTime, Notify: p.scheduler.Notify}
	p.api = scheduler.NewAPI(ledger, api)
	if s.table != nil && !s.mistake.NoReconciler {
		p.scheduler.Add(s.reconciler(p, index))
	}
	if g.Feed {
		p.scheduler.Add(s.consumer(feed, s.ledger(index, nil), api))
	}
	s.start(&actor{name: "start of " + p.name(), process: p}, func(*actor) { s.prepare(p) })
}

// prepare prepares the scheduler, and then steps all actors as scheduler.Scheduler.Run does. A
// process whose preparation fails ends and restarts.
func (s *simulation) prepare(p *process) {
	s.current.idle = true
	if err := p.scheduler.Prepare(s.ctx); err != nil {
		s.log(p.name(), "ends: "+err.Error())
		if errors.Is(err, schedule.ErrPartitions) { // an operator corrects its configuration
			s.partitions = s.redisPartitions()
		}
		s.crash(p, []sim.Fault{{Amount: time.Second}})
		return
	}
	p.prepared = true
	s.log(p.name(), fmt.Sprintf("is ready, with %d partitions", s.partitions))
	for i, one := range p.scheduler.Actors() {
		a := &actor{name: fmt.Sprintf("%s %d of %s", one.Name, i, p.name()), process: p, wake: one.Wake}
		s.start(a, func(a *actor) { s.loop(a, one.Step) })
	}
}

// redisPartitions returns the number of partitions that is stored in Redis.
func (s *simulation) redisPartitions() int {
	n, err := strconv.Atoi(s.redis.Do("HGET", "scheduler:partitions", "count").Text)
	if err != nil {
		return s.partitions
	}
	return n
}

// loop steps an actor, as the scheduler's own loop does.
func (s *simulation) loop(a *actor, step func(context.Context) (time.Duration, error)) {
	for {
		rest, err := step(s.ctx)
		if err != nil {
			rest = max(rest, schedule.DefaultRetry().Longest)
			s.checkError(a, err)
		}
		a.rest, a.resting = s.now.Add(rest), true
		if a.over || !a.yield(struct{}{}) {
			return
		}
	}
}

// checkError checks that a step fails only after a fault.
func (s *simulation) checkError(a *actor, err error) {
	if len(s.injected) == 0 {
		s.checker.report("a step fails only after a fault", "", "%s: %v", a.name, err)
	}
}

// crash kills a process. Its next incarnation starts later.
func (s *simulation) crash(p *process, faults []sim.Fault) {
	if p.dead {
		return
	}
	p.dead, p.frozen = true, time.Time{}
	if p.index == operators {
		return
	}
	s.expel(p)
	var pause time.Duration
	for _, f := range faults {
		pause = max(pause, f.Amount)
	}
	s.at(s.now.Add(pause), func() {
		next := &process{index: p.index, incarnation: p.incarnation + 1}
		s.processes[p.index] = next
		s.boot(next)
	})
}

// ledger returns a ledger of a process. The producer may be nil.
func (s *simulation) ledger(index agenda.Index, producer scheduler.Producer) scheduler.Ledger {
	l := s.correctLedger(index, producer)
	if s.mistake.Ledger != nil {
		l = s.mistake.Ledger(l, s.client)
	}
	return tracedLedger{l, s}
}

// index returns the index of a process.
func (s *simulation) index() agenda.Index {
	return agenda.NewIndex(wire.NewClient(s.client))
}

// correctLedger returns a ledger without a planted mistake. It uses index and producer only with a
// table.
func (s *simulation) correctLedger(index agenda.Index, producer scheduler.Producer) scheduler.Ledger {
	if s.table == nil {
		opts := agenda.Defaults()
		opts.Streams = s.setting.once()
		return agenda.NewLedger(wire.NewClient(s.client), opts)
	}
	return scheduler.NewTableLedger(s.records(), index, producer)
}

// records returns the table as processes see it.
func (s *simulation) records() scheduler.Table {
	if s.mistake.Table != nil {
		return s.mistake.Table(s.table)
	}
	return s.table
}

// reconciler returns the actor that keeps the index complete.
func (s *simulation) reconciler(p *process, index agenda.Index) scheduler.Actor {
	r := scheduler.NewReconciler(s.records(), index, scheduler.ReconcilerOptions{
		Bucket: s.setting.Bucket, Check: s.setting.Check, Now: p.scheduler.Now, Notify: p.scheduler.Notify,
	})
	return scheduler.Actor{Name: "reconciler", Step: r.Step}
}

// sink returns the sink of a process.
func (s *simulation) sink(p *process) scheduler.Sink {
	if s.setting.Broker {
		return &faultySink{s, p, s.broker}
	}
	return &faultySink{s, p, scheduler.StreamSink{Redis: wire.NewClient(s.client)}}
}

// tracedLedger records which method of the ledger an actor is in, and with which events.
type tracedLedger struct {
	scheduler.Ledger

	s *simulation
}

// enter records the current activity of an actor until done is called.
func (s *simulation) enter(doing string, events ...string) (done func()) {
	a := s.current
	if a == nil {
		return func() {}
	}
	before := *a
	a.doing, a.idle = doing, false
	if len(events) > 0 {
		a.events = events
	}
	return func() { a.doing, a.idle, a.events = before.doing, before.idle, before.events }
}

// idle records that the current actor searches for work, which it does repeatedly.
func (s *simulation) idle() {
	if a := s.current; a != nil {
		a.idle = true
	}
}

// Place implements scheduler.Ledger.
func (n tracedLedger) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	defer n.s.enter("store", idsOf(events)...)()
	return n.Ledger.Place(ctx, events)
}

// Change implements scheduler.Ledger.
func (n tracedLedger) Change(ctx context.Context, id string, change schedule.Change, now time.Time) (schedule.Outcome, error) {
	defer n.s.enter(string(change.Kind), id)()
	return n.Ledger.Change(ctx, id, change, now)
}

// Claim implements scheduler.Ledger.
func (n tracedLedger) Claim(ctx context.Context, claim schedule.Claim) (schedule.Claimed, error) {
	doing := fmt.Sprintf("claim from partition %d", claim.Partition)
	defer n.s.enter(doing)()
	n.s.idle()
	claimed, err := n.Ledger.Claim(ctx, claim)
	if ids := idsOf(claimed.Events); len(ids) > 0 {
		n.s.log(n.s.current.name, doing, ids...)
	}
	if ids := idsOf(claimed.Fired); len(ids) > 0 {
		n.s.log(n.s.current.name, doing+", which publishes", ids...)
	}
	return claimed, err
}

// Settle implements scheduler.Ledger.
func (n tracedLedger) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	ids := make([]string, len(ends))
	for i := range ends {
		ids[i] = ends[i].ID
	}
	defer n.s.enter("settle", ids...)()
	took, err := n.Ledger.Settle(ctx, partition, ends, now)
	for i := range ends {
		text := fmt.Sprintf("settle as %s, version %d", ends[i].Status, ends[i].Version)
		switch {
		case err != nil:
			text += ": " + err.Error()
		case !took[i]:
			text += ": the event has changed since"
		}
		n.s.log(n.s.current.name, text, ids[i])
	}
	return took, err
}

// Members implements scheduler.Ledger.
func (n tracedLedger) Members(ctx context.Context, process string, ttl time.Duration) (schedule.Members, error) {
	defer n.s.enter("register")()
	n.s.idle()
	return n.Ledger.Members(ctx, process, ttl)
}

func idsOf(events []schedule.Event) []string {
	out := make([]string, len(events))
	for i := range events {
		out[i] = events[i].ID
	}
	return out
}

// faultySink is a sink that fails for some topics, and reports what it returns to the checker.
type faultySink struct {
	s *simulation
	p *process
	scheduler.Sink
}

// The topics that fail.
const (
	refusedTopic = "refused" // always
	mendedTopic  = "mended"  // refused for a while
	failingTopic = "failing" // for a while
	awayTopic    = "away"    // for a while
)

// Publish implements scheduler.Sink.
func (t *faultySink) Publish(ctx context.Context, events []schedule.Event) []error {
	defer t.s.enter("publish", idsOf(events)...)()
	errs := make([]error, len(events))
	var some []schedule.Event
	var at []int
	for i := range events {
		if errs[i] = t.s.refusal(&events[i]); errs[i] == nil {
			some, at = append(some, events[i]), append(at, i)
		}
	}
	if len(some) > 0 {
		for i, err := range t.Sink.Publish(ctx, some) {
			errs[at[i]] = err
		}
	}
	for i := range events {
		if !t.p.dead {
			t.s.checker.returned(&events[i], errs[i])
			if errs[i] != nil {
				t.s.log(t.s.current.name, "publish: "+errs[i].Error(), events[i].ID)
			}
		}
	}
	return errs
}

// refusal returns the error that a topic currently returns for an event.
func (s *simulation) refusal(e *schedule.Event) error {
	troubled := s.now.Before(s.setting.troubleEnds())
	switch {
	case e.Topic == refusedTopic || e.Topic == mendedTopic && troubled:
		return fmt.Errorf("%w: the topic is invalid", schedule.ErrRefused)
	case e.Topic == failingTopic && troubled:
		return fmt.Errorf("%w: the topic has no leader", schedule.ErrNotPublished)
	case e.Topic == awayTopic && troubled:
		return fmt.Errorf("%w: the sink does not respond", schedule.ErrUnreachable)
	default:
		return nil
	}
}
