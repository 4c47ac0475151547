package sim

import (
	"fmt"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

// A dead process makes no calls, whatever its services do until they find out.
func TestTheDeadDoNotCall(t *testing.T) {
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
				if call.Faults == 1 && call.At.Equal(tr.Struck[0].At) {
					t.Errorf("%+v: a call at the moment of the crash", crash)
				}
			}
		}
	}
}
