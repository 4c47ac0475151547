package workload

import (
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
)

// featureWorkloads each use a few rare features, and are quick.
func featureWorkloads() []workload {
	return []workload{
		{
			name: "data passes through all kinds of tasks",
			document: `
input: {from: '${ {n: 1} }'}
do:
  - first: {wait: PT1S, input: {from: '${ {n: (.n + 1)} }'}}
  - second: {set: {n: "${ .n * 10 }"}, output: {as: '${ {n: (.n + 1)} }'}, export: {as: '${ {sum: .n} }'}}
  - branches:
      fork:
        branches:
          - skipped: {if: 'false', set: {n: 0}}
          - inner: {do: [{one: {set: {n: "${ .n + 1 }"}, then: exit}}, {two: {set: {n: 99}}}]}
          - asked: {call: http, with: {method: post, endpoint: "https://a.example/", body: {sum: "${ $context.sum }"}}}
  - context: {set: {a: "${ .[0].n }", b: "${ .[1].n }", c: "${ .[2].n }", sum: "${ $context.sum }"}}
  - loop:
      for: {in: "[range(3)]", at: i}
      do:
        - count: {set: {i: "${ $i }", n: "${ $context.sum + $i }"}, export: {as: '${ {sum: .n} }'}}
  - tries:
      try:
        - no: {raise: {error: {type: https://a.example/no, status: 409, title: No}}}
      catch: {errors: {with: {status: 409}}, as: e, do: [{say: {set: {status: "${ $e.status }", sum: "${ $context.sum }"}}}]}
  - end: {switch: [{first: {when: '.status == 409', then: last}}, {other: {then: end}}]}
  - never: {set: {n: -1}}
  - last: {set: {all: "${ [.status, .sum] }"}}
`,
			mocks: `http: [{respond: {latency: PT3S, body: {n: 3}}}]`,
			lasts: 4 * time.Second, calls: 1,
			want: map[string]string{"x": `completed {"all":[409,24]}`},
		},
		{
			name: "branches end one after another",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {wait: PT10S}
          - b: {do: [{one: {wait: PT20S}}, {two: {set: {n: 2}}}]}
          - c: {for: {in: "[range(3)]"}, do: [{rest: {wait: PT20S}}]}
  - race:
      fork:
        compete: true
        branches:
          - fails: {do: [{rest: {wait: PT5S}}, {no: {raise: {error: {type: https://a.example/no, status: 500}}}}]}
          - wins: {do: [{rest: {wait: PT10S}}, {set: {set: {n: 5}}}]}
          - loses: {do: [{rest: {wait: PT15S}}, {set: {set: {n: 6}}}]}
  - failing:
      try:
        - either:
            fork:
              branches:
                - no: {do: [{rest: {wait: PT5S}}, {no: {raise: {error: {type: https://a.example/no, status: 500}}}}]}
                - slow: {wait: P1D}
      catch: {do: [{end: {set: {n: 7}}}]}
`,
			lasts: 75 * time.Second,
			want:  map[string]string{"x": `completed {"n":7}`},
		},
		{
			name: "several tasks receive the same events",
			document: `
do:
  - all:
      fork:
        branches:
          - any: {listen: {to: {any: []}}}
          - source: {listen: {to: {one: {with: {source: /only}}}}}
          - each:
              listen: {to: {any: [{with: {type: com.example.e}}], until: 'length >= 2'}}
              foreach: {item: e, do: [{rest: {wait: PT1M}}, {take: {set: {n: "${ $e.n }"}}}]}
          - until:
              listen: {to: {any: [{with: {type: com.example.f}}], until: {one: {with: {type: com.example.stop}}}}}
  - end: {set: "${ [(.[0] | length), .[1][0].n, (.[2] | map(.n)), (.[3] | map(.n))] }"}
`,
			mocks: `
events:
  - {after: P1D, type: com.example.e, source: /e, data: {n: 1}}
  - {after: P1DT1S, type: com.example.e, source: /e, data: {n: 2}}
  - {after: P1DT2S, type: com.example.e, source: /e, data: {n: 3}}
  - {after: P2D, type: com.example.f, source: /f, data: {n: 4}}
  - {after: P3D, type: com.example.other, source: /only, data: {n: 5}}
  - {after: P4D, type: com.example.f, source: /f, data: {n: 6}}
  - {after: P5D, type: com.example.stop, source: /f, data: {n: 7}}
`,
			seeds: plainSeeds, lasts: 5 * day, // faults would change the order of events
			want: map[string]string{"x": `completed [1,5,[1,2],[4,6]]`},
		},
		{
			name: "an execution that waits for ever stays open",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{hear: {listen: {to: {one: {with: {type: com.example.never}}}}}}]
`},
			document: `
do: [{run: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}}]
`,
			executions: 2, seeds: 20,
			want: map[string]string{"x": "", "x.1": "waiting", "x-2": "", "x-2.1": "waiting"},
		},
		{
			name: "an unreadable event ends an execution with its timers and children",
			document: `
do:
  - all:
      fork:
        branches:
          - rest: {wait: P9D, timeout: {after: P20D}}
          - hear: {listen: {to: {one: {with: {type: com.example.never}}}}}
          - begin: {run: {workflow: {namespace: test, name: child, version: '1.0.0'}}}
`,
			with:        []string{"document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}\ndo: [{rest: {wait: P30D}}]"},
			acts:        []act{{execution: "x", after: time.Hour, typ: event.TimerFired, task: "/do/0/all/fork/branches/0/rest", data: "nonsense"}},
			deadLetters: []string{"io.flunq.timer.fired x/act/0 by the worker-service after 1"},
			seeds:       plainSeeds,
			want:        map[string]string{"x": "faulted", "x.1": "cancelled"},
		},
		{
			name: "client errors do not open a breaker",
			document: `
do:
  - each:
      for: {in: "[range(8)]"}
      do:
        - ask: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {do: [{end: {set: {n: 0}}}]}}
`,
			mocks: `
http:
  - respond:
      - {status: 404}
      - {status: 403}
      - {status: 404}
      - {status: 503}
      - {status: 404}
      - {status: 503}
      - {status: 400}
      - {status: 200, body: {n: 8}}
`,
			breakers: &breaker.Options{Failures: 2, Open: time.Hour, Probes: 1},
			calls:    8, seeds: plainSeeds, processes: 1,
			want: map[string]string{"x": `completed {"n":8}`},
		},
		{
			name: "slow calls of two tenants are each made once",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {call: http, with: {method: post, endpoint: "https://a.example/a"}}
          - b: {call: http, with: {method: post, endpoint: "https://a.example/b"}}
  - end: {set: "${ map(.n) }"}
`,
			mocks:      `http: [{respond: {latency: PT2M30S, body: {n: 3}}}]`,
			executions: 4, tenants: 2, once: true, seeds: plainSeeds, calls: 8,
			want: map[string]string{"x": "completed [3,3]", "x-2": "completed [3,3]", "x-3": "completed [3,3]", "x-4": "completed [3,3]"},
		},
		{
			name: "emitted events have ids of their own",
			document: `
do:
  - all:
      fork:
        branches:
          - hear: {listen: {to: {any: [{with: {type: com.example.said}}], until: length >= 3}, read: envelope}}
          - say: {do: [{rest: {wait: PT1S}}, {each: {for: {in: "[range(3)]"}, do: [{say: {emit: {event: {with: {type: com.example.said, data: {n: "${ 1 }"}}}}}}]}}]}
  - end: {set: "${ [(.[0] | map(.id) | unique | length), (.[0] | map(.data.n) | add)] }"}
`,
			seeds: 40, lasts: time.Second,
			want: map[string]string{"x": "completed [3,3]"},
		},
	}
}
