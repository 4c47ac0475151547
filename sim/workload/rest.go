package workload

import (
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
)

// restWorkloads are about ended executions, about several versions of a definition, and
// about timers that are identified only by their key.
func restWorkloads() []workload {
	keyed := func(key string, day int) any {
		data := map[string]any{"task_id": "/t", "key": key}
		if day > 0 {
			data["fire_at"] = sim.Epoch().AddDate(0, 0, day).Format(time.RFC3339Nano)
		}
		return data
	}
	set := func(after time.Duration, key string, at int) act {
		return act{execution: "ghost", after: after, typ: event.TimerScheduled, task: "/t", data: keyed(key, at)}
	}
	back := func(after time.Duration, key string) act {
		return act{execution: "ghost", after: after, typ: event.TimerCancelled, task: "/t", data: keyed(key, 0)}
	}
	return []workload{
		{
			name: "ended executions are removed in time, and no others",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: PT1H}}, {end: {set: "${ $workflow.id }"}}]
`},
			document: `
do:
  - kid: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
  - some: {if: "${ $workflow.id == \"x-3\" or $workflow.id == \"x-4\" }", call: http, with: {method: post, endpoint: "https://a.example/"}}
  - days: {for: {in: "[range(if $workflow.id == \"x\" then 20 else 5 end)]"}, do: [{rest: {wait: P1D}}]}
`,
			mocks: `http: [{respond: [{status: 500, latency: PT3S}, {body: {n: 1}}]}]`,
			acts: []act{
				{execution: "x-2", after: day, typ: event.ExecutionCancelled},
				{execution: "x-3", after: day, typ: event.ExecutionRetried},
				{execution: "x-4", after: 2*day + time.Hour + 3*time.Second, typ: event.ExecutionRetried}, // at the moment of its removal
			},
			retention:  &engine.Retention{Entries: 10, Age: time.Minute, Finished: store.Keep{Age: 2 * day}},
			executions: 4, seeds: 30,
			want: map[string]string{
				"x": "completed", "x-2": "removed", "x-3": "removed", "x-4": "removed",
			},
		},
		{
			name: "running an unknown workflow fails once",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {try: [{none: &none {run: {workflow: {namespace: test, name: none, version: '1.0.0', input: {}}}}}], catch: {do: [{end: {set: {n: 1}}}]}}
          - b: {try: [{none: *none}], catch: {do: [{end: {set: {n: 2}}}]}}
  - end: {set: "${ map(.n) }"}
`,
			rate: 12, seeds: 60,
			want: map[string]string{"x": "completed [1,2]", "x.1": "faulted", "x.2": "faulted"},
		},
		{
			name: "the newest executions of each tenant are kept",
			document: `
do: [{days: {for: {in: "[range(if $workflow.id == \"x\" then 20 else 1 end)]"}, do: [{rest: {wait: P1D}}]}}]
`,
			retention:  &engine.Retention{Entries: 10, Age: time.Minute, Finished: store.Keep{Count: 1, Least: 2 * day}},
			executions: 6, tenants: 2, seeds: 20,
			want: map[string]string{
				"x": "completed", "x-2": "removed", "x-3": "removed", "x-4": "removed", "x-5": "completed", "x-6": "completed",
			},
		},
		{
			name: "an execution keeps the definition with which it started",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{one: {wait: PT1M}}, {two: {set: {n: 2}}}, {three: {call: http, with: {method: get, endpoint: "https://a.example/"}}}, {four: {set: {n: 1}}}]
`, `
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.10.0'}
do: [{one: {set: {n: 1}}}, {two: {call: http, with: {method: get, endpoint: "https://b.example/"}}}, {three: {set: {n: 10}}}]
`, `
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.9.0'}
do: [{none: {set: {n: 9}}}]
`, `
document: {dsl: '1.0.3', namespace: test, name: workload, version: '2.0.0'}
do: [{none: {set: {n: 0}}}]
`},
			document: `
do:
  - all:
      fork:
        branches:
          - first: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - latest: {run: {workflow: {namespace: test, name: child, version: latest, input: {}}}}
          - own: {do: [{rest: {wait: PT1H}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]}
  - end: {set: "${ map(.n) }"}
`,
			mocks: `http: [{respond: {latency: PT3S, body: {n: 3}}}]`,
			seeds: 40,
			want:  map[string]string{"x": `completed [1,10,3]`, "x.1": "completed", "x.2": "completed"},
		},
		{
			name: "timers are nearly simultaneous",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(5)]"}, do: [{rest: {wait: PT1S}}]}
          - b: {for: {in: "[range(5)]"}, do: [{rest: {wait: PT1.0004S}}]}
          - c: {for: {in: "[range(5)]"}, do: [{rest: {wait: PT1.000000001S}}]}
          - d: {for: {in: "[range(5)]"}, do: [{rest: {wait: PT0.9996S}}]}
`,
			rate: 120, seeds: 30,
			want: map[string]string{"x": "completed"},
		},
		{
			name:     "each key has one timer, as set last",
			document: "\ndo: [{rest: {wait: P10D}}]",
			acts: []act{
				set(day, "moved", 5), set(2*day, "moved", 9),
				set(day, "taken back", 6), back(3*day, "taken back"),
				set(day, "alone", 7),
				back(day, "first taken back"), set(2*day, "first taken back", 8),
				set(day, "both at once", 5), set(day+time.Second, "both at once", 9),
				set(day, "at once taken back", 5), back(day+time.Second, "at once taken back"),
			},
			kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Delay, sim.Clock},
			fires: []string{"alone 7", "both at once 9", "first taken back 8", "moved 9"},
			want:  map[string]string{"x": "completed"},
		},
		{
			name:     "a timer is cancelled and set again at once",
			document: "\ndo: [{rest: {wait: P10D}}]",
			acts: []act{
				set(day, "a", 6), back(2*day, "a"), set(2*day+time.Second, "a", 7),
				set(day, "b", 6), back(3*day, "b"), set(3*day+time.Second, "b", 7),
				set(day, "c", 6), back(4*day, "c"), set(4*day+time.Second, "c", 7),
				back(5*day, "d"), set(5*day+time.Second, "d", 7),
			},
			kinds: []sim.FaultKind{sim.CrashBefore, sim.Delay}, rate: 25, most: 40, seeds: 60,
			fires: []string{"a 7", "b 7", "c 7", "d 7"},
			want:  map[string]string{"x": "completed"},
		},
		{
			name: "an event that crashes processes is dead-lettered, and no other",
			document: `
do:
  - hears: {listen: {to: {any: [{with: {type: com.example.x}}], until: length >= 4}}}
  - end: {set: "${ map(.) }"}
`,
			mocks: `
events:
  - {after: P1D, type: com.example.x, source: /x, data: 1}
  - {after: P1D, id: kill, type: com.example.kill, source: /x}
  - {after: P1D, type: com.example.x, source: /x, data: 2}
  - {after: P1DT1S, type: com.example.x, source: /x, data: 3}
  - {after: P2D, type: com.example.x, source: /x, data: 4}
`,
			crashType: "com.example.kill", kinds: []sim.FaultKind{}, seeds: 20, executions: 2,
			deadLetters: []string{"com.example.kill kill by the worker-service after 5"},
			want:        map[string]string{"x": "completed", "x-2": "completed"},
		},
		{
			name: "a call that crashes processes is made in isolation",
			document: `
do:
  - all:
      fork:
        branches:
          - kill: {try: [{ask: {call: http, with: {method: get, endpoint: "https://kill.example/"}}}], catch: {as: e, do: [{end: {set: {n: 0}}}]}}
          - a: {for: {in: "[range(6)]"}, do: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}, {set: {set: {n: 1}}}]}
          - b: {for: {in: "[range(6)]"}, do: [{ask: {call: http, with: {method: get, endpoint: "https://b.example/"}}}, {set: {set: {n: 2}}}]}
  - end: {set: "${ map(.n) }"}
`,
			mocks:    `http: [{respond: {latency: PT20S, body: {n: 3}}}]`,
			crashURL: "https://kill.example/", kinds: []sim.FaultKind{}, seeds: 20,
			deadLetters: []string{"io.flunq.task.requested x/"},
			want:        map[string]string{"x": "completed [0,1,2]"},
		},
		{
			name: "an execution with an unreadable event ends",
			document: `
do: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
`,
			mocks:       `http: [{respond: {latency: PT1M, body: {n: 3}}}]`,
			acts:        []act{{execution: "x-2", after: 30 * time.Second, typ: event.TaskCompleted, task: "/do/0/ask", data: "nonsense"}},
			deadLetters: []string{"io.flunq.task.completed x-2/act/0 by the worker-service after 1"},
			kinds:       []sim.FaultKind{sim.DropRequest, sim.Delay}, executions: 2, seeds: 20, processes: 1, most: 1,
			want: map[string]string{"x": "completed", "x-2": "faulted"},
		},
		{
			name: "a stopping process hands over its work",
			document: `
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(4)]"}, do: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]}
          - b: {for: {in: "[range(4)]"}, do: [{ask: {call: http, with: {method: get, endpoint: "https://b.example/"}}}, {rest: {wait: PT30S}}]}
  - end: {set: {n: 2}}
`,
			mocks: `http: [{respond: {latency: PT20S, body: {n: 3}}}]`,
			kinds: []sim.FaultKind{sim.StopRequested}, rate: 20, most: 6, seeds: 30,
			want: map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "a stopping timer service hands over the next timer",
			document: `
do:
  - rests: {for: {in: "[range(12)]"}, do: [{rest: {wait: PT3M}}]}
  - end: {set: {n: 2}}
`,
			kinds: []sim.FaultKind{sim.StopRequested}, rate: 20, most: 6, seeds: 60,
			want: map[string]string{"x": `completed {"n":2}`},
		},
		{
			name: "a large history is rebuilt page by page",
			document: `
do:
  - heavy: {set: {text: "${ \"0123456789\" * 12000 }"}, export: {as: .}}
  - light: {set: {n: 0}}
  - first: {for: {in: "[range(130)]"}, do: [{add: {set: {n: 1}}}]}
  - more: {for: {in: "[range(600)]"}, do: [{add: {set: {n: 2}}}]}
  - rest: {for: {in: "[range(4)]"}, do: [{rest: {wait: P1D}}]}
  - end: {set: "${ $context.text | length }"}
`,
			seeds: 3, rate: 40, most: 6,
			want: map[string]string{"x": "completed 120000"},
		},
	}
}
