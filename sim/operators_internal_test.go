package sim

import (
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// crowded has all that messages are about: calls, timers, events, children, and what
// goes on beside them.
func crowded(t *testing.T) Config {
	t.Helper()
	return workload{
		document: `
do:
  - all:
      fork:
        branches:
          - a: {do: [{rest: {wait: P1D}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: P9D}}}]}
          - b: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - c: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - d: {try: [{none: {run: {workflow: {namespace: test, name: none, version: '1.0.0', input: {}}}}}], catch: {do: [{end: {set: {n: 4}}}]}}
  - end: {set: "${ [.[0].n, .[1].n, .[2][0], .[3].n] }"}
`,
		with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: PT5H}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
`},
		mocks: `
http: [{respond: {latency: PT3S, body: {n: 3}}}]
events: [{after: P12D, type: com.example.x, source: /x, data: 5}]
`,
	}.config(t)
}

// Whichever message processes die of, it is given up, once, and its execution ends: and
// so does one that waits for it.
func TestWhateverProcessesDieOf(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		cfg := crowded(t)
		cfg.Processes, cfg.Remote = processes, processes == 2
		cfg.Seed = uint64(processes)
		of := map[event.Type]int{}
		for n := uint64(1); ; n++ {
			cfg.Deadly = n
			got := try(t, cfg, Plan{})
			if got.deaths == 0 {
				break
			}
			of[got.killer]++
			if len(got.Broken) > 0 || !got.Ends[0].Status.Ended() && got.retried["x"] == 0 && got.killer != "com.example.x" {
				t.Errorf("%d processes, message %d, %s: %s %v", processes, n, got.killer, got.Ends[0].Status, got.Broken)
			}
		}
		if len(of) < 6 || of[event.ExecutionStarted] < 3 {
			t.Errorf("%d processes: they died of %v only", processes, of)
		}
	}
}

// Whenever an operator lets an execution rest, and go on, it comes to the same; and
// whenever it is cancelled it ends.
func TestWheneverOperatorsAct(t *testing.T) {
	t.Parallel()
	plain := try(t, crowded(t), Plan{})
	var moments []time.Duration
	for _, end := range plain.Ends {
		for _, e := range end.History {
			at := e.Time.Sub(Epoch())
			moments = append(moments, at, at+time.Second)
		}
	}
	slices.Sort(moments)
	for i, at := range slices.Compact(moments) {
		for _, of := range []string{"x", "x.1"} {
			cfg := crowded(t)
			cfg.Seed, cfg.Remote = uint64(i), i%2 == 1
			cfg.Acts = []Act{{Suspend, of, at}, {Resume, of, at + 30*time.Hour}}
			if i%3 == 0 { // whoever looks after it finds that it rests
				cfg.Acts = cfg.Acts[:1]
			}
			if got := try(t, cfg, Plan{}); len(got.Broken) > 0 || got.Outcome != plain.Outcome {
				t.Errorf("%s rests after %v: %s %s %v", of, at, got.Status, got.Output, got.Broken)
			}
			cfg.Acts = []Act{{Cancel, of, at}}
			got := try(t, cfg, Plan{})
			last := got.Ends[0].History[len(got.Ends[0].History)-1].Time.Sub(Epoch())
			if len(got.Broken) > 0 || of == "x" && at < plain.lasted() && (got.Status != decide.Cancelled || last > at+time.Second) {
				t.Errorf("%s is cancelled after %v: %s %v", of, at, got.Status, got.Broken)
			}
		}
	}
}
