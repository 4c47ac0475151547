package search

import (
	"iter"
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// everySeed returns the scenarios of all seeds.
func (h *searchState) everySeed() iter.Seq[Scenario] {
	return func(yield func(Scenario) bool) {
		for seed := h.First; ; seed++ {
			sc := h.scenario(seed)
			if sc.chance = h.Kinds; len(h.Kinds) == 0 && h.inOrder {
				sc = sc.reduced(h.Config.Remote)
			} else {
				sc = h.operated(h.waiting(h.withOthers(sc)))
			}
			if !yield(sc) || seed == h.Last {
				return
			}
		}
	}
}

// scenario returns the scenario of a seed without faults.
func (h *searchState) scenario(seed uint64) Scenario {
	return Scenario{
		Seed: seed, Processes: h.Config.Processes, Executions: h.Config.Executions,
		// Deployments use both settings.
		Remote: h.Config.Remote || sim.Choice(seed, "remote")%2 == 1,
	}
}

// reduced reduces most scenarios to one process and local computation. This suffices for a
// document that does one thing after another, without faults.
func (sc Scenario) reduced(remote bool) Scenario {
	const most = 16 // all but one in most
	if sim.Choice(sc.Seed, "alone")%most != 0 {
		sc.Processes = 1
	}
	sc.Remote = remote || sim.Choice(sc.Seed, "remote")%most == 1
	return sc
}

// withOthers makes the executions of some seeds run in two tenants concurrently. It adds
// an execution if there is only one.
func (h *searchState) withOthers(sc Scenario) Scenario {
	const once = 8
	if sim.Choice(sc.Seed, "tenants")%once == 1 && h.allowsSecondTenant() {
		sc.Tenants, sc.Executions = 2, max(sc.Executions, 2) //nolint:mnd // one execution per tenant
		sc.Twins = sim.Choice(sc.Seed, "twins")%2 == 1
	}
	return sc
}

// waiting makes the timer services of some scenarios block in their reads for longer than
// most timers last, without other faults, so that a timer they do not know of is late.
func (h *searchState) waiting(sc Scenario) Scenario {
	const once = 12
	if sim.Choice(sc.Seed, "waits")%once == 1 {
		sc.Waits, sc.chance = 4*h.baseline.lasts+time.Hour, nil
	}
	return sc
}

// besides returns the scenario of a single fault, in some cases with a second tenant.
func (h *searchState) besides(sc Scenario, f sim.Fault) Scenario {
	const once = 16
	if n := sim.Draw(sc.Seed, "tenants "+string(f.Kind)+" "+f.Service, f.Command); n%once == 1 && h.allowsSecondTenant() {
		sc.Tenants, sc.Executions = 2, max(sc.Executions, 2) //nolint:mnd // one execution per tenant
		sc.Twins = n/once%2 == 1
	}
	return sc
}

// allowsSecondTenant reports whether executions may run in a second tenant: not if they all share
// mock state.
func (h *searchState) allowsSecondTenant() bool { return !h.Config.Mocks.Shared() }

// inOrder reports whether everything that happens to an execution follows from what
// happened to it before: nothing runs in parallel, is emitted or comes from outside, and
// the executions are independent.
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

// How long single faults last: freezes last longer than a lease.
const (
	singleDelay  = 45 * time.Second
	singleAway   = 5 * time.Minute
	singleOutage = 20 * time.Second
	singleJump   = 60 * time.Second
)

// singles returns the scenarios with one fault: each kind at each command of the first
// run, or an even selection of h.Singles of them.
func (h *searchState) singles() iter.Seq[Scenario] {
	all := h.singleCount()
	return func(yield func(Scenario) bool) {
		n := 0
		for f := range h.everyFault() {
			// Take the n-th where the even spread passes the next whole number.
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

func (h *searchState) singleCount() int {
	n := 0
	for range h.everyFault() {
		n++
	}
	return n
}

// everyFault returns each kind of fault at each command and each call. All kinds at one
// place come together, so a search that is stopped early has tried some of each kind.
func (h *searchState) everyFault() iter.Seq[sim.Fault] {
	inside := slices.DeleteFunc(slices.Clone(h.Kinds), func(k sim.FaultKind) bool { return k == sim.CallLost })
	return func(yield func(sim.Fault) bool) {
		if len(inside) < len(h.Kinds) && !faultsAt(h.calls, []sim.FaultKind{sim.CallLost}, yield) {
			return
		}
		faultsAt(h.commands, inside, yield)
	}
}

// faultsAt yields faults of some kinds at each place. It returns false if yield does.
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

// each returns the numbers of the commands of each service, counted from 1.
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

// single returns how long, or how far, a single fault goes.
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
