// Package workload holds the simulator's own workflows, fixed and generated, with the results
// that they must have whatever faults happen.
package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// act is an event or an operator action that concerns an execution, and when it comes.
type act struct {
	execution string
	after     time.Duration
	typ       event.Type
	task      string
	data      any // event.Ended if nil

	moved  time.Duration // instead of an event: the new due time of the task's timers
	replay bool          // instead of an event: replay dead letters
}

// workload is a document that exercises rare cases of the engine, with the expected ends
// of its executions whatever faults happen.
type workload struct {
	name, document, mocks string
	input                 string // {} if empty
	with                  []string
	executions, tenants   int  // one each if 0
	twins                 bool // each tenant has executions with the same ids
	acts                  []act
	kinds                 []sim.FaultKind   // all but Outage if nil
	rate, seeds           uint64            // 60 and 120 if 0
	most                  int               // maximum number of faults; 8 if 0
	want                  map[string]string // by execution: its status, and optionally its output
	processes             int               // 2 if 0
	turns                 uint64            // maximum number of turns; 100,000 if 0
	lasts                 time.Duration     // without faults; 0: not checked
	once                  bool              // each call reaches its service once, whatever faults happen
	calls                 int               // number of calls without faults; 0: not checked
	deadLetters           []string          // expected dead letters: event, service and number of deliveries
	crashURL              string            // a URL whose callers crash
	crashType             event.Type        // a type of event whose consumers crash
	fires                 []string          // timers that fire for no execution: their key, and the day before they are due
	retention             *engine.Retention // depends on the seed if nil
	breakers              *breaker.Options
}

const day = 24 * time.Hour

// usualSeeds is the number of seeds that a workload runs with by default.
const usualSeeds = 120

func workloads() []workload {
	return append(slices.Concat(languageWorkloads(), featureWorkloads(), callWorkloads(), restWorkloads(), cornerWorkloads(), messageWorkloads()), []workload{
		{
			name: "an execution is suspended while its tasks end, and resumed",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {wait: P1D}
          - b: {do: [{one: {wait: P2D}}, {two: {set: {b: 1}}}]}
          - c: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - d: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: P20D}}
  - end: {set: "${ [.[1].b, .[2][0].n, .[3].n] }"}
`,
			mocks: `
http: [{respond: {latency: PT3S, body: {n: 3}}}]
events: [{after: P3D, type: com.example.x, source: /x, data: {n: 2}}]
`,
			acts: []act{{execution: "x", after: 12 * time.Hour, typ: event.ExecutionSuspended}, {execution: "x", after: 10 * day, typ: event.ExecutionResumed}},
			want: map[string]string{"x": `completed [1,2,3]`},
		},
		{
			name: "a child is cancelled with the losing branch",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P9D}}]
`},
			document: `
do:
  - first:
      fork:
        compete: true
        branches:
          - slow: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - fast: {wait: P1D}
  - second: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}, timeout: {after: P3D}}
`,
			want: map[string]string{"x": "faulted", "x.1": "cancelled", "x.2": "cancelled"},
		},
		{
			// Found by generated documents: the process that had read the start event crashed,
			// and the cancellation was dead-lettered before it could be delivered.
			name: "a child is cancelled before it starts",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P200D}}]
`},
			document: `
do:
  - first:
      fork:
        compete: true
        branches:
          - never: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - fast: {set: {n: 1}}
`,
			rate: 30, seeds: 300,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropReply, sim.Delay},
			want:  map[string]string{"x": `completed {"n":1}`, "x.1": "cancelled"},
		},
		{
			name: "an operator cancels an execution and its child",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P9D}}]
`},
			document: `
do:
  - slow: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
`,
			acts: []act{{execution: "x", after: 3 * day, typ: event.ExecutionCancelled}},
			want: map[string]string{"x": "cancelled", "x.1": "cancelled"},
		},
		{
			name: "each execution receives its own event once",
			document: `
do:
  - hear:
      listen:
        to:
          any:
            - with: {type: com.example.x}
              correlate: {who: {from: .data.for, expect: "${ $workflow.id }"}}
          until: length >= 2
  - end: {set: "${ map(.n) | sort }"}
`,
			mocks: `
events:
  - {after: P1D, type: com.example.x, source: /x, data: {for: x, n: 1}}
  - {after: P1D, type: com.example.x, source: /x, data: {for: x-2, n: 2}}
  - {after: P2D, type: com.example.x, source: /x, data: {for: x-3, n: 3}}
  - {after: P3D, type: com.example.x, source: /x, data: {for: x-3, n: 4}}
  - {after: P4D, type: com.example.x, source: /x, data: {for: x-2, n: 5}}
  - {after: P5D, type: com.example.x, source: /x, data: {for: x, n: 6}}
`,
			executions: 3, rate: 40, seeds: 200,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay},
			want:  map[string]string{"x": `completed [1,6]`, "x-2": `completed [2,5]`, "x-3": `completed [3,4]`},
		},
		{
			name: "long histories are rebuilt from snapshots",
			document: `
do:
  - gather:
      fork:
        branches:
          - tries:
              try:
                - begin: {set: {n: 0}}
                - many: {for: {in: "[range(100)]"}, do: [{add: {set: {n: "${ (.n // 0) + 1 }"}}}]}
                - rest: {wait: P1D}
                - no: {raise: {error: {type: https://a.example/no, status: 500}}}
              catch:
                retry: {delay: PT1H, limit: {attempt: {count: 2}}}
                do: [{end: {set: {caught: true}}}]
          - hears:
              listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 3}}
`,
			mocks: `
events:
  - {after: PT2H, type: com.example.x, source: /x, data: 1}
  - {after: PT30H, type: com.example.x, source: /x, data: 2}
  - {after: PT60H, type: com.example.x, source: /x, data: 3}
`,
			rate: 30, most: 12, seeds: 60,
			want: map[string]string{"x": `completed [{"caught":true},[1,2,3]]`},
		},
		{
			name: "messages of crashed processes are handled in the end",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {set: {n: 1}}
          - b: {call: http, with: {method: get, endpoint: "https://a.example/"}}
          - c: {wait: PT10S}
  - end: {set: {n: 2}}
`,
			mocks: `http: [{respond: {latency: PT3S, body: {n: 3}}}]`,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter}, rate: 8, most: 4, seeds: 300,
			want: map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "timers are set while others are pending",
			document: `
do:
  - all:
      fork:
        branches:
          - long: {wait: P30D}
          - twin: {wait: P30D}
          - short: {for: {in: "[range(6)]"}, do: [{rest: {wait: PT90S}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: PT20M}}}]}
          - hours: {for: {in: "[range(3)]"}, do: [{rest: {wait: PT7H, timeout: {after: P1D}}}]}
  - end: {set: {n: 2}}
`,
			mocks: `http: [{respond: {latency: PT3S, body: {n: 3}}}]`,
			want:  map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "a branch receives an event that another branch emits",
			document: `
do:
  - all:
      fork:
        branches:
          - hears: {listen: {to: {one: {with: {type: com.example.said, source: /me}}}}}
          - says: {do: [{rest: {wait: P1D}}, {say: {emit: {event: {with: {type: com.example.said, source: /me, data: {n: 5}}}}}}, {later: {wait: P1D}}]}
  - end: {set: "${ .[0][0].n }"}
`,
			want: map[string]string{"x": `completed 5`},
		},
	}...)
}

// config returns the configuration of a workload.
func (w workload) config() sim.Config {
	parse := func(text string) *dsl.Definition {
		def, _, err := dsl.Parse("workload.yaml", []byte(text))
		if err != nil {
			panic(fmt.Sprintf("workload: workload %q: %v", w.name, err)) // the simulator's own document
		}
		return def
	}
	cfg := sim.Config{
		Definition: parse("document: {dsl: '1.0.3', namespace: test, name: workload, version: '1.0.0'}" + w.document),
		ID:         "x", Processes: cmp.Or(w.processes, 2), Executors: 2, Executions: w.executions, Tenants: w.tenants, Twins: w.twins, MaxTurns: cmp.Or(w.turns, 100_000),
		Scripted: sim.Scripted{CrashURL: w.crashURL, CrashType: w.crashType, Retention: w.retention},
	}
	if w.input != "" {
		cfg.Input = json.RawMessage(w.input)
	}
	for _, text := range w.with {
		cfg.With = append(cfg.With, parse(text))
	}
	if w.tenants > 1 {
		cfg = cfg.OwnTexts()
	}
	var err error
	if cfg.Mocks, err = mock.Parse("mocks.yaml", []byte(w.mocks)); err != nil && w.mocks != "" {
		panic(fmt.Sprintf("workload: mocks of workload %q: %v", w.name, err))
	}
	for i, a := range w.acts {
		at := sim.Epoch().Add(a.after)
		if a.data == nil {
			a.data = event.Ended{Reason: "as planned"}
		}
		if a.moved > 0 {
			cfg.Scripted.Arrivals = append(cfg.Scripted.Arrivals, sim.Arrival{At: at, Do: a.move})
			continue
		}
		if a.replay {
			cfg.Scripted.Arrivals = append(cfg.Scripted.Arrivals, sim.Arrival{At: at, Do: a.replays})
			continue
		}
		cfg.Scripted.Arrivals = append(cfg.Scripted.Arrivals, sim.Arrival{At: at, Event: event.Event{
			ID: fmt.Sprintf("%s/act/%d", a.execution, i), Source: decide.Prefix + "cli", Type: a.typ, Time: at,
			Tenant: "default", Execution: a.execution, Task: a.task, Data: event.Encode(a.data),
		}})
	}
	if w.breakers != nil {
		cfg.Scripted.Breakers = func() *breaker.Set {
			b, err := breaker.New(*w.breakers)
			if err != nil {
				panic(fmt.Sprintf("workload: workload %q: %v", w.name, err))
			}
			return b
		}
	}
	return cfg
}

// plan returns the faults of a workload.
func (w workload) plan() sim.Plan {
	kinds := w.kinds
	if kinds == nil {
		kinds = []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay, sim.Clock, sim.StopRequested}
	}
	return sim.Plan{Kinds: kinds, Rate: cmp.Or(w.rate, 60), Most: cmp.Or(w.most, 8)}
}

// wrong returns the violations of a trial and the executions that did not end as
// expected.
func (w workload) wrong(got *sim.Trial) (out []string) {
	deadLetters := slices.Clone(w.deadLetters)
	if n := w.crashes(got); w.crashURL != "" && n != 5 {
		out = append(out, fmt.Sprintf("%d processes crashed, want 5", n))
	}
	for _, v := range got.Broken {
		i := slices.IndexFunc(deadLetters, func(text string) bool { return v.DeadLetter() && strings.HasPrefix(v.Detail, text) })
		if i >= 0 {
			deadLetters = slices.Delete(deadLetters, i, i+1)
			continue
		}
		out = append(out, v.Error())
	}
	for _, text := range deadLetters {
		out = append(out, "not dead-lettered: "+text)
	}
	out = append(out, w.measured(got)...)
	if w.fires != nil && !slices.Equal(w.fires, got.StrayTimers) {
		out = append(out, fmt.Sprintf("the stray timers %q fired, want %q", got.StrayTimers, w.fires))
	}
	ends := got.Ends
	if w.retention != nil { // children may have been removed or not
		ends = slices.DeleteFunc(slices.Clone(ends), func(end sim.End) bool { return strings.Contains(end.ID, ".") })
	}
	for _, end := range ends {
		want, ok := w.want[end.ID]
		text := string(end.Status) + " " + string(end.Output)
		if !ok || !strings.HasPrefix(strings.TrimSpace(text), want) {
			out = append(out, fmt.Sprintf("%s is %s %v, want %q", end.ID, text, end.Error, want))
		}
	}
	if len(ends) != len(w.want) {
		out = append(out, fmt.Sprintf("%d executions, want %d", len(ends), len(w.want)))
	}
	return out
}

// crashes returns how many processes called the URL that crashes them.
func (w workload) crashes(got *sim.Trial) (n int) {
	for _, r := range got.Reached {
		if r.URL == w.crashURL {
			n++
		}
	}
	return n
}

// measured returns wrong durations and wrong numbers of calls.
func (w workload) measured(got *sim.Trial) (out []string) {
	plain := len(got.Injected) == 0
	if took := got.Lasted(); plain && w.lasts > 0 && took != w.lasts {
		out = append(out, fmt.Sprintf("it took %v, want %v", took, w.lasts))
	}
	if n := len(got.Reached); plain && w.calls > 0 && n != w.calls {
		out = append(out, fmt.Sprintf("%d calls, want %d", n, w.calls))
	}
	for d, n := range got.Actions {
		if w.once && n > 1 {
			out = append(out, fmt.Sprintf("%s was called %d times", d.Task, n))
		}
	}
	return out
}
