package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/sim"
)

// messageWorkloads are about what executions receive: events, and requests of parents and
// operators.
func messageWorkloads() []workload {
	deep := map[string]string{}
	for depth := range 21 { // up to 20 levels may be nested
		deep["x"+strings.Repeat(".1", depth)] = "faulted"
	}
	return []workload{
		{
			name: "a listen task receives exactly its events",
			document: `
do:
  - three:
      listen: {to: {all: [{with: {type: com.example.a, data: {who: {id: 1, of: x}}}}, {with: {type: com.example.b}}, {with: {type: com.example.c}}]}}
      export: {as: "${ {three: map(.n)} }"}
  - stops:
      listen: {to: {any: [{with: {type: com.example.d}}], until: {all: [{with: {type: com.example.e}}, {with: {type: com.example.f}}]}}}
      export: {as: "${ $context + {stops: map(.n)} }"}
  - each:
      listen: {to: {one: {with: {type: com.example.g}}}}
      foreach: {item: one, do: [{rest: {wait: P1D}}]}
  - end: {set: "${ $context + {each: length} }"}
`,
			mocks: `
events:
  - {after: P1D, type: com.example.a, source: /x, data: {n: 9, who: {id: 1}}}
  - {after: P1DT1H, type: com.example.b, source: /x, data: {n: 2}}
  - {after: P2D, type: com.example.a, source: /x, data: {n: 1, who: {id: 1, of: x, since: 2020}}}
  - {after: P3D, type: com.example.c, source: /x, data: {n: 3}}
  - {after: P4D, type: com.example.d, source: /x, data: {n: 1}}
  - {after: P4DT1H, type: com.example.e, source: /x}
  - {after: P5D, type: com.example.d, source: /x, data: {n: 2}}
  - {after: P5DT1H, type: com.example.f, source: /x}
  - {after: P6D, type: com.example.g, source: /x}
  - {after: P6DT12H, type: com.example.g, source: /x}
`,
			seeds: 40,
			want:  map[string]string{"x": `completed {"each":1,"stops":[1,2],"three":[2,1,3]}`},
		},
		{
			name: "a child that no task awaits continues",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P2D}}]
`},
			document: `
do:
  - begin: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}, await: false}}
  - rest: {wait: P1D}
`,
			seeds: 40,
			want:  map[string]string{"x": "completed", "x.1": "completed"},
		},
		{
			name: "workflows nest up to the limit",
			document: `
do: [{again: {run: {workflow: {namespace: test, name: workload, version: '1.0.0', input: {}}}}}]
`,
			seeds: 4, most: 4, turns: 10_000,
			want: deep,
		},
		{
			name: "a dead letter is replayed once",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P9D}}]
`},
			document: `
do:
  - rest: {wait: P2D}
  - slow: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
`,
			acts:  []act{{execution: "x.1", typ: event.ExecutionCancelled}, {after: 4 * day, replay: true}},
			seeds: 40,
			want:  map[string]string{"x": "faulted", "x.1": "cancelled"},
		},
		twoTenants("tenants share nothing", 3),
		twoTenants("identical tenants share nothing", 4), // their stream entries have the same ids
		twins(twoTenants("tenants have executions with the same ids", 4)),
	}
}

// twoTenants is a workload with concurrent executions of two tenants.
func twoTenants(name string, executions int) workload {
	l := workload{
		name: name,
		with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P2D}}]
`},
		document: `
do:
  - all:
      fork:
        branches:
          - rest: {wait: PT1H}
          - count: {set: {n: 1}}
          - ask: {call: http, with: {method: post, endpoint: "https://a.example/"}}
          - hear: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - run: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
  - end: {set: "${ [$workflow.id, .[2].n, .[3][0]] }"}
`,
		mocks: `
http: [{respond: {latency: PT1M40S, body: {n: 3}}}]
events: [{after: P1D, type: com.example.x, source: /x, data: 4}]
`,
		executions: executions, tenants: 2, lasts: 2 * day, seeds: 60, want: map[string]string{},
	}
	for i := range executions {
		id := "x"
		if i > 0 {
			id = fmt.Sprintf("x-%d", i+1)
		}
		l.want[id], l.want[id+".1"] = fmt.Sprintf("completed [%q,3,4]", id), "completed"
	}
	return l
}

// twins gives the second tenant's executions the same ids as the first one's.
func twins(l workload) workload {
	l.twins = true
	l.want["x-2"], l.want["x-4"] = l.want["x"], l.want["x-3"]
	return l
}

// replays replays each dead letter twice, like two operators at the same time.
func (a act) replays(ctx context.Context, o sim.Operator) error {
	deadLetters, _, err := stream.New(o.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: "default", Range: store.Range{Count: 10}})
	if err != nil {
		return err
	}
	for _, l := range deadLetters {
		for n := range 2 {
			again, err := stream.New(o.Store).Replay(ctx, l)
			if err != nil {
				return err
			}
			if again != (n == 0) {
				o.Report("a dead letter is replayed once", l.Event.Execution, fmt.Sprintf("attempt %d after %v returned %t", n+1, o.Elapsed.Round(time.Second), again))
			}
		}
	}
	return nil
}
