package sim

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

// Without faults, unacknowledged events are not renewed while the execution only waits.
func TestNothingToRenew(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("wait.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: wait, version: '1.0.0'}
do:
  - ask: {call: http, with: {method: get, endpoint: "https://a.example"}}
  - rest: {wait: P30D}
  - again: {call: http, with: {method: get, endpoint: "https://a.example"}}
  - hear: {listen: {to: {one: {with: {type: com.never}}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(`
http: [{match: {url: "https://a.example"}, respond: {latency: PT1M, body: {}}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		for _, plan := range []*Plan{nil, {}} {
			for _, remote := range []bool{false, true} {
				cfg := Config{Definition: def, Mocks: mocks, Seed: seed, Plan: plan, Remote: remote, MaxTurns: 1000}
				if r, err := Run(t.Context(), cfg); err != nil || r.Stop != Never || r.Status != "waiting" {
					t.Errorf("seed %d: it ends as %s, since %q, want waiting forever: %v", seed, r.Status, r.Stop, err)
				}
			}
		}
	}
}
