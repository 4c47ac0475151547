package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Scenario is one world that a search tries, and what goes wrong in it. As a file
// it repeats the run.
type Scenario struct {
	Seed       uint64  `json:"seed"`
	Processes  int     `json:"processes"`
	Executions int     `json:"executions"`
	Tenants    int     `json:"tenants,omitempty"`  // over which the executions are spread; one if 0
	Twins      bool    `json:"twins,omitempty"`    // these have executions of the same ids
	Remote     bool    `json:"remote,omitempty"`   // tasks that only compute go through the stream
	Thorough   bool    `json:"thorough,omitempty"` // nothing goes wrong, though it could: services look for what others may have left
	Acts       []Act   `json:"acts,omitempty"`     // of operators
	Deadly     uint64  `json:"deadly,omitempty"`   // of all messages that are begun with, the one that whoever does so dies of
	Slow       bool    `json:"slow,omitempty"`     // calls take longer than leases
	Faults     []Fault `json:"faults"`

	chance []FaultKind // besides
}

// writtenFault is a Fault as people read it.
type writtenFault struct {
	Kind    FaultKind `json:"kind"`
	Service string    `json:"service"`
	Command uint64    `json:"command"`
	Amount  string    `json:"amount,omitempty"`
}

// MarshalJSON writes a duration as Go does.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := writtenFault{Kind: f.Kind, Service: f.Service, Command: f.Command}
	if f.Amount > 0 {
		w.Amount = f.Amount.String()
	}
	return json.Marshal(w) //nolint:wrapcheck // strings and a number
}

// UnmarshalJSON reads it.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var w writtenFault
	if err := decodeStrictly(text, &w); err != nil {
		return fmt.Errorf("a fault: %w", err)
	}
	if !slices.Contains(Faults(), w.Kind) {
		return fmt.Errorf("a fault of kind %q: want one of %v", w.Kind, Faults())
	}
	*f = Fault{Kind: w.Kind, Service: w.Service, Command: w.Command}
	if w.Amount == "" {
		return nil
	}
	var err error
	if f.Amount, err = time.ParseDuration(w.Amount); err != nil || f.Amount < 0 {
		return fmt.Errorf("a fault's amount %q: want one such as 45s", w.Amount)
	}
	return nil
}

// The most of what a file may ask for.
const (
	mostProcesses  = 64
	mostExecutions = 10_000
	mostTenants    = 1_000
)

// ParseScenario reads what a Scenario is written as.
func ParseScenario(text []byte) (Scenario, error) {
	sc := Scenario{Processes: 1, Executions: 1}
	if err := decodeStrictly(text, &sc); err != nil {
		return sc, fmt.Errorf("read the plan: %w", err)
	}
	if sc.Processes < 1 || sc.Processes > mostProcesses || sc.Executions < 1 || sc.Executions > mostExecutions {
		return sc, fmt.Errorf("read the plan: %d processes and %d executions, want 1 to %d and 1 to %d",
			sc.Processes, sc.Executions, mostProcesses, mostExecutions)
	}
	if sc.Tenants < 0 || sc.Tenants > mostTenants {
		return sc, fmt.Errorf("read the plan: %d tenants, want 1 to %d", sc.Tenants, mostTenants)
	}
	return sc, nil
}

// decodeStrictly reads JSON that has no members but known ones, and nothing behind it.
func decodeStrictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err //nolint:wrapcheck // whoever asks says of what
	}
	if dec.More() {
		return errors.New("there is more than one value")
	}
	return nil
}

// Config is cfg made to simulate the scenario.
func (sc Scenario) Config(cfg Config) Config {
	cfg.Seed, cfg.Processes, cfg.Executions, cfg.Tenants, cfg.Remote = sc.Seed, sc.Processes, sc.Executions, sc.Tenants, sc.Remote
	cfg.Twins, cfg.Acts, cfg.Deadly, cfg.Slow = sc.Twins, sc.Acts, sc.Deadly, sc.Slow
	cfg.Plan, cfg.thorough = &Plan{Faults: sc.Faults, Kinds: sc.chance}, sc.Thorough
	return cfg
}

// try runs a scenario.
func (s *Search) try(ctx context.Context, sc Scenario) (*Trial, error) {
	cfg := sc.Config(s.Config)
	cfg.Plan.Rate = s.Rate
	return Try(ctx, cfg)
}

// explicit is the scenario with the faults that struck instead of chance.
func (sc Scenario) explicit(struck []Struck) Scenario {
	if len(struck) == 0 && len(sc.chance)+len(sc.Faults) > 0 {
		sc.Thorough = true
	}
	sc.chance, sc.Faults = nil, []Fault{}
	for _, s := range struck {
		sc.Faults = append(sc.Faults, s.Fault)
	}
	return sc
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
