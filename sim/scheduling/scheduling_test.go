package scheduling_test

import (
	"flag"
	"testing"

	"flunq.io/flunq/sim/scheduling"
)

// seeds is the number of seeds that TestSeeds tries.
var seeds = flag.Uint64("seeds", 20, "number of seeds")

// The scheduler keeps its promises, whatever goes wrong.
func TestSeeds(t *testing.T) {
	t.Parallel()
	published, faults := 0, 0
	for seed := range *seeds {
		for _, random := range []bool{false, true} {
			r, err := scheduling.Try(t.Context(), scheduling.Plan{Seed: seed, Random: random}, scheduling.Mistake{})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Broken {
				t.Errorf("seed %d, random faults %v: %v", seed, random, v)
			}
			published += r.Published
			faults += len(r.Injected)
		}
	}
	if published == 0 || faults == 0 {
		t.Errorf("%d events were published, with %d faults", published, faults)
	}
}

// The same plan gives the same run, even if its random faults are listed explicitly.
func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		try := func(p scheduling.Plan) *scheduling.Trial {
			r, err := scheduling.Try(t.Context(), p, scheduling.Mistake{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := try(scheduling.Plan{Seed: seed, Random: true})
		listed := scheduling.Plan{Seed: seed, Faults: first.Injected}
		for _, p := range []scheduling.Plan{{Seed: seed, Random: true}, {Seed: seed, Random: true, Story: true}, listed} {
			if again := try(p); again.Trace != first.Trace {
				t.Errorf("seed %d: the run has the trace %s and %s, with %+v", seed, first.Trace, again.Trace, p)
			}
		}
	}
}
