package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
)

// An execution that has ended of an event which nobody can read has left one letter of
// it, whichever request or reply is lost, and whoever dies or stands still.
func TestLettersOfEverySingleFault(t *testing.T) {
	t.Parallel()
	const name = "an execution of which an event cannot be read ends"
	l := workloads()[slices.IndexFunc(workloads(), func(l workload) bool { return l.name == name })]
	for _, kind := range []FaultKind{DropRequest, DropReply, CrashBefore, CrashAfter, Duplicate, Delay, Outage, Clock, ToldToStop} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ended := map[string]int{}
			for seed := range uint64(4) {
				cfg := l.config(t)
				cfg.Seed, cfg.Remote, cfg.Processes = seed, seed%2 == 1, 1+int(seed/2)
				plain := try(t, cfg, Plan{})
				for _, service := range slices.Sorted(maps.Keys(plain.Commands)) {
					for n := range plain.Commands[service] {
						f := Fault{kind, service, n + 1, 45 * time.Second}
						got := try(t, cfg, Plan{Faults: []Fault{f}})
						ended[string(got.Ends[1].Status)]++
						if wrong := lettered(l, got, kind); len(wrong) > 0 {
							t.Errorf("seed %d, %v: %s", seed, f, strings.Join(wrong, "\n"))
						}
					}
				}
			}
			if t.Logf("it ended %v", ended); ended["faulted"] < ended["completed"] {
				t.Error("mostly the answer was faster")
			}
		})
	}
}

// lettered says what is wrong with a trial of an execution that ends of an event, or
// else completes because its answer was faster. A copy of the event may come to a
// letter of its own, and so may one that somebody has in hand as the execution ends.
func lettered(l workload, got *Trial, kind FaultKind) []string {
	least, most := 1, 1
	if got.Ends[1].Status == decide.Completed {
		least, l.want = 0, map[string]string{"x": "completed", "x-2": "completed"}
	}
	if kind == Duplicate {
		most = 2
	}
	n := 0
	for _, v := range got.Broken {
		if v.Rule == ruleGiven {
			n++
		}
	}
	l.letters = slices.Repeat(l.letters, max(least, min(n, most)))
	return l.wrong(got)
}
