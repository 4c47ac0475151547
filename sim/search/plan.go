package search

import (
	"iter"
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// planner generates the scenarios of a search: the single faults, the seeds and the
// companions, some with operator actions and a second tenant.
type planner struct {
	*Search

	commands, calls map[string]uint64 // of the first run, by service
	baseline        baseline
	inOrder         bool // see inOrder
	drawn           int  // number of scenarios of the document so far, without the plain ones
}

func newPlanner(s *Search) *planner { return &planner{Search: s, inOrder: inOrder(s.Config)} }

// everySeed returns the scenarios of all seeds.
func (p *planner) everySeed() iter.Seq[Scenario] {
	return func(yield func(Scenario) bool) {
		for seed := p.First; ; seed++ {
			sc := p.scenario(seed)
			if sc.random = p.Kinds; len(p.Kinds) == 0 && p.inOrder {
				sc = sc.reduced(p.Config.Remote)
			} else {
				sc = p.withSecondTenant(sc, sim.Choice(seed, "tenants")%tenantsEvery == 1, sim.Choice(seed, "twins")%2 == 1)
				sc = p.operated(p.waiting(sc))
			}
			if !yield(sc) || seed == p.Last {
				return
			}
		}
	}
}

// scenario returns the scenario of a seed without faults.
func (p *planner) scenario(seed uint64) Scenario {
	return Scenario{
		Seed: seed, Processes: p.Config.Processes, Executions: p.Config.Executions,
		// Deployments use both settings of Remote.
		Remote:  p.Config.Remote || sim.Choice(seed, "remote")%2 == 1,
		Cluster: sim.Choice(seed, "cluster")%clusterEvery == 1,
	}
}

// One seed in clusterEvery is on a Redis Cluster, and one in tenantsEvery has two tenants.
const (
	clusterEvery = 8
	tenantsEvery = 8
)

// reduced reduces most scenarios to one process and local computation. Without faults, this
// suffices for a document that does one thing after another.
func (sc Scenario) reduced(remote bool) Scenario {
	const rare = 16 // one in this many
	if sim.Choice(sc.Seed, "alone")%rare != 0 {
		sc.Processes = 1
	}
	sc.Remote = remote || sim.Choice(sc.Seed, "remote")%rare == 1
	return sc
}

// withSecondTenant makes the executions of a scenario run in two tenants if wanted, perhaps with the
// same ids. It adds an execution if there is only one.
func (p *planner) withSecondTenant(sc Scenario, wanted, twins bool) Scenario {
	if wanted && p.allowsSecondTenant() {
		sc.Tenants, sc.Executions, sc.Twins = 2, max(sc.Executions, 2), twins // one execution per tenant
	}
	return sc
}

// waiting makes the timer services of some scenarios block in their reads for longer than most
// timers last, without faults, so a timer that they do not know of is late.
func (p *planner) waiting(sc Scenario) Scenario {
	const once = 12
	if sim.Choice(sc.Seed, "waits")%once == 1 {
		sc.Waits, sc.random, sc.Cluster = 4*p.baseline.lasts+time.Hour, nil, false // nothing blocks on a cluster
	}
	return sc
}

// inOrder reports whether everything that happens to an execution follows from what
// happened to it before: nothing runs in parallel, is emitted or comes from outside, and
// the executions are independent.
func inOrder(cfg sim.Config) bool {
	if cfg.Executions > 1 && sim.CallsOut(cfg.Definition) || len(cfg.With) > 0 || cfg.Definition.Timeout != nil || cfg.Mocks != nil && len(cfg.Mocks.Events) > 0 {
		return false
	}
	return !sim.HasTask(cfg.Definition, func(t *dsl.Task) bool {
		return t.Timeout != nil || slices.Contains([]dsl.Kind{dsl.Fork, dsl.Listen, dsl.Emit, dsl.Run}, t.Kind)
	})
}

// singles returns the scenarios with one fault: each kind at each command of the first run, or
// Search.Singles of them, evenly spread.
func (p *planner) singles() iter.Seq[Scenario] {
	all := p.singleCount()
	return func(yield func(Scenario) bool) {
		n := 0
		for f := range p.everyFault() {
			// Take a fault whenever the even spread reaches the next integer.
			taken := all <= p.Singles || n*p.Singles/all != (n+1)*p.Singles/all
			n++
			if !taken {
				continue
			}
			draw := sim.Draw(p.First, "tenants "+string(f.Kind)+" "+f.Service, f.Command)
			const every = 2 * tenantsEvery
			sc := p.withSecondTenant(p.scenario(p.First), draw%every == 1, draw/every%2 == 1)
			sc.Faults = []sim.Fault{f}
			if !yield(sc) {
				return
			}
		}
	}
}

func (p *planner) singleCount() (n int) {
	for range p.everyFault() {
		n++
	}
	return n
}

// everyFault returns each kind of fault at each call and each command. All kinds at one place
// come together, so a search that is stopped early has tried some of each kind.
func (p *planner) everyFault() iter.Seq[sim.Fault] {
	isCall := func(k sim.FaultKind) bool { return k == sim.CallLost }
	atCommands := slices.DeleteFunc(slices.Clone(p.Kinds), isCall)
	atCalls := slices.DeleteFunc(slices.Clone(p.Kinds), func(k sim.FaultKind) bool { return !isCall(k) })
	return func(yield func(sim.Fault) bool) {
		for _, at := range []struct {
			counts map[string]uint64 // by service
			kinds  []sim.FaultKind
		}{{p.calls, atCalls}, {p.commands, atCommands}} {
			for _, service := range slices.Sorted(maps.Keys(at.counts)) {
				for n := range at.counts[service] {
					for _, kind := range at.kinds {
						if !yield(sim.Fault{Kind: kind, Service: service, Command: n + 1, Amount: kind.Single()}) {
							return
						}
					}
				}
			}
		}
	}
}

// withCompanions inserts companions between scenarios, each once in a search.
func (p *planner) withCompanions(scenarios iter.Seq[Scenario]) iter.Seq[Scenario] {
	if len(p.Kinds) == 0 {
		return scenarios // the search is for races only
	}
	return func(yield func(Scenario) bool) {
		for sc := range scenarios {
			if p.drawn%companionEvery == 0 {
				if companion, ok := companionScenario(p.drawn / companionEvery); ok && !yield(companion) {
					return
				}
			}
			if p.drawn++; !yield(sc) {
				return
			}
		}
	}
}

// companionEvery is the number of runs between two companions, which are runs of the
// simulator's own workflows with known results. Companions exercise parts of the engine that
// the document does not use; their findings are never the document's fault.
const companionEvery = 40

// baseline describes a run without faults, for planning operator actions in other runs.
type baseline struct {
	lasts      time.Duration
	executions []string // ids of its executions
	begun      uint64   // number of messages
}

func baselineOf(t *sim.Trial) baseline {
	s := baseline{lasts: t.Lasted(), begun: t.Operated.Begun}
	for _, end := range t.Ends {
		s.executions = append(s.executions, end.ID)
	}
	return s
}

// operated adds to some scenarios with faults: operator actions, a poison message, or
// slow calls. Half of these scenarios have no random faults.
func (p *planner) operated(sc Scenario) Scenario {
	const once = 8
	if len(p.Kinds) == 0 || len(p.baseline.executions) == 0 || sim.Choice(sc.Seed, "operated")%once != 1 {
		return sc
	}
	n := sim.Choice(sc.Seed, "deals")
	if n%2 == 0 {
		sc.random = nil
	}
	n >>= 8
	switch way := n % 3; {
	case way == 0 && p.baseline.begun > 0:
		sc.Poison, sc.Waits, sc.random = 1+(n>>8)%p.baseline.begun, 0, p.besidePoison(n>>40)
		return sc
	case way == 1 && len(p.calls) > 0:
		sc.Slow = true
		sc.random = slices.DeleteFunc(slices.Clone(sc.random), func(k sim.FaultKind) bool { return k != sim.DropRequest && k != sim.DropReply })
		return sc
	}
	if sc.random != nil { // a repeated request counts as a new one if another came in between
		sc.random = slices.DeleteFunc(slices.Clone(sc.random), func(k sim.FaultKind) bool { return k == sim.Duplicate })
	}
	sc.Acts = p.acts(sc.Seed)
	return sc
}

// besidePoison returns the kinds of faults in a run with a poison message: none in half of the
// runs, since the crash of a process counts for every message that it is handling.
func (p *planner) besidePoison(n uint64) []sim.FaultKind {
	kinds := []sim.FaultKind{sim.DropRequest, sim.DropReply, sim.Delay}
	switch n % 4 {
	case 0:
		kinds = kinds[:2]
	case 1:
	default:
		return nil
	}
	return slices.DeleteFunc(kinds, func(k sim.FaultKind) bool { return !slices.Contains(p.Kinds, k) })
}

// acts returns the operator actions of a seed: suspend and resume an execution, cancel
// it, or a mixture.
func (p *planner) acts(seed uint64) []sim.Act {
	at := func(i uint64) time.Duration {
		n := sim.Draw(seed, "act", i)
		span := p.baseline.lasts + time.Second
		if n%4 == 0 { // some come immediately
			span = time.Second
		}
		return time.Duration(n>>8) % span // n>>8 is less than 2^56
	}
	of := p.baseline.executions[sim.Choice(seed, "acted upon")%uint64(len(p.baseline.executions))]
	if sim.Choice(seed, "acted upon first")%2 == 0 {
		of = p.baseline.executions[0]
	}
	n := sim.Choice(seed, "act")
	if n>>60%2 == 0 { // one half is about timers and documents
		var acts []sim.Act
		kinds := []sim.ActKind{sim.Move, sim.Move, sim.Fire, sim.CancelTimer, sim.Migrate, sim.Migrate, sim.Suspend, sim.Retry}
		for i := range 1 + n%4 {
			acts = append(acts, sim.Act{What: kinds[(n>>(8*i+8))%uint64(len(kinds))], Execution: of, After: at(2 + i)})
		}
		return acts
	}
	acts := []sim.Act{{What: sim.Suspend, Execution: of, After: at(0)}, {What: sim.Resume, Execution: of, After: at(0) + at(1)}}
	switch n % 4 {
	case 0:
		acts = []sim.Act{{What: sim.Cancel, Execution: of, After: at(0)}}
	case 1:
		kinds := []sim.ActKind{sim.Suspend, sim.Resume, sim.Suspend, sim.Resume, sim.Cancel, sim.Retry}
		for i := range uint64(3) {
			acts = append(acts, sim.Act{What: kinds[(n>>(8*i+8))%uint64(len(kinds))], Execution: of, After: at(2 + i)})
		}
	}
	return acts
}
