package search

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/explore"
)

// maxTries bounds the number of runs for shrinking one failure.
const maxTries = 400

// shrinking reduces the run of one failure.
type shrinking struct {
	*Search

	check     *checker
	signature string
	tries     int
	err       error
}

// fails reports whether a scenario fails in the same way. It returns false once maxTries
// is reached.
func (s *shrinking) fails(ctx context.Context, sc Scenario) bool {
	if s.tries >= maxTries || s.err != nil {
		return false
	}
	s.tries++
	t, err := s.try(ctx, sc, nil)
	if err != nil {
		s.err = err
		return false
	}
	return slices.ContainsFunc(s.check.failuresOf(t, sc), func(f failure) bool { return sc.signature(f) == s.signature })
}

// smaller reduces the size of a failing scenario, and then its faults. Unless maxTries is
// reached, each remaining fault is necessary for the failure.
func (s *shrinking) smaller(ctx context.Context, sc Scenario) Scenario {
	if sc.Companion != "" { // its size is fixed
		sc.Faults = s.fewer(ctx, sc)
		return sc
	}
	for _, n := range halves(sc.Executions) {
		if s.together() {
			break // the outcomes are known for this number only
		}
		less := sc
		if less.Executions = n; s.fails(ctx, less) {
			sc = less
			break
		}
	}
	if sc.Tenants > 1 {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Tenants, sc.Twins = 0, false })
	}
	if sc.Twins {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Twins = false })
	}
	for n := 1; n < sc.Processes; n++ {
		less := sc
		if less.Processes = n; s.fails(ctx, less) {
			sc = less
			break
		}
	}
	sc.Faults = s.fewer(ctx, sc)
	sc = s.withoutIntervention(ctx, sc)
	if sc.Remote && !s.Config.Remote {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Remote = false })
	}
	if sc.Thorough {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Thorough = false })
	}
	return sc
}

// withoutIntervention removes a poison message, slow calls, blocking reads and operator
// actions.
func (s *shrinking) withoutIntervention(ctx context.Context, sc Scenario) Scenario {
	if sc.Poison > 0 {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Poison = 0 })
	}
	if sc.Slow {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Slow = false })
	}
	if sc.Waits > 0 {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Waits = 0 })
	}
	for i := range slices.Backward(sc.Acts) {
		sc = s.without(ctx, sc, func(sc *Scenario) { sc.Acts = slices.Delete(slices.Clone(sc.Acts), i, i+1) })
	}
	return sc
}

// without returns a scenario without a part if it still fails then, or else unchanged.
func (s *shrinking) without(ctx context.Context, sc Scenario, remove func(*Scenario)) Scenario {
	less := sc
	if remove(&less); s.fails(ctx, less) {
		return less
	}
	return sc
}

// halves returns 1, 2, 4 … below n.
func halves(n int) []int {
	var out []int
	for k := 1; k < n; k *= 2 {
		out = append(out, k)
	}
	return out
}

// fewer removes faults by delta debugging.
func (s *shrinking) fewer(ctx context.Context, sc Scenario) []sim.Fault {
	with := func(f []sim.Fault) bool {
		less := sc
		less.Faults = f
		return s.fails(ctx, less)
	}
	return shorter(explore.Fewer(sc.Faults, with), with)
}

// shorter reduces the durations of faults to round ones.
func shorter(faults []sim.Fault, with func([]sim.Fault) bool) []sim.Fault {
	for i := range faults {
		if faults[i].Amount == 0 {
			continue
		}
		for _, amount := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, 45 * time.Second} {
			if amount >= faults[i].Amount {
				break
			}
			less := slices.Clone(faults)
			if less[i].Amount = amount; with(less) {
				faults = less
				break
			}
		}
	}
	return faults
}
