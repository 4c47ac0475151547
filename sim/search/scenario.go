package search

import (
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/workload"
)

// Scenario is one simulation of a search with its faults. Its JSON form is the plan file that
// repeats the run.
type Scenario struct {
	Seed       uint64        `json:"seed"`
	Companion  string        `json:"companion,omitempty"` // one of the simulator's own workflows, instead of the document
	Processes  int           `json:"processes"`
	Executions int           `json:"executions"`
	Tenants    int           `json:"tenants,omitempty"`  // number of tenants that share the executions; one if 0
	Cluster    bool          `json:"cluster,omitempty"`  // the keys and rules of a Redis Cluster
	Twins      bool          `json:"twins,omitempty"`    // each tenant has executions with the same ids
	Remote     bool          `json:"remote,omitempty"`   // computed tasks go through the stream
	Thorough   bool          `json:"thorough,omitempty"` // services look for abandoned work even without faults
	Acts       []sim.Act     `json:"acts,omitempty"`     // of operators
	Poison     uint64        `json:"deadly,omitempty"`   // number of the message that crashes each process that handles it
	Slow       bool          `json:"slow,omitempty"`     // calls take longer than leases
	Waits      time.Duration `json:"waits,omitempty"`    // how long timer services block in their reads, see sim.Config
	Faults     []sim.Fault   `json:"faults"`

	random []sim.FaultKind     // kinds of random faults, in addition to Faults
	built  *workload.Companion // the companion of that name and seed, once built
}

// The limits of what a plan file may ask for.
const (
	maxProcesses  = 64
	maxExecutions = 10_000
	maxTenants    = 1_000
)

// poisonRate is the rate of random faults in a run with a poison message, which concerns few
// commands.
const poisonRate = 20

// One in watchfulEvery seeds is Watchful, which takes time.
const watchfulEvery = 4

// ParseScenario reads a Scenario from JSON and checks its limits.
func ParseScenario(text []byte) (Scenario, error) {
	sc := Scenario{Processes: 1, Executions: 1}
	err := event.DecodeStrictly(text, &sc)
	if err == nil {
		err = sim.CheckKinds(sc.Faults, sim.Faults())
	}
	if err != nil {
		return sc, fmt.Errorf("read the plan: %w", err)
	}
	if sc.Processes < 1 || sc.Processes > maxProcesses || sc.Executions < 1 || sc.Executions > maxExecutions {
		return sc, fmt.Errorf("read the plan: %d processes and %d executions, want 1 to %d and 1 to %d",
			sc.Processes, sc.Executions, maxProcesses, maxExecutions)
	}
	if sc.Tenants < 0 || sc.Tenants > maxTenants {
		return sc, fmt.Errorf("read the plan: %d tenants, want 1 to %d", sc.Tenants, maxTenants)
	}
	if sc.Companion != "" {
		if _, err := workload.New(sc.Companion, sc.Seed); err != nil {
			return sc, fmt.Errorf("read the plan: %w", err)
		}
	}
	return sc, nil
}

// Config returns cfg, changed to simulate the scenario.
func (sc Scenario) Config(cfg sim.Config) sim.Config {
	if sc.Companion != "" {
		return sc.companionConfig()
	}
	cfg.Seed, cfg.Processes, cfg.Executions, cfg.Tenants, cfg.Remote = sc.Seed, sc.Processes, sc.Executions, sc.Tenants, sc.Remote
	cfg.Cluster, cfg.Twins, cfg.Acts, cfg.Poison, cfg.Slow, cfg.Waits = sc.Cluster, sc.Twins, sc.Acts, sc.Poison, sc.Slow, sc.Waits
	cfg.Plan, cfg.Thorough = &sim.Plan{Faults: sc.Faults, Kinds: sc.random}, sc.Thorough
	cfg.Watchful = sim.Choice(sc.Seed, "watchful")%watchfulEvery == 0
	return cfg
}

// explicit returns the scenario with the injected faults instead of random ones.
func (sc Scenario) explicit(injected []sim.InjectedFault) Scenario {
	if len(injected) == 0 && len(sc.random)+len(sc.Faults) > 0 {
		sc.Thorough = true
	}
	sc.random, sc.Faults = nil, []sim.Fault{}
	for _, s := range injected {
		sc.Faults = append(sc.Faults, s.Fault)
	}
	return sc
}

// intervened reports whether anything happens that is neither in the document nor a fault:
// operator actions, a poison message or slow calls.
func (sc Scenario) intervened() bool { return len(sc.Acts) > 0 || sc.Poison > 0 || sc.Slow }

// companionScenario returns companion number n.
func companionScenario(n int) (Scenario, bool) {
	name, seed, ok := workload.Nth(n)
	if !ok {
		return Scenario{}, false
	}
	sc := Scenario{Companion: name, Seed: seed}
	c := sc.companion()
	sc.built = c
	sc.Processes, sc.Executions, sc.random = c.Config.Processes, max(c.Config.Executions, 1), c.Config.Plan.Kinds
	return sc, true
}

// companion returns the companion that the scenario names, which must exist.
func (sc Scenario) companion() *workload.Companion {
	if sc.built != nil {
		return sc.built
	}
	c, err := workload.New(sc.Companion, sc.Seed)
	if err != nil {
		panic(fmt.Sprintf("search: %v", err))
	}
	return c
}

// signature returns the signature of a failure in a run of the scenario. A rule that several
// companions violate is one finding.
func (sc Scenario) signature(f failure) string {
	if sc.Companion != "" {
		return "companion " + f.Rule
	}
	return f.signature()
}

// companionConfig returns the configuration of a companion: with the faults of its seed,
// or with those of the scenario.
func (sc Scenario) companionConfig() sim.Config {
	cfg := sc.companion().Config
	cfg.Thorough = sc.Thorough
	if sc.random == nil {
		cfg.Plan = &sim.Plan{Faults: sc.Faults}
	}
	return cfg
}
