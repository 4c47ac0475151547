package workload

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

func everyMessageConfig() sim.Config { return varied(everyMessage, 0) }

// Whichever message crashes processes, it is dead-lettered once, and its execution ends, as
// does an execution that waits for it.
func TestPoisonMessages(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		of := map[event.Type]int{}
		for n := uint64(1); ; n++ {
			got, wrong := runPoisoned(t, processes, n)
			if got.Operated.Crashes == 0 {
				break
			}
			if of[got.Operated.PoisonType]++; wrong != "" {
				t.Error(wrong)
			}
		}
		if len(of) < 6 || of[event.ExecutionStarted] < 3 {
			t.Errorf("%d processes crashed only on %v", processes, of)
		}
	}
}

// runPoisoned runs a simulation with a poison message, and returns what is wrong with it.
func runPoisoned(t *testing.T, processes int, n uint64) (got *sim.Trial, wrong string) {
	t.Helper()
	cfg := everyMessageConfig()
	cfg.Processes, cfg.Remote, cfg.Seed, cfg.Poison = processes, processes == 2, uint64(processes), n
	got = tried(t, cfg, sim.Plan{})
	over := got.Ends[0].Status.Ended() || got.Operated.Retried["x"] > 0 || got.Operated.PoisonType == "com.example.x"
	if len(got.Broken) > 0 || !over {
		wrong = fmt.Sprintf("%d processes crash on message %d, %s: %s %v", processes, n, got.Operated.PoisonType, got.Ends[0].Status, got.Broken)
	}
	return got, wrong
}

// Whenever an operator suspends and resumes an execution, its output stays the same; and
// whenever an operator cancels it, it ends.
func TestOperatorsActAtAnyTime(t *testing.T) {
	t.Parallel()
	if wrong := suspendedAndCancelled(t); wrong != "" {
		t.Error(wrong)
	}
}

// suspendedAndCancelled returns what is wrong in runs with operator actions.
func suspendedAndCancelled(t *testing.T) string {
	t.Helper()
	plain := tried(t, everyMessageConfig(), sim.Plan{})
	var moments []time.Duration
	for _, end := range plain.Ends {
		for _, e := range end.History {
			at := e.Time.Sub(sim.Epoch())
			moments = append(moments, at, at+time.Second)
		}
	}
	slices.Sort(moments)
	for i, at := range slices.Compact(moments) {
		for _, of := range []string{"x", "x.1"} {
			cfg := everyMessageConfig()
			cfg.Seed, cfg.Remote = uint64(i), i%2 == 1
			cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at}, {What: sim.Resume, Execution: of, After: at + 30*time.Hour}}
			if i%3 == 0 { // attend finds it suspended at the end and resumes it
				cfg.Acts = cfg.Acts[:1]
			}
			if got := tried(t, cfg, sim.Plan{}); len(got.Broken) > 0 || got.Outcome != plain.Outcome {
				return fmt.Sprintf("%s is suspended after %v: %s %s %v", of, at, got.Status, got.Output, got.Broken)
			}
			cfg.Acts = []sim.Act{{What: sim.Cancel, Execution: of, After: at}}
			if i%3 == 1 { // it is suspended by then
				cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at - min(at, time.Millisecond)}, {What: sim.Cancel, Execution: of, After: at}}
			}
			got := tried(t, cfg, sim.Plan{})
			last := got.Ends[0].History[len(got.Ends[0].History)-1].Time.Sub(sim.Epoch())
			if len(got.Broken) > 0 || of == "x" && at < plain.Lasted() && (got.Status != decide.Cancelled || last > at+time.Second) {
				return fmt.Sprintf("%s is cancelled after %v: %s %v", of, at, got.Status, got.Broken)
			}
		}
	}
	return ""
}

// inEveryMessage marks mutants that runs of everyMessage find, with operator actions or poison
// messages.
const inEveryMessage = everyMessage

func lookAtEveryMessage(t *testing.T) string {
	if wrong := suspendedAndCancelled(t); wrong != "" {
		return wrong
	}
	for processes := range 2 {
		for n := uint64(1); ; n++ {
			got, wrong := runPoisoned(t, processes+1, n)
			if wrong != "" {
				return wrong
			}
			if got.Operated.Crashes == 0 {
				break
			}
		}
	}
	return ""
}

// Whatever operators do to timers and documents, and whatever other programs do to
// histories, the executions end as they would otherwise, or time out.
func TestOperatorsChangeTimers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{changedName, damagedName} {
		for seed := range uint64(12) {
			c, err := newCompanion(name, seed)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sim.Try(t.Context(), c.Config)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range c.wrong(got) {
				t.Errorf("%s, seed %d: %s", name, seed, wrong)
			}
		}
	}
}
