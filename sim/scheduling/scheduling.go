// Package scheduling simulates the distributed scheduler, or bridges: several processes with their
// clients on an in-memory Redis, table and broker, under a virtual clock, with faults, in an order
// that depends only on a seed. A checker that sees only the responses to clients and what the sinks
// received checks the scheduler's promises.
package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
)

// Plan describes one run: its seed, and the changes to what the seed decides. A run can be
// repeated from its JSON form.
type Plan struct {
	Seed   uint64      `json:"seed"`
	Bridge bool        `json:"bridge,omitempty"` // bridges run instead of the scheduler
	Events []int       `json:"events,omitempty"` // the numbers of the events of the workload; empty: all
	Faults []sim.Fault `json:"faults"`           // by the names of actors and the numbers of their calls

	Random bool `json:"-"` // additional faults, which the seed decides
	Story  bool `json:"-"` // records the steps, see Trial.Story
	points bool // records where faults are possible
}

// ParsePlan reads a Plan from JSON.
func ParsePlan(text []byte) (Plan, error) {
	var p Plan
	err := event.DecodeStrictly(text, &p)
	if err == nil {
		err = sim.CheckKinds(p.Faults, Faults())
	}
	if err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	return p, nil
}

// Trial is a run with the verdict of the checker.
type Trial struct {
	Setting  Setting
	Injected []sim.Fault
	Broken   []sim.Violation   // whose Execution is the id of an event
	Calls    map[string]uint64 // by each actor
	Trace    string            // a hash of all steps: equal for equal plans
	Elapsed  time.Duration     // virtual
	Story    []Line
	Names    map[string]string // of the events, by id

	Published int // events that the sinks received

	points []point
}

// point is a call and the faults that are possible there.
type point struct {
	actor string
	call  uint64
	kinds []sim.FaultKind
}

// Line is a step of a story.
type Line struct {
	At     time.Time
	Who    string   // an actor or a process
	Text   string   // what it does
	Events []string // the ids of the events concerned; empty: none in particular
	Fault  bool
}

// Mistake plants a mistake: the tests of the simulator check that each is found. The zero
// value plants none.
type Mistake struct {
	Script   func(source string) string // changes a script
	Ledger   func(right scheduler.Ledger, rdb wire.Redis) scheduler.Ledger
	Table    func(scheduler.Table) scheduler.Table
	Consumer func(right scheduler.Ledger) scheduler.Ledger // of consumers

	NoReconciler bool

	Bridge func(o *bridge.Options, rdb wire.Redis) // changes bridges
}

// Try runs a plan. It returns an error only if ctx has ended; promises that the scheduler broke
// are in Trial.Broken.
func Try(ctx context.Context, plan Plan, mistake Mistake) (*Trial, error) {
	s := newSimulation(ctx, plan, mistake)
	defer s.close()
	if err := s.run(); err != nil {
		return nil, err
	}
	if s.bridges != nil {
		s.bridges.finish(s)
	} else {
		s.checker.finish(s)
	}
	t := &Trial{
		Setting: s.setting, Injected: s.injected, Broken: s.checker.broken, Calls: s.calls,
		Trace: fmt.Sprintf("%016x", s.trace), Elapsed: s.now.Sub(sim.Epoch()), Story: s.story, Names: s.names,
		Published: s.checker.published, points: s.points,
	}
	return t, ctx.Err()
}

// The errors that a process sees.
var (
	errLost    = errors.New("the connection was lost")
	errCrashed = errors.New("the process has crashed")
)

// run gives actors turns until nothing is left to do, or that takes too long.
func (s *simulation) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.checker.report("nothing panics", "", "%v", r)
		}
	}()
	for s.ctx.Err() == nil {
		if a := s.choose(); a != nil {
			s.turn(a)
			s.removeEnded()
			if s.turns++; s.turns > maxTurns {
				s.checker.report("actors rest", "", "%s and others never rest", a.name)
				return nil
			}
			continue
		}
		if s.quiet() || !s.advance() {
			return nil
		}
	}
	return s.ctx.Err()
}

// maxTurns is the maximum number of turns before the clock must move.
const maxTurns = 20_000

// quiet reports whether nothing can happen any more: no client waits, and no event is open.
func (s *simulation) quiet() bool {
	return len(s.timeline) == 0 && !slices.ContainsFunc(s.actors, func(a *actor) bool { return !a.resting }) &&
		!slices.ContainsFunc(s.processes, func(p *process) bool { return p.dead || s.now.Before(p.frozen) }) &&
		s.open() == 0
}

// open returns how many things are left to do, in the index, the table and the feed.
func (s *simulation) open() int {
	if s.bridges != nil {
		return s.bridges.open()
	}
	return len(s.leftovers())
}
