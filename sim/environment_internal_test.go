package sim

import (
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

// A dead process makes no calls, whatever its services do until they find out.
func TestDeadProcessMakesNoCalls(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("charge.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: charge, version: '1.0.0'}
do:
  - charge: {call: http, with: {method: post, endpoint: "https://pay.example/charges"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(`
http: [{match: {method: POST}, respond: {body: {}}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for executor := range 4 {
		for command := uint64(1); command < 8; command++ {
			crash := Fault{CrashBefore, fmt.Sprintf("executor-sim-%d", executor), command, 1}
			cfg := Config{Definition: def, Mocks: mocks, Executors: 4, Plan: &Plan{Faults: []Fault{crash}}}
			tr, err := Try(t.Context(), cfg)
			if err != nil || len(tr.Broken) > 0 {
				t.Fatal(err, tr.Broken)
			}
			for _, call := range tr.Reached {
				if call.Faults == 1 && call.At.Equal(tr.Injected[0].At) {
					t.Errorf("%+v: a call at the moment of the crash", crash)
				}
			}
		}
	}
}

// A repeated call is answered no earlier than the first one, although the process that made
// the first one is gone.
func TestRepeatedCallTakesItsTime(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("ask.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: ask, version: '1.0.0'}
do:
  - ask:
      try: [{slow: {call: http, with: {method: get, endpoint: "https://slow.example/"}}}]
      catch:
        retry: {limit: {attempt: {count: 2, duration: PT5M}}}
        do: [{none: {set: {n: 0}}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(`
http: [{respond: {latency: PT10M, body: {n: 1}}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	repeated := false
	for seed := range uint64(3) {
		for command := uint64(1); command < 8; command++ {
			for _, service := range []string{"worker-sim-0", "executor-sim-0"} {
				away := Fault{StopRequested, service, command, time.Second}
				cfg := Config{Definition: def, Mocks: mocks, Seed: seed, Executors: 2, Processes: 2, Plan: &Plan{Faults: []Fault{away}}}
				tr, err := Try(t.Context(), cfg)
				if err != nil || len(tr.Broken) > 0 {
					t.Fatal(err, tr.Broken)
				}
				if got := string(tr.Output); got != `{"n":0}` {
					t.Errorf("seed %d, %+v: %s %s", seed, away, tr.Status, got)
				}
				for _, call := range tr.Reached {
					repeated = repeated || call.Times > 1
				}
			}
		}
	}
	if !repeated {
		t.Error("no call was repeated")
	}
}
