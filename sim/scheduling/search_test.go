package scheduling_test

import (
	"context"
	"encoding/json"
	"testing"

	"flunq.io/flunq/sim/scheduling"
)

// A finding is reduced to the faults and the events that it needs, and its plan repeats it.
func TestSearchReducesFindings(t *testing.T) {
	t.Parallel()
	search := scheduling.Search{First: 30, Last: 60, Singles: 1, FailFast: true, Mistake: scheduling.Mistake{NoReconciler: true}}
	report, err := search.Run(t.Context())
	if err != nil || len(report.Findings) != 1 || !report.Stopped {
		t.Fatalf("%d findings, %v", len(report.Findings), err)
	}
	f := report.Findings[0]
	if n := len(f.Small.Faults); n == 0 || n >= len(f.Seen.Faults) || len(f.Small.Events) >= f.Trial.Setting.Events {
		t.Errorf("reduced to %v and %v, from %v", f.Small.Events, f.Small.Faults, f.Seen.Faults)
	}
	text, err := json.Marshal(f.Small)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := scheduling.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := search.Repeat(t.Context(), plan)
	if err != nil || len(again.Findings) != 1 || again.Findings[0].Violation != f.Violation {
		t.Errorf("the plan %s finds %v, %v, want %v", text, again.Findings, err, f.Violation)
	}
	right := scheduling.Search{}
	if fine, err := right.Repeat(t.Context(), plan); err != nil || len(fine.Findings) > 0 {
		t.Errorf("without the mistake it finds %v, %v", fine.Findings, err)
	}
}

// A search gives the same report on any number of cores.
func TestSearchIsDeterministic(t *testing.T) {
	t.Parallel()
	var traces []uint64
	for _, parallel := range []int{1, 3} {
		search := scheduling.Search{First: 1, Last: 6, Singles: 6, Parallel: parallel}
		report, err := search.Run(t.Context())
		if err != nil || report.Singles != 6 || report.Seeds != 6 || report.Plain != 6 {
			t.Fatalf("%+v, %v", report, err)
		}
		traces = append(traces, report.Trace)
	}
	if traces[0] != traces[1] {
		t.Errorf("the runs have the traces %x", traces)
	}
}

// A search whose context ends while runs are in progress says that it has stopped.
func TestSearchStops(t *testing.T) {
	t.Parallel()
	for range 20 { // which run notices it is left to chance
		ctx, stop := context.WithCancel(t.Context())
		more := func() bool { stop(); return true } // called after the search has examined the context
		search := scheduling.Search{First: 1, Last: 3, More: more}
		if report, err := search.Run(ctx); !report.Stopped {
			t.Fatalf("%+v, %v, want a search that has stopped", report, err)
		}
	}
}
