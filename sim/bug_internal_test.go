package sim

import (
	"cmp"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
)

// The kinds of mistakes that engines of this sort have had. Each is planted in the
// scripts, and must be found, so that the simulator cannot go blind.
var bugs = []struct {
	name string
	bug  bug
	text string // of the workflow that shows it, if not every one does
}{
	{"acknowledged before it is committed", bug{
		script: replaced(`if entry ~= '' and not mine[entry] and (all or look(stream, args[1], args[2], entry, entry, 1) == 0) then return 2 end`, ``),
		ahead: func(source string, args []any) [][]any {
			n := keysOf(args)
			if !isCommit(source) {
				return nil
			}
			first, _ := args[n+6].(int)
			if args[n+first] == "" {
				return nil
			}
			return [][]any{{"xack", args[0], args[n], args[n+first]}}
		},
	}, ""},
	{"no check of the version", bug{script: replaced(`if version ~= t.version then return 1 end`, ``)}, ""},
	{"a step is built upon one that was lost", bug{script: replaced(`lost[execution] and 1 or transition(`, `transition(`)}, wide},
	{"no check of whose message it is", bug{
		script: func(source string) string {
			source = strings.Replace(source, `if entry ~= '' and not mine[entry] and (all or look(stream, args[1], args[2], entry, entry, 1) == 0) then return 2 end`, ``, 1)
			source = strings.Replace(source, `if version ~= t.version then return 1 end`, ``, 1)
			source = strings.Replace(source, `if wrong == '' and mine[id] then`, `if wrong == '' then`, 1)
			return strings.Replace(source, `if not mine() then return 0 end`, ``, 1)
		},
	}, ""},
	{"a timer is taken out before it is published", bug{
		script: replaced(`if there[i] then`, `do`),
		ahead: func(source string, args []any) [][]any {
			if !strings.Contains(source, `local there = redis.call('ZMSCORE'`) {
				return nil
			}
			for i, arg := range args {
				if text, ok := arg.(string); ok && strings.HasPrefix(text, `{"tenant_id"`) {
					return [][]any{{"zrem", args[0], args[i]}}
				}
			}
			return nil
		},
	}, ""},
	{"what is claimed is not handled", bug{script: replaced(`out[#out + 1] = {id, tostring(deaths), claimed[1][2]}`, `redis.call('XACK', KEYS[1], group, id)`)}, ""},
	{"what another has read is not held", bug{script: replaced(
		`local claimed = #ARGV > 5 and redis.call('XCLAIM', stream, group, ARGV[2], 0, unpack(ARGV, 6)) or {}`, `local claimed = {unpack(ARGV, 6)}`)}, ""},
	{"what another has read is taken for what is next", bug{script: replaced(
		`if not next then return {at} end`, ``)}, ""},
	{"a timer that was taken back is set", bug{script: replaced(`redis.call('HSET', keys[key], tombstone, '1', 'notes', '1')`, ``)}, ""},
}

func replaced(part, by string) func(string) string {
	return func(source string) string { return strings.Replace(source, part, by, 1) }
}

// planted is a bug that knows whether it has changed anything: the engine may have
// moved away from under it.
type planted struct {
	bug

	changed bool
}

func (b bug) counted() *planted {
	p := &planted{bug: b}
	p.script = func(source string) string {
		out := b.script(source)
		p.changed = p.changed || out != source
		return out
	}
	return p
}

func (p *planted) check(t *testing.T) {
	t.Helper()
	if !p.changed {
		t.Error("it is not in the scripts: they have changed")
	}
}

func isCommit(source string) bool { return strings.Contains(source, `local function transition(`) }

// keysOf counts the keys of a script's arguments: what begins as keys do.
func keysOf(args []any) int {
	for i, arg := range args {
		text, _ := arg.(string)
		if !strings.HasPrefix(text, "tenant:") && !strings.HasPrefix(text, "flunq:") {
			return i
		}
	}
	return len(args)
}

// wide does several things at once, over and over: two workers have events of one
// execution in their hands.
const wide = `
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

// Every planted bug is found within 2,000 seeds.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			def, _, err := dsl.Parse("buggy.yaml", []byte(cmp.Or(b.text, faulty)))
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Definition: def, ID: "x", Remote: true, Processes: 2, Executors: 2}
			plain := try(t, cfg, Plan{})
			planted := b.bug.counted()
			defer planted.check(t)
			for seed := range uint64(2000) {
				cfg := cfg
				cfg.Seed, cfg.bug = seed, &planted.bug
				if got := try(t, cfg, Plan{Kinds: Faults(), Rate: 60}); len(got.Broken) > 0 || got.Outcome != plain.Outcome {
					t.Logf("found at seed %d after %d faults: %v", seed, len(got.Struck), got.Broken)
					return
				}
			}
			t.Error("it was not found")
		})
	}
}
