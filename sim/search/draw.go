package search

import (
	"iter"
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// everySeed are the scenarios of the seeds.
func (h *hunt) everySeed() iter.Seq[Scenario] {
	return func(yield func(Scenario) bool) {
		for seed := h.First; ; seed++ {
			sc := h.scenario(seed)
			if sc.chance = h.Kinds; len(h.Kinds) == 0 && h.inOrder {
				sc = sc.slight(h.Config.Remote)
			} else {
				sc = h.operated(h.waiting(h.withOthers(sc)))
			}
			if !yield(sc) || seed == h.Last {
				return
			}
		}
	}
}

// scenario is the world of a seed, in which nothing goes wrong.
func (h *hunt) scenario(seed uint64) Scenario {
	return Scenario{
		Seed: seed, Processes: h.Config.Processes, Executions: h.Config.Executions,
		// Both ways that a deployment can be set to.
		Remote: h.Config.Remote || sim.Choice(seed, "remote")%2 == 1,
	}
}

// slight is the same with less that is many: where nothing goes wrong, and the
// document does one thing after the other, most worlds have one process, and compute
// at once.
func (sc Scenario) slight(remote bool) Scenario {
	const most = 16 // all but one in so many
	if sim.Choice(sc.Seed, "alone")%most != 0 {
		sc.Processes = 1
	}
	sc.Remote = remote || sim.Choice(sc.Seed, "remote")%most == 1
	return sc
}

// withOthers has the executions of some seeds run in two tenants, side by side: one
// that nobody asked for if there would be but one.
func (h *hunt) withOthers(sc Scenario) Scenario {
	const once = 8
	if sim.Choice(sc.Seed, "tenants")%once == 1 && h.sociable() {
		sc.Tenants, sc.Executions = 2, max(sc.Executions, 2) //nolint:mnd // two are company
		sc.Twins = sim.Choice(sc.Seed, "twins")%2 == 1
	}
	return sc
}

// waiting has the timer services of some worlds wait in their reads, where nothing goes
// wrong otherwise: for longer than most timers, so that one they do not know of is late.
func (h *hunt) waiting(sc Scenario) Scenario {
	const once = 12
	if sim.Choice(sc.Seed, "waits")%once == 1 {
		sc.Waits, sc.chance = 4*h.scene.lasts+time.Hour, nil
	}
	return sc
}

// besides is the world that a single fault comes to, with company in some.
func (h *hunt) besides(sc Scenario, f sim.Fault) Scenario {
	const once = 16
	if n := sim.Draw(sc.Seed, "tenants "+string(f.Kind)+" "+f.Service, f.Command); n%once == 1 && h.sociable() {
		sc.Tenants, sc.Executions = 2, max(sc.Executions, 2) //nolint:mnd // two are company
		sc.Twins = n/once%2 == 1
	}
	return sc
}

// sociable reports whether executions may run in another tenant beside the others: not if
// all of them share what mocks keep.
func (h *hunt) sociable() bool { return !h.Config.Mocks.Shared() }

// inOrder reports whether whatever happens to an execution follows upon what has
// happened to it before: nothing runs side by side, is sent, or comes from outside,
// and several executions have nothing to do with one another.
func inOrder(cfg sim.Config) bool {
	if cfg.Executions > 1 && sim.CallsOut(cfg.Definition) || len(cfg.With) > 0 || cfg.Definition.Timeout != nil || cfg.Mocks != nil && len(cfg.Mocks.Events) > 0 {
		return false
	}
	for _, t := range cfg.Definition.Tasks() {
		switch t.Kind {
		case dsl.Fork, dsl.Listen, dsl.Emit, dsl.Run:
			return false
		default:
		}
		if t.Timeout != nil {
			return false
		}
	}
	return true
}

// How long single faults last: longer than a lease where something stands still.
const (
	singleDelay  = 45 * time.Second
	singleAway   = 5 * time.Minute
	singleOutage = 20 * time.Second
	singleJump   = 60 * time.Second
)

// singles are the scenarios with one fault: each kind at each command of the
// first run, or as many of them as there may be, evenly spread.
func (h *hunt) singles() iter.Seq[Scenario] {
	all := h.singleCount()
	return func(yield func(Scenario) bool) {
		n := 0
		for f := range h.everyFault() {
			// The n-th is taken where the even spread passes the next whole number.
			taken := all <= h.Singles || n*h.Singles/all != (n+1)*h.Singles/all
			n++
			if !taken {
				continue
			}
			sc := h.besides(h.scenario(h.First), f)
			sc.Faults = []sim.Fault{f}
			if !yield(sc) {
				return
			}
		}
	}
}

func (h *hunt) singleCount() int {
	n := 0
	for range h.everyFault() {
		n++
	}
	return n
}

// everyFault is each kind of fault at each command, and at each call. All kinds at
// one place come together, so that a search which is stopped has seen some of each.
func (h *hunt) everyFault() iter.Seq[sim.Fault] {
	inside := slices.DeleteFunc(slices.Clone(h.Kinds), func(k sim.FaultKind) bool { return k == sim.CallLost })
	return func(yield func(sim.Fault) bool) {
		if len(inside) < len(h.Kinds) && !faultsAt(h.calls, []sim.FaultKind{sim.CallLost}, yield) {
			return
		}
		faultsAt(h.commands, inside, yield)
	}
}

// faultsAt yields faults of some kinds at each place, until it is not to go on.
func faultsAt(counts map[string]uint64, kinds []sim.FaultKind, yield func(sim.Fault) bool) bool {
	for service, n := range each(counts) {
		for _, kind := range kinds {
			if !yield(sim.Fault{Kind: kind, Service: service, Command: n, Amount: single(kind)}) {
				return false
			}
		}
	}
	return true
}

// each are the numbers of commands of each service, from 1 on.
func each(counts map[string]uint64) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, service := range slices.Sorted(maps.Keys(counts)) {
			for n := uint64(1); n <= counts[service]; n++ {
				if !yield(service, n) {
					return
				}
			}
		}
	}
}

// single is how long, or how far, a fault goes that is the only one.
func single(k sim.FaultKind) time.Duration {
	switch k {
	case sim.Delay, sim.CrashBefore, sim.CrashAfter:
		return singleDelay
	case sim.StopRequested:
		return singleAway
	case sim.Outage:
		return singleOutage
	case sim.Clock:
		return singleJump
	default:
		return 0
	}
}
