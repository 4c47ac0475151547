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
// found, so that the simulator does not lose its power.
func scriptBugs() []scriptBug {
	return []scriptBug{
		{
			name: "acknowledged before it is committed", changes: []string{"commit function commit if 1", "false"}, before: "commit",
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
		{name: "no check of the version", changes: []string{"commit function commit if 3", "false"}},
		{name: "a step is built upon one that was lost", on: parallelLoops, changes: []string{"commit if 28", "false"}},
		{name: "no check of whose message it is", changes: []string{
			"commit function commit if 1", "false", "commit function commit if 3", "false",
			"reply if 2", "true", "retry if 1", "false", "acknowledge if 1", "false", "dead_letter if 1", "false",
		}},
		{
			name: "a timer is taken out before it is published", changes: []string{"fire if 3", "true"}, before: "fire",
			ahead: func(args []any) [][]any {
				for _, arg := range args {
					if text, ok := arg.(string); ok && strings.HasPrefix(text, `{"tenant_id"`) {
						return [][]any{{"zrem", args[0], arg}}
					}
				}
				return nil
			},
		},
		{name: "what is claimed is not handled", changes: []string{"claim table 2", "nil"}},
		{name: "a timer that was taken back is set", changes: []string{"commit function cancel HSET 1", ""}},

		{name: "a version that is too new is written upon", on: "suspended while", changes: []string{"commit function commit ~= 2", "<"}},
		{name: "whoever has ended listens still", on: "each hears", changes: []string{"commit function listen SREM 1", ""}},
		{name: "the commit does not take timers out", on: "a child is cancelled with", changes: []string{
			"commit function cancel ZREM 1", "0", "commit function cancel remove_moved 1", "false", "set_timers function cancel if 4", "false",
		}},
		{name: "a timer is set for one that has ended", on: "a child is cancelled before", changes: []string{"set_timers table 1", "{}"}},
		{name: "one of the timers that fire stays", on: "timers that are set", changes: []string{"fire ZREM 1 unpack 1 arg 1", "@, math.min(2, #@)"}},
		{name: "what was not read is passed by", on: "timers that are set", changes: []string{"unread if 3", "true"}},
		{name: "an answer is given for another's message", on: "suspended while", changes: []string{"reply if 2", "true"}},
		{name: "the first event is published twice", on: "timers that are set", changes: []string{"commit function publish add_event 2", "(@ and @)"}},
		{name: "what is answered stays pending", on: "what takes longer", changes: []string{"reply XACK 1", ""}},
		{name: "what failed once is told of for ever", on: "what has faulted", changes: []string{"commit function commit HDEL 1", ""}},
		{name: "what kills is never given up", on: "what kills five", changes: []string{"claim HDEL 1", "0"}},
		{name: "an older timer of a key takes the place of a newer one", on: "of timers with one key", changes: []string{"set_timers function set if 1", "false"}},
		{name: "a timer that was moved is not taken back", on: "timers that an operator", changes: []string{"moved HGET 1", "false"}},
		{name: "what is handed back counts as a death", on: "messages that die", changes: []string{"claim if 1", "true", "claim HINCRBY 1 arg 4", "5"}},

		{name: "what is another's is renewed", on: "what has ended", changes: []string{"renew if 1", "true"}},
		{name: "it is claimed from whoever is at work", on: "what has ended", changes: []string{"claim XPENDING 1 arg 5", "0", "claim XAUTOCLAIM 1 arg 5", "0"}},
		{name: "whoever has ended is open for ever", on: "cancelled by", changes: []string{"commit function index ZREM 1", ""}},
		{name: "whoever has ended is in no list", on: "cancelled by", changes: []string{"commit function index ZADD 1", ""}},
		{name: "whoever goes on is among the faulted", on: "what has faulted", changes: []string{"commit function index if 4", "false"}},
		{name: "notes of timers stay", on: "timers that come due", changes: []string{"commit function clean string.find 1", "false"}},
		{name: "one begins twice", on: "cancelled by", changes: []string{"start if 1", "false"}},
		{name: "what is pending is trimmed", on: "what has ended", changes: []string{"trim if 4", "false"}},
		{name: "what is unread is trimmed", on: "what has ended", changes: []string{"trim if 3", "false"}},
		{name: "a child is removed while its parent goes on", on: "what has ended", changes: []string{"forget if 3", "false"}},
		{name: "an older timer takes the place of a newer one", on: "one timer for", changes: []string{"set_timers function set if 1", "false"}},
		{name: "a timer with a key is not taken back", on: "one timer for", changes: []string{"set_timers function cancel if 3", "false"}},
		{name: "the key of a timer that has fired is kept", on: "one timer for", changes: []string{"fire settle 1", ""}},

		{name: "who puts off tells nobody of it", on: "what cannot be done", changes: []string{"retry announce_first 1", ""}},
		{name: "who moves a timer tells nobody of it", on: "timers that an operator", changes: []string{"move_timer announce_first 1", ""}},
		{name: "an older cancellation takes back a newer timer", on: "a timer that is taken back", changes: []string{"set_timers function cancel if 2", "true"}},
		{name: "what was taken back is not remembered", on: "one timer for", changes: []string{"set_timers function cancel forget 1", ""}},
		{name: "a dead letter is replayed twice", on: "what was given up", changes: []string{"replay XDEL 1", ""}},
		{name: "a dead letter is written, and its message stays", on: "what cannot be done", changes: []string{"dead_letter XACK 1", ""}},
		{name: "what fires goes to the first tenant", on: "tenants have nothing", changes: []string{"fire XADD 1 arg 2", "KEYS[4]"}},
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
		cfg.Seed = seed
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
	i := slices.IndexFunc(workloads(), func(l workload) bool { return strings.HasPrefix(l.name, b.on) })
	if i < 0 {
		t.Fatalf("there is no workload %q", b.on)
	}
	l := workloads()[i]
	cfg := l.config()
	cfg.Bug = b.planted(t)
	return func(seed uint64) string {
		cfg.Seed, cfg.Remote = seed, seed%2 == 1
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
