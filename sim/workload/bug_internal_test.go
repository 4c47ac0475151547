package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// scriptBugs returns typical bugs of such engines. Each is planted in the scripts and must be
// found; otherwise the simulator has become weaker.
func scriptBugs() []scriptBug {
	return []scriptBug{
		{
			name: "a message is acknowledged before the commit", changes: []string{"commit function commit if 1", "false"}, before: "commit",
			ahead: func(args []any) [][]any {
				n := keysOf(args)
				deadLetter, _ := args[n+6].(int)
				entry := args[n+8+deadLetter]
				if entry == "" {
					return nil
				}
				return [][]any{{"xack", args[0], args[n], entry}}
			},
		},
		{name: "the version is not checked", changes: []string{"commit function commit if 3", "false"}},
		{name: "a decision follows a lost one", on: parallelLoops, changes: []string{"commit if 38", "false"}},
		{name: "the owner of a message is not checked", changes: []string{
			"commit function commit if 1", "false", "commit function commit if 3", "false",
			"reply if 2", "true", "retry if 1", "false", "acknowledge if 1", "false", "dead_letter if 1", "false",
		}},
		{
			name: "a timer is removed before it is published", changes: []string{"fire if 3", "true"}, before: "fire",
			ahead: func(args []any) [][]any {
				for _, arg := range args {
					if text, ok := arg.(string); ok && strings.HasPrefix(text, `{"tenant_id"`) {
						return [][]any{{"zrem", args[0], arg}}
					}
				}
				return nil
			},
		},
		{name: "claimed messages are not handled", changes: []string{"claim table 2", "nil"}},
		{name: "a cancelled timer is set", changes: []string{"commit function cancel HSET 1", ""}},

		{name: "a newer version is overwritten", on: "an execution is suspended while", changes: []string{"commit function commit ~= 2", "<"}},
		{name: "an ended execution still listens", on: "each execution receives", changes: []string{"commit function listen SREM 1", ""}},
		{name: "a commit does not remove timers", on: "a child is cancelled with", changes: []string{
			"commit function cancel ZREM 1", "0", "commit function cancel remove_moved 1", "false", "set_timers function cancel if 5", "false",
		}},
		{name: "a timer is set for an ended execution", on: "a child is cancelled before", changes: []string{"set_timers table 1", "{}"}},
		{name: "a fired timer is not removed", on: "timers are set while", changes: []string{"fire ZREM 1 unpack 1 arg 1", "@, math.min(2, #@)"}},
		{name: "unread entries are skipped", on: "timers are set while", changes: []string{"skip if 1", "true", "skip if 3", "true"}},
		{name: "a result is committed for another owner's message", on: "an execution is suspended while", changes: []string{"reply if 2", "true"}},
		{name: "the first event is published twice", on: "timers are set while", changes: []string{"commit function publish add_event 2", "(@ and @)"}},
		{name: "an answered request stays pending", on: "a call longer", changes: []string{"reply XACK 1", ""}},
		{name: "an old error is kept after a retry", on: "a faulted execution", changes: []string{"commit function commit HDEL 1", ""}},
		{name: "a poison message is never dead-lettered", on: "a message that crashes five", changes: []string{"claim HDEL 1", "0"}},
		{name: "an older timer request for a key replaces a newer one, with an operator", on: "the last timer request", changes: []string{"set_timers function set if 1", "false"}},
		{name: "a moved timer is not cancelled", on: "an operator moves timers", changes: []string{"moved HGET 1", "false"}},
		{name: "a released message counts as a crash", on: "messages of crashed", changes: []string{"claim if 1", "true", "claim HINCRBY 1 arg 4", "5"}},

		{name: "the lease of another owner is renewed", on: "ended executions are", changes: []string{"renew if 1", "true"}},
		{name: "messages are claimed from live processes", on: "ended executions are", changes: []string{"claim XPENDING 1 arg 5", "0", "claim XAUTOCLAIM 1 arg 5", "0"}},
		{name: "an ended execution stays in the open index", on: "an operator cancels", changes: []string{"commit function index ZREM 1", ""}},
		{name: "an ended execution is in no index", on: "an operator cancels", changes: []string{"commit function index ZADD 1", ""}},
		{name: "a retried execution stays in the faulted index", on: "a faulted execution", changes: []string{"commit function index if 4", "false"}},
		{name: "timer fields are not removed", on: "timers become due", changes: []string{"commit function clean string.find 1", "false"}},
		{name: "an execution starts twice", on: "an operator cancels", changes: []string{"start if 1", "false"}},
		{name: "pending entries are trimmed", on: "ended executions are", changes: []string{"trim if 4", "false"}},
		{name: "unread entries are trimmed", on: "filters accept", changes: []string{"trim if 3", "false"}},
		{name: "a child is removed before its parent ends", on: "ended executions are", changes: []string{"forget if 3", "false"}},
		{name: "an older timer request for a key replaces a newer one", on: "each key has", changes: []string{"set_timers function set if 1", "false"}},
		{name: "a timer with a key is not cancelled", on: "each key has", changes: []string{"set_timers function cancel if 3", "false"}},
		{name: "the key of a fired timer is kept", on: "each key has", changes: []string{"fire settle 1", ""}},

		{name: "a redelivery timer is not announced", on: "a message that cannot be handled", changes: []string{"retry announce_first 1", ""}},
		{name: "a moved timer is not announced", on: "an operator moves timers", changes: []string{"move_timer announce_first 1", ""}},
		{name: "an older cancellation cancels a newer timer", on: "a timer is cancelled", changes: []string{"set_timers function cancel if 2", "true"}},
		{name: "an input that is set again leaves the old one", on: "an input of a key", changes: []string{"set_timers function set if 3", "false"}},
		{name: "a pending input survives the end", on: "an execution that ends cancels", changes: []string{"commit function clean if 3", "false"}},
		{name: "an input is not listed", on: "an execution that ends cancels", changes: []string{"set_timers function set HSET 2", ""}},
		{
			name: "a rejected input is acknowledged first", on: "a parked input", changes: []string{"commit function commit if 1", "false"}, before: "commit",
			ahead: func(args []any) [][]any {
				n := keysOf(args)
				deadLetter, _ := args[n+6].(int)
				entry := args[n+8+deadLetter]
				parks := slices.ContainsFunc(args, func(arg any) bool { text, _ := arg.(string); return strings.Contains(text, `"parked_until"`) })
				if entry == "" || !parks {
					return nil
				}
				return [][]any{{"xack", args[0], args[n], entry}}
			},
		},
		{name: "a listen task does not get what is parked", on: "a parked input", changes: []string{"commit function deliver_parked XADD 1", "{err = 'planted'}"}},
		{name: "a cancellation is not remembered", on: "each key has", changes: []string{"set_timers function cancel forget 1", ""}},
		{name: "a dead letter is replayed twice", on: "a dead letter", changes: []string{"replay XDEL 1", ""}},
		{name: "a dead-lettered message is not acknowledged", on: "a message that cannot be handled", changes: []string{"dead_letter XACK 1", ""}},
		{name: "a script writes a key of another slot", on: "timers are set while", changes: []string{"fire XADD 1 arg 2", "(string.gsub(@, '[{}]', ''))"}},
		{name: "all timers fire for the first tenant", on: "tenants share nothing", changes: []string{"fire XADD 1 arg 2", "KEYS[4]"}},
	}
}

// keysOf counts the keys among a script's arguments, judging by their prefixes.
func keysOf(args []any) int {
	for i, arg := range args {
		text, _ := arg.(string)
		if !strings.HasPrefix(text, "tenant:") && !strings.HasPrefix(text, "flunq:") {
			return i
		}
	}
	return len(args)
}

// parallelLoops does several things concurrently and repeatedly, so two workers have
// events of one execution at the same time.
const parallelLoops = `
document: {dsl: '1.0.3', namespace: test, name: wide, version: '1.0.0'}
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 1}}}]}
          - b: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 2}}}]}
          - c: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 3}}}]}
          - d: {for: {in: "[range(4)]"}, do: [{set: {set: {n: 4}}}]}
`

// ordinary uses what most workflows use.
const ordinary = `
document: {dsl: '1.0.3', namespace: test, name: faulty, version: '1.0.0'}
do:
  - both:
      fork:
        branches:
          - slow: {wait: PT5S, timeout: {after: P1D}}
          - counted:
              for: {in: "[1, 2]"}
              do:
                - add: {set: {sum: "${ (.sum // 0) + $item }"}}
  - quick: {set: {n: 1}, timeout: {after: PT1H}}
  - guarded:
      try:
        - fail: {raise: {error: {type: https://example.com/no, status: 500}}}
      catch:
        retry: {delay: PT1S, limit: {attempt: {count: 1}}}
        do:
          - note: {set: {caught: "${ $error.status }"}}
  - send: {emit: {event: {with: {type: done, time: '2026-01-01T00:00:00Z', data: {n: 1}}}}}
`

// Every planted bug is found within 2,000 seeds.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, b := range scriptBugs() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			wrong := b.onWorkload
			if b.on == "" || b.on == parallelLoops {
				wrong = b.onDocument
			}
			find := wrong(t)
			for seed := range uint64(2000) {
				if found := find(seed); found != "" {
					t.Logf("found at seed %d: %v", seed, found)
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

// onDocument runs one document with faults, and compares it with a run without.
func (b scriptBug) onDocument(t *testing.T) func(seed uint64) string {
	t.Helper()
	def, _, err := dsl.Parse("buggy.yaml", []byte(cmp.Or(b.on, ordinary)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Definition: def, ID: "x", Remote: true, Processes: 2, Executors: 2}
	plain := tried(t, cfg, sim.Plan{})
	cfg.Bug = b.planted(t)
	return func(seed uint64) string {
		cfg.Seed, cfg.Cluster = seed, seed%clusterEvery == 1
		got := tried(t, cfg, sim.Plan{Kinds: sim.Faults(), Rate: 60})
		if len(got.Broken) > 0 {
			return fmt.Sprint(got.Broken[0])
		}
		if got.Outcome != plain.Outcome {
			return fmt.Sprint("outcome ", got.Outcome)
		}
		return ""
	}
}

// onWorkload runs a workload with all, some or none of its faults.
func (b scriptBug) onWorkload(t *testing.T) func(seed uint64) string {
	t.Helper()
	i := slices.IndexFunc(workloads(), func(l workload) bool { return strings.HasPrefix(l.Name, b.on) })
	if i < 0 {
		t.Fatalf("there is no workload %q", b.on)
	}
	l := workloads()[i]
	cfg := l.config()
	cfg.Bug = b.planted(t)
	return func(seed uint64) string {
		cfg.Seed, cfg.Remote, cfg.Cluster = seed, seed%2 == 1, seed%clusterEvery == 1 && cfg.Waits == 0
		plan := l.plan()
		switch seed % 3 {
		case 0: // it may need no fault
			plan = sim.Plan{}
		case 1: // or be covered by repeated events
			plan.Kinds = slices.DeleteFunc(slices.Clone(plan.Kinds), func(k sim.FaultKind) bool { return k == sim.Duplicate })
		}
		if wrong := l.wrong(tried(t, cfg, plan)); len(wrong) > 0 {
			return wrong[0]
		}
		return ""
	}
}
