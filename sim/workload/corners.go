package workload

import (
	"context"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim"
)

// cornerWorkloads find planted bugs that nothing else found.
func cornerWorkloads() []workload {
	return []workload{
		{
			name: "Retry-After keeps a breaker open",
			document: `
do:
  - seconds: &ask
      try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
      catch: {retry: {delay: PT10S, limit: {attempt: {count: 60}}}}
  - date: *ask
  - long: *ask
  - short: *ask
  - other: *ask
`,
			mocks: `
http:
  - respond:
      - {status: 503}
      - {status: 503, headers: {retry-after: '90'}}
      - {body: 1}
      - {status: 503}
      - {status: 429, headers: {date: 'Thu, 01 Jan 2026 00:00:00 GMT', retry-after: 'Thu, 01 Jan 2026 00:01:30 GMT'}}
      - {body: 2}
      - {status: 503}
      - {status: 503, headers: {retry-after: '3600'}}
      - {body: 3}
      - {status: 503}
      - {status: 503, headers: {retry-after: '5'}}
      - {body: 4}
      - {status: 503}
      - {status: 500, headers: {retry-after: '90'}}
      - {body: 5}
`,
			breakers: &breaker.Options{Failures: 2, Open: 30 * time.Second, Probes: 1, Longest: 4 * time.Minute},
			lasts:    (100 + 100 + 250 + 40 + 40) * time.Second, calls: 15, processes: 1, seeds: 4, kinds: []sim.FaultKind{},
			want: map[string]string{"x": `completed 5`},
		},
		{
			name: "a decision larger than a commit is continued",
			document: `
do:
  - begin: {set: {n: 0}}
  - many: {for: {in: "[range(300)]"}, do: [{add: {set: {n: "${ .n + 1 }"}}}]}
`,
			acts: []act{
				{execution: "x", after: 10 * time.Second, typ: event.ExecutionSuspended},
				{execution: "x", after: day, typ: event.ExecutionResumed},
			},
			rate: 15, most: 2, seeds: 24,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter},
			want:  map[string]string{"x": `completed {"n":300}`},
		},
		{
			// Found by simulations with small commits: after a worker died in the middle
			// of a decision, no other worker continued it, because no task listened for
			// the event any more.
			name: "another worker continues what an event started",
			document: `
do:
  - hear: {listen: {to: {one: {with: {type: com.example.x}}}}}
  - begin: {set: {n: 0}}
  - many: {for: {in: "[range(400)]"}, do: [{add: {set: {n: "${ .n + 1 }"}}}]}
`,
			mocks: `events: [{after: P1D, type: com.example.x, source: /x}]`,
			rate:  10, most: 30, seeds: 60,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest},
			want:  map[string]string{"x": `completed {"n":400}`},
		},
		{
			name: "end in a branch ends the workflow",
			document: `
do:
  - around:
      do:
        - all:
            fork:
              branches:
                - fast: {do: [{rest: {wait: P1D}}, {end: {set: {n: 1}, export: {as: {n: 1}}, then: end}}, {never: {set: {n: 2}}}]}
                - slow: {wait: P9D}
            output: {as: "${ [.[0].n, .[1], $context.n] }"}
  - never: {set: {n: 3}}
`,
			lasts: day, seeds: 20, want: map[string]string{"x": `completed [1,null,1]`},
		},
		{
			name: "jitter spreads retries",
			document: `
do:
  - spread:
      try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {retry: {delay: PT10S, backoff: {linear: {}}, jitter: {from: PT2S, to: PT4S}, limit: {attempt: {count: 5}}}, do: [{end: {set: {n: 1}}}]}
`,
			seeds: 4, want: map[string]string{"x": `completed {"n":1}`},
		},
		{
			name: "a retried task starts with its original context",
			document: `
do:
  - first: {set: {n: 1}, export: {as: {count: 1}}}
  - slow:
      timeout: {after: P2D}
      do:
        - add: {set: {n: 1}, export: {as: {count: "${ $context.count + 1 }"}}}
        - rest: {wait: "${ if $workflow.startedAt.epoch.seconds + 86400 > now then \"P9D\" else \"P1D\" end }"}
        - more: {set: {n: 1}, export: {as: {count: "${ $context.count + 10 }"}}}
  - around:
      do:
        - add: {set: {n: 1}, export: {as: {count: "${ $context.count + 100 }"}}}
        - ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}
  - end: {set: "${ $context.count }"}
`,
			mocks: `http: [{respond: [{status: 500}, {status: 500}, {body: {n: 2}}]}]`,
			acts: []act{
				{execution: "x", after: 3 * day, typ: event.ExecutionRetried},
				{execution: "x", after: 5 * day, typ: event.ExecutionRetried},
				{execution: "x", after: 7 * day, typ: event.ExecutionRetried},
			},
			lasts: 7 * day, calls: 3, seeds: 40,
			want: map[string]string{"x": `completed 112`},
		},
		{
			name: "an operator moves timers",
			document: `
do:
  - all:
      fork:
        branches:
          - early: {wait: P30D}
          - late: {wait: P5D}
          - done:
              timeout: {after: P40D}
              do: [{rest: {wait: P6D}}]
          - tried:
              try: [{no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
              catch: {retry: {delay: P20D, limit: {attempt: {count: 1}}}, do: [{end: {set: {n: 1}}}]}
          - slow:
              try: [{rest: {timeout: {after: P50D}, do: [{long: {wait: P90D}}]}}]
              catch: {do: [{end: {set: {n: "${ $error.status }"}}}]}
  - end: {set: "${ [.[2].n, .[3].n, .[4].n] }"}
`,
			acts: []act{
				{execution: "x", after: day, task: "/do/0/all/fork/branches/0/early", moved: 2 * day},
				{execution: "x", after: day, task: "/do/0/all/fork/branches/1/late", moved: 9 * day},
				{execution: "x", after: day, task: "/do/0/all/fork/branches/2/done", moved: 45 * day},
				{execution: "x", after: day, task: "/do/0/all/fork/branches/3/tried", moved: 3 * day},
				{execution: "x", after: day, task: "/do/0/all/fork/branches/4/slow/try/0/rest", moved: 11 * day},
				{execution: "x", after: 2 * day, task: "/do/0/all/fork/branches/1/late", moved: 12 * day},
			},
			lasts: 12 * day, seeds: 60, rate: 30,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay},
			want:  map[string]string{"x": `completed [null,1,408]`},
		},
		{
			name:     "the last timer request for a key counts",
			document: "\ndo: [{rest: {wait: P90D}}]",
			acts: []act{
				{execution: "x", after: day, typ: event.TimerScheduled, data: keyedTimer("a", 30)},
				{execution: "x", after: day, typ: event.TimerScheduled, data: keyedTimer("a", 20)},
				{execution: "x", after: day, typ: event.TimerScheduled, data: keyedTimer("a", 40)},
				{execution: "x", after: 2 * day, typ: event.TimerScheduled, data: keyedTimer("b", 30)},
				{execution: "x", after: 2 * day, typ: event.TimerScheduled, data: keyedTimer("c", 30)},
				{execution: "x", after: 3 * day, typ: event.TimerCancelled, data: keyedTimer("b", 0)},
				{execution: "x", after: 4 * day, typ: event.TimerScheduled, data: keyedTimer("c", 10)},
			},
			rate: 15, most: 6, seeds: 60,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Delay},
			want:  map[string]string{"x": `completed`},
		},
		{
			name: "a message that crashes processes is handled in isolation",
			document: `
do:
  - all:
      fork:
        branches:
          - kill:
              try: [{ask: {call: http, with: {method: get, endpoint: "https://kill.example/"}}}]
              catch: {do: [{end: {set: {n: 1}}}]}
          - a: {call: http, with: {method: get, endpoint: "https://a.example/a"}}
          - b: {call: http, with: {method: get, endpoint: "https://a.example/b"}}
          - c: {do: [{rest: {wait: PT20S}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/c"}}}]}
          - d: {do: [{rest: {wait: PT70S}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/d"}}}]}
          - e: {for: {in: "[range(20)]"}, do: [{rest: {wait: PT11S}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/e"}}}]}
  - end: {set: {n: 2}}
`,
			mocks:    `http: [{respond: {latency: PT9S, body: {n: 3}}}]`,
			crashURL: "https://kill.example/", kinds: []sim.FaultKind{}, seeds: 12,
			deadLetters: []string{"io.flunq.task.requested x/"},
			want:        map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "an execution that ends does not unsubscribe others",
			document: `
do:
  - all:
      fork:
        branches:
          - one: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - three: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 3}}}
          - each:
              listen:
                to: {any: [{with: {type: com.example.x}}], until: {one: {with: {type: com.example.stop}}}}
                read: envelope
              foreach: {item: e, at: i, do: [{rest: {wait: PT1H}}, {take: {set: {n: "${ $e.data * 10 + $i }"}}}]}
          - both: {listen: {to: {all: [{with: {type: com.example.y}}, {with: {type: com.example.x, data: "${ . >= 3 }"}}]}}}
          - limited:
              try: [{hear: {timeout: {after: P2D}, listen: {to: {one: {with: {type: com.example.z}}}}}}]
              catch: {do: [{end: {listen: {to: {one: {with: {type: com.example.z}}}}}}]}
  - end: {set: "${ [.[0], .[1], (.[2] | map(.n)), .[3], .[4]] }"}
`,
			mocks: `
events:
  - {after: P1D, type: com.example.x, source: /x, data: 1}
  - {after: P3D, type: com.example.x, source: /x, data: 2}
  - {after: P4D, type: com.example.x, source: /x, data: 3}
  - {after: P5D, type: com.example.x, source: /x, data: 4}
  - {after: P6D, type: com.example.stop, source: /x}
  - {after: P7D, type: com.example.x, source: /x, data: 5}
  - {after: P8D, type: com.example.y, source: /x, data: 6}
  - {after: P9D, type: com.example.z, source: /x, data: 7}
`,
			lasts: 9 * day, seeds: 40, rate: 30,
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Delay},
			want:  map[string]string{"x": `completed [[1],[1,2,3],[10,21,32,43],[3,6],[7]]`},
		},
	}
}

// keyedTimer returns a timer with a key that is due after some days.
func keyedTimer(key string, days int) event.Timer {
	return event.Timer{Execution: "x", TaskID: "/remind", FireAt: sim.Epoch().Add(time.Duration(days) * day), Kind: event.WaitTimer, Key: key}
}

// move moves the timers of a task, as 'flunq timers reschedule' does.
func (a act) move(ctx context.Context, o sim.Operator) error {
	pending, _, err := timers.New(o.Store).List(ctx, timers.Filter{Tenant: "default", Execution: a.execution}, "", 1000)
	if err != nil {
		return err
	}
	for _, p := range pending {
		if p.TaskID != a.task {
			continue
		}
		if _, _, err := timers.New(o.Store).Move(ctx, p, sim.Epoch().Add(a.moved), "ada"); err != nil {
			return err
		}
	}
	return nil
}
