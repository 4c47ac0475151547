package search_test

import (
	"testing"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

const lostUpdate = `do:
  - both:
      fork:
        branches:
          - one: &add
              do:
                - read: {call: http, with: {method: get, endpoint: "https://shop.example/stock"}}
                - write: {call: http, with: {method: put, endpoint: "https://shop.example/stock", body: {n: "${ .n + 1 }"}}}
          - two: *add
  - end: {call: http, with: {method: get, endpoint: "https://shop.example/stock"}}
`

// Two branches that read, add and write lose an update if their calls interleave.
func TestSearchFindsALostUpdate(t *testing.T) {
	t.Parallel()
	r := look(t, lostUpdate, `http: [{match: {url: "https://shop.example/stock"}, keep: {n: 0}}]`, search.Search{Last: 50})
	if len(r.Outcomes) != 2 || len(r.Findings) != 1 {
		t.Fatalf("outcomes %v, findings %v", r.Outcomes, r.Findings)
	}
	if rarer := r.Outcomes[1].Runs; rarer < r.Plain/5 {
		t.Errorf("%d of %d runs have the rarer outcome", rarer, r.Plain)
	}
	f := r.Findings[0]
	if f.Class != search.Race || f.Task != "/do/0/both" || f.Orders == nil {
		t.Errorf("%s %v %s", f.Class, f.Violation, f.Task)
	}
}

// Calls with equal latencies interleave in the same way each time, unless a fault delays
// one of them: then another update is lost, which is a race, too.
func TestSearchFindsAnOrderOfCalls(t *testing.T) {
	t.Parallel()
	r := look(t, lostUpdate,
		`http: [{match: {url: "https://shop.example/stock"}, keep: {n: 0}, respond: [{latency: PT0.1S}]}]`,
		search.Search{Kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.Delay, sim.Clock}, Singles: 50, Last: 250})
	if len(r.Outcomes) != 1 || len(r.Findings) == 0 {
		t.Errorf("%d outcomes, %d findings", len(r.Outcomes), len(r.Findings))
	}
	for _, f := range r.Findings {
		if f.Class != search.Race {
			t.Errorf("%s: %v", f.Class, f.Violation)
		}
	}
}
