package workload

import (
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/sim"
)

// callWorkloads exercise calls, and messages that come twice, late or not at all.
func callWorkloads() []workload {
	return []workload{
		{
			name: "retried calls reach the service again",
			document: `
do:
  - each:
      for: {in: "[range(3)]"}
      do:
        - again:
            try:
              - pay: {call: http, with: {method: post, endpoint: "https://a.example/pay", body: {n: 1}}}
              - no: {raise: {error: {type: https://a.example/no, status: 500}}}
            catch:
              retry: {delay: PT10S, limit: {attempt: {count: 2}}}
              do: [{end: {set: {n: 2}}}]
`,
			mocks: `http: [{respond: {latency: PT3S, body: {n: 3}}}]`,
			lasts: 3 * (3*3*time.Second + 20*time.Second), calls: 9,
			want: map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "retries come on time",
			document: `
do:
  - doubled:
      try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {retry: {delay: PT10S, backoff: {exponential: {}}, limit: {attempt: {count: 4}}}, do: [{end: {set: {n: 1}}}]}
  - more:
      try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {retry: {delay: PT10S, backoff: {linear: {}}, limit: {attempt: {count: 4}}}, do: [{end: {set: {n: 1}}}]}
  - same:
      try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 4}}}, do: [{end: {set: {n: 1}}}]}
  - stopped:
      try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {retry: {delay: PT10S, limit: {duration: PT35S}}, do: [{end: {set: {n: 1}}}]}
  - slow:
      try: [{rest: {wait: P1D}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 1, duration: PT50S}}}, do: [{end: {set: {n: 1}}}]}
`,
			lasts: (150 + 100 + 40 + 30 + 110) * time.Second, seeds: 50,
			want: map[string]string{"x": `completed {"n":1}`},
		},
		{
			name: "a call longer than a lease is made once",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {call: http, with: {method: post, endpoint: "https://a.example/a"}}
          - b: {call: http, with: {method: post, endpoint: "https://a.example/b"}}
          - c: {for: {in: "[range(3)]"}, do: [{c: {call: http, with: {method: post, endpoint: "https://a.example/c"}}}]}
  - end: {set: {n: 2}}
`,
			mocks: `http: [{respond: {latency: PT4M, body: {n: 3}}}]`,
			rate:  12, most: 20, once: true,
			kinds: []sim.FaultKind{sim.DropRequest, sim.DropReply},
			want:  map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "live processes keep their messages",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 1}}}, {rest: {wait: PT90S}}]}
          - b: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 1}}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: PT20M}}}]}
          - c: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 2}}}
          - d: {for: {in: "[range(4)]"}, do: [{say: {emit: {event: {with: {type: com.example.said, source: /me}}}}}, {rest: {wait: PT90S}}]}
  - end: {set: {n: 2}}
`,
			mocks: `
http: [{respond: {latency: PT50S, body: {n: 3}}}]
events: [{after: PT1M, type: com.example.x, source: /x}, {after: PT3M, type: com.example.x, source: /x}]
`,
			executions: 3, rate: 10, most: 30, seeds: 80,
			kinds: []sim.FaultKind{sim.DropRequest},
			want:  map[string]string{"x": `completed {"n":2}`, "x-2": `completed {"n":2}`, "x-3": `completed {"n":2}`},
		},
		{
			name: "a snapshot contains everything before it",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: PT1H}}, {end: {set: "${ $workflow.id }"}}]
`},
			document: `
timeout: {after: P300D}
do:
  - gather:
      fork:
        branches:
          - many:
              do:
                - before: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
                - rest: {wait: P2D}
                - some: {for: {in: "[range(300)]"}, do: [{add: {set: {n: 1}}}]}
                - more: {wait: P1D}
                - behind: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - hears: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 3}}}
          - pairs:
              listen:
                to:
                  all:
                    - {with: {type: com.example.one}, correlate: {pair: {from: .data.pair}}}
                    - {with: {type: com.example.other}, correlate: {pair: {from: .data.pair}}}
          - limited: {timeout: {after: P250D}, do: [{rest: {wait: P10D}}]}
  - end: {set: "${ [.[0], .[1], (.[2] | map(.n))] }"}
`,
			mocks: `
events:
  - {after: P1D, id: one, type: com.example.x, source: /x, data: 1}
  - {after: P1D, type: com.example.one, source: /x, data: {pair: a, n: 4}}
  - {after: P4D, id: one, type: com.example.x, source: /x, data: 1}
  - {after: P5D, id: two, type: com.example.x, source: /x, data: 2}
  - {after: P5D, type: com.example.other, source: /x, data: {pair: b, n: 5}}
  - {after: P6D, id: two, type: com.example.x, source: /x, data: 2}
  - {after: P6D, type: com.example.other, source: /x, data: {pair: a, n: 6}}
  - {after: P7D, id: one, type: com.example.x, source: /x, data: 1}
  - {after: P8D, id: three, type: com.example.x, source: /x, data: 3}
`,
			rate: 30, seeds: 40, lasts: 10 * day,
			want: map[string]string{"x": `completed ["x.2",[1,2,3],[4,6]]`, "x.1": `completed "x.1"`, "x.2": `completed "x.2"`},
		},
		{
			name: "a faulted execution continues where it failed",
			document: `
do:
  - first: {set: {n: 1}, export: {as: {count: 1}}}
  - outer:
      try:
        - inner:
            timeout: {after: P20D}
            do:
              - rest: {wait: P1D}
              - both:
                  fork:
                    branches:
                      - a: {do: [{one: {set: {n: 1}, export: {as: {count: "${ $context.count + 1 }"}}}}, {ask: {call: http, with: {method: post, endpoint: "https://a.example/"}}}]}
                      - b: {do: [{rest: {wait: PT1H}}, {end: {set: {m: 4}}}]}
              - ask: {call: http, with: {method: post, endpoint: "https://a.example/"}}
              - last: {try: [{rest: {wait: P100D}}], catch: {errors: {with: {type: https://a.example/no}}, do: [{no: {set: {n: 0}}}]}}
      catch: {errors: {with: {status: 408}}, do: [{late: {set: "${ {count: $context.count, status: $error.status} }"}}]}
`,
			mocks: `http: [{respond: [{status: 500}, {latency: PT3S, body: {n: 2}}, {status: 500}, {status: 500}, {latency: PT3S, body: {n: 3}}]}]`,
			acts: []act{
				{execution: "x", after: 3 * day, typ: event.ExecutionRetried},
				{execution: "x", after: 5 * day, typ: event.ExecutionRetried},
				{execution: "x", after: 7 * day, typ: event.ExecutionRetried},
			},
			lasts: 27 * day, calls: 5,
			want: map[string]string{"x": `completed {"count":2,"status":408}`},
		},
		{
			name: "a suspended execution keeps the order of its events",
			document: `
do:
  - many: {for: {in: "[range(121)]"}, do: [{add: {set: {n: 1}}}]}
  - hears: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 5}}, export: {as: .}}
  - others: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 7}}}
  - end: {set: "${ [$context, .] }"}
`,
			mocks: "events:\n" + `  - {after: P1D, type: com.example.x, source: /x, data: 0}
  - {after: P3D, id: a, type: com.example.x, source: /x, data: 1}
  - {after: P4D, id: b, type: com.example.x, source: /x, data: 2}
  - {after: P5D, id: a, type: com.example.x, source: /x, data: 1}
  - {after: P6D, type: com.example.x, source: /x, data: 3}
  - {after: P7D, type: com.example.x, source: /x, data: 4}
  - {after: P8D, type: com.example.x, source: /x, data: 5}
  - {after: P9D, type: com.example.x, source: /x, data: 6}
  - {after: P10D, type: com.example.x, source: /x, data: 7}
  - {after: P11D, type: com.example.x, source: /x, data: 8}
  - {after: P12D, type: com.example.x, source: /x, data: 9}
  - {after: P13D, type: com.example.x, source: /x, data: 10}
  - {after: P16D, id: b, type: com.example.x, source: /x, data: 2}
  - {after: P17D, type: com.example.x, source: /x, data: 11}
`,
			acts: []act{
				{execution: "x", after: 2 * day, typ: event.ExecutionSuspended},
				{execution: "x", after: 15 * day, typ: event.ExecutionResumed},
			},
			rate: 30, seeds: 40,
			want: map[string]string{"x": `completed [[0,1,2,3,4],[5,6,7,8,9,10,11]]`},
		},
		{
			name: "a breaker opens for a failing host, and closes again",
			document: `
do:
  - early:
      try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}
  - first: 
      try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}
  - second:
      try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}
  - third:
      try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}
`,
			mocks: `
http:
  - respond: [{status: 503}, {status: 503}, {body: 0}, {status: 503}, {status: 503}, {status: 503}, {status: 503}, {body: 1}, {status: 503}, {status: 503}, {body: 2}, {status: 503}, {status: 503}, {body: 3}]
`,
			breakers: &breaker.Options{Failures: 3, Open: time.Minute, Probes: 1, Longest: 5 * time.Minute},
			lasts:    200 * time.Second, calls: 14, processes: 1, seeds: 6, kinds: []sim.FaultKind{},
			want: map[string]string{"x": `completed 3`},
		},
		{
			name: "a half-open breaker lets one call through at a time",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}}
          - b: {do: [{rest: {wait: PT5S}}, {ask: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {retry: {delay: PT10S, limit: {attempt: {count: 40}}}}}}]}
`,
			mocks:    `http: [{respond: [{status: 503, latency: PT8S}, {status: 503, latency: PT8S}, {status: 503, latency: PT8S}, {status: 503, latency: PT8S}, {status: 503, latency: PT8S}, {body: 1, latency: PT8S}]}]`,
			breakers: &breaker.Options{Failures: 3, Open: time.Minute, Probes: 1, Longest: 5 * time.Minute},
			lasts:    172 * time.Second, calls: 7, processes: 1, seeds: 6, kinds: []sim.FaultKind{},
			want: map[string]string{"x": `completed [1,1]`},
		},
		{
			name:     "a message that cannot be handled is dead-lettered in time",
			document: "\ndo: [{rest: {wait: P9D}}]",
			acts: []act{
				{execution: "ghost", after: time.Hour, typ: event.ExecutionCancelled},
				{execution: "x-3", after: time.Hour, typ: event.TaskRequested, task: "/do/0/rest", data: event.Requested{TaskID: "/do/0/rest"}},
				{execution: "x-2", after: time.Hour, typ: event.TimerScheduled, data: "nonsense"},
			},
			kinds: []sim.FaultKind{sim.DropRequest, sim.Delay, sim.Clock},
			deadLetters: []string{
				"io.flunq.execution.cancelled ghost/act/0 by the worker-service after 12",
				"io.flunq.task.requested x-3/act/1 by the executor-service after 3",
				"io.flunq.timer.scheduled x-2/act/2 by the timer-service after 1",
			},
			executions: 3,
			want:       map[string]string{"x": `completed`, "x-2": `faulted`, "x-3": `faulted`},
		},
		{
			name: "a message that crashes five processes is dead-lettered",
			document: `
do:
  - kill:
      try: [{ask: {call: http, with: {method: get, endpoint: "https://kill.example/"}}}]
      catch: {as: e, do: [{end: {set: "${ $e.status }"}}]}
`,
			mocks:    `http: [{respond: {body: 1}}]`,
			crashURL: "https://kill.example/", kinds: []sim.FaultKind{}, seeds: 6,
			deadLetters: []string{"io.flunq.task.requested x/3 by the executor-service after 5"},
			want:        map[string]string{"x": `completed`},
		},
		{
			name: "timers become due while they are cancelled",
			document: `
do:
  - all:
      fork:
        branches:
          - a:
              for: {in: "[range(6)]"}
              do:
                - step:
                    try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: PT30S}}}]
                    catch: {do: [{end: {set: {n: 3}}}]}
                - rest: {wait: PT1S}
          - b:
              for: {in: "[range(6)]"}
              do:
                - step:
                    try: [{rest: {wait: PT20S, timeout: {after: PT20S}}}]
                    catch: {do: [{end: {set: {n: 3}}}]}
                - first: {fork: {compete: true, branches: [{x: {wait: PT7S}}, {y: {wait: PT7S}}]}}
  - end: {set: {n: 2}}
`,
			mocks: `http: [{respond: {latency: PT30S, body: {n: 3}}}]`,
			seeds: 60,
			want:  map[string]string{"x": `completed {"n":2}`},
		},
	}
}
