package sim

import (
	"slices"
	"strings"
	"testing"
)

// workloadBug is a mistake that only some workloads show.
type workloadBug struct {
	name string
	bug  bug
	on   string // the workload
}

var workloadBugs = []workloadBug{
	{"a version that is too new is written upon", bug{script: replaced(
		`if version ~= t.version then return 1 end`, `if tonumber(version) < tonumber(t.version) then return 1 end`)}, "suspended while"},
	{"whoever has ended listens still", bug{script: replaced(`redis.call('SREM', keys[i], id) end`, `end`)}, "each hears"},
	{"the commit does not take timers out", bug{script: func(source string) string {
		source = strings.Replace(source, `if redis.call('ZREM', timers, member) == 0 and not unmove(timers, keys[key], tombstone) and t.shelf == 0 then`, `if t.shelf == 0 then`, 1)
		return strings.Replace(source, `redis.call('ZREM', timers, member) == 1 or unmove(timers, execution, tombstone)`, `false`, 1)
	}}, "a child is cancelled with"},
	{"a timer is set for one that has ended", bug{script: replaced(
		`local ended = {completed = true, faulted = true, cancelled = true}`, `local ended = {}`)}, "a child is cancelled before"},
	{"one of the timers that fire stays", bug{script: replaced(`if #fired > 0 then redis.call('ZREM', timers`,
		`if #fired > 1 then table.remove(fired) end if #fired > 0 then redis.call('ZREM', timers`)}, "timers that are set"},
	{"what was not read is passed by", bug{script: replaced(`if #rest == 0 and not rest['err'] then`, `if not rest['err'] then`)}, "timers that are set"},
	{"an answer is given for another's message", bug{script: replaced(`if wrong == '' and mine[id] then`, `if wrong == '' then`)}, "suspended while"},
	{"the first event is published twice", bug{script: replaced(`    if done['err'] then
      shelve`, `    if i == 1 and name then add(stream, '*', event, name, task, text, event.definition) end
    if done['err'] then
      shelve`)}, "timers that are set"},
	{"it is acknowledged before all of it is written", bug{script: replaced(`if t.acknowledge then`, `if entry ~= '' then`)}, "each hears"},
	{"the answer to a call leaves its request pending", bug{script: replaced(`given, acks[#acks + 1], mine[id] = entry, id, nil`, `given, mine[id] = entry, nil`)}, "what takes longer"},
	{"what failed once is told of for ever", bug{script: replaced(`if retried then redis.call('HDEL', execution, 'output', 'error', 'ended') end`, ``)}, "what has faulted"},
	{"what kills is never given up", bug{script: replaced(`redis.call('HDEL', KEYS[2], 'alone ' .. field) == 1`, `false`)}, "what kills five"},
	{"an older timer of a key takes the place of a newer one", bug{script: replaced(`if kept and string.sub(kept, 1, 40) >= order then return end`, ``)}, "of timers with one key"},
	{"a timer that was moved is not taken back", bug{script: replacedAll(`local member = redis.call('HGET', execution, 'moved:' .. tombstone)`, `local member = false`)}, "timers that an operator"},
	{"what is handed back counts as a death", bug{script: replaced(`if idle < released and owner ~= me then`, `do deaths = deaths + 5`)}, "messages that die"},
}

func replacedAll(part, by string) func(string) string {
	return func(source string) string { return strings.ReplaceAll(source, part, by) }
}

// Every one of them is found within 2,000 seeds.
func TestWorkloadBugs(t *testing.T) {
	t.Parallel()
	for _, b := range append(slices.Clone(workloadBugs), restBugs...) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(workloads(), func(l workload) bool { return strings.HasPrefix(l.name, b.on) })
			l := workloads()[i]
			cfg := l.config()
			planted := b.bug.counted()
			cfg.bug = &planted.bug
			defer planted.check(t)
			for seed := range uint64(2000) {
				cfg.Seed, cfg.Remote = seed, seed%2 == 1
				plan := l.plan()
				switch seed % 3 {
				case 0: // it may need no fault
					plan = Plan{}
				case 1: // or be covered by repeated events
					plan.Kinds = slices.DeleteFunc(slices.Clone(plan.Kinds), func(k FaultKind) bool { return k == Duplicate })
				}
				if got := try(t, cfg, plan); len(l.wrong(got)) > 0 {
					t.Logf("found at seed %d after %d faults: %v", seed, len(got.Struck), l.wrong(got)[0])
					return
				}
			}
			t.Error("it was not found")
		})
	}
}
