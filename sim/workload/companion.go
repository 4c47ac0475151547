package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Companion is a run of one of the simulator's own workflows with a known result. A search
// also runs companions: they exercise parts of the engine that the user's document does not
// use.
type Companion struct {
	Name   string
	Config sim.Config // including its seed and its plan

	wrong func(*sim.Trial) []string
}

// Check replaces the violations of a trial by those that count for the companion: it removes
// expected dead letters and adds an unexpected result.
func (c *Companion) Check(t *sim.Trial) {
	wrong := c.wrong(t)
	broken := t.Broken
	t.Broken = nil
	for _, text := range wrong {
		i := slices.IndexFunc(broken, func(v sim.Violation) bool { return v.Error() == text })
		if i >= 0 {
			t.Broken = append(t.Broken, broken[i])
		} else {
			t.Broken = append(t.Broken, sim.Violation{Rule: ruleCompanion, Detail: text})
		}
	}
}

// ruleCompanion names the violation of a companion that breaks no other rule.
const ruleCompanion = "flunq's own workflows end as expected"

// The companions that are not workloads. A plan file contains the name of its companion.
const (
	modelledName  = "a modelled document"
	operatedName  = "a modelled document that operators change"
	suspendedName = "every kind of message, with a suspension" // an operator resumes the execution later
	cancelledName = "every kind of message, with a cancellation"
	changedName   = "every kind of timer, changed by operators" // its document is migrated, too
	damagedName   = "every kind of message, with a damaged history"
	poisonName    = "every kind of message, with a poison message"
	refusedName   = "a timer request fails at first"
)

// New returns the companion with the given name and seed. It returns an error if
// there is none.
func New(name string, seed uint64) (*Companion, error) {
	c, err := newCompanion(name, seed)
	if err == nil {
		c.Config.Watchful = true
		c.Config.Cluster = c.Config.Waits == 0 && sim.Choice(seed, "cluster "+name)%clusterEvery == 0
	}
	return c, err
}

// clusterEvery is the number of companions of which one is on a Redis Cluster.
const clusterEvery = 4

func newCompanion(name string, seed uint64) (*Companion, error) {
	switch name {
	case modelledName:
		return once(name, seed, func() (*Companion, error) {
			m, ok := modelOf(seed, modelledChildren())
			if !ok {
				return nil, fmt.Errorf("companion %q has no seed %d", name, seed)
			}
			m.cfg.Plan = &sim.Plan{}
			return &Companion{name, m.cfg, m.wrong}, nil
		})
	case operatedName:
		return once(name, seed, func() (*Companion, error) {
			m, ok := modelOf(seed, modelledChildren())
			if !ok {
				return nil, fmt.Errorf("companion %q has no seed %d", name, seed)
			}
			m.cfg.Plan, m.cfg.Acts = &sim.Plan{}, changesOf(seed, m.want.at)
			return &Companion{name, m.cfg, operated}, nil
		})
	case suspendedName, cancelledName, poisonName, changedName, damagedName:
		return messageCompanion(name, seed), nil
	case refusedName:
		return timersRefused(seed), nil
	}
	i := slices.IndexFunc(companionWorkloads(), func(l workload) bool { return l.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no companion is called %q", name)
	}
	l := companionWorkloads()[i]
	if seed >= cmp.Or(l.Seeds, usualSeeds) { // the workload's expectations hold only for its seeds
		return nil, fmt.Errorf("companion %q has no seed %d", name, seed)
	}
	of, err := once(name, 0, func() (*Companion, error) { return &Companion{Config: l.config()}, nil })
	if err != nil {
		return nil, err
	}
	cfg, plan := of.Config, l.plan()
	if seed < plainSeeds {
		plan = sim.Plan{}
	}
	cfg.Seed, cfg.Remote, cfg.Plan = seed, seed%2 == 1, &plan
	if l.CrashURL == "" && l.CrashType == "" && sim.Choice(seed, name)%2 == 0 {
		if cfg.Waits = usualWaits; plan.Harmless() {
			cfg.Waits = longWaits
		}
	}
	cfg.Thorough = seed == 1 && len(l.Acts) == 0 && l.CrashURL == "" && l.CrashType == ""
	return &Companion{name, cfg, l.wrong}, nil
}

// madeCompanions caches companions by name and number, because parsing their documents
// takes most of the time.
//
//nolint:gochecknoglobals // its entries never change
var madeCompanions sync.Map

// once returns the cached companion for name and n, or creates it with of.
func once(name string, n uint64, of func() (*Companion, error)) (*Companion, error) {
	key := fmt.Sprintf("%s %d", name, n)
	if known, ok := madeCompanions.Load(key); ok {
		if c, ok := known.(*Companion); ok {
			return c, nil
		}
	}
	c, err := of()
	if err == nil {
		madeCompanions.Store(key, c)
	}
	return c, err
}

// How long timer services block in their reads in half of the companions: longer than many of
// the timers, or without faults longer than all of them.
const (
	usualWaits = 7 * time.Hour
	longWaits  = 400 * day
)

// plainSeeds is the number of a workload's seeds that run without faults.
const plainSeeds = 2

// companionWorkloads returns the workloads, which never change.
//
//nolint:gochecknoglobals // constant after the first call
var companionWorkloads = sync.OnceValue(workloads)

// messageCompanion returns one of the companions that run the everyMessage workload.
func messageCompanion(name string, seed uint64) *Companion {
	if name == changedName {
		cfg := everyTimer().config()
		cfg.Seed, cfg.Remote, cfg.Plan, cfg.Acts = seed, seed%2 == 1, &sim.Plan{}, changes(seed)
		if seed%2 == 0 {
			cfg.Waits = longWaits
		}
		return &Companion{name, cfg, checkTimers}
	}
	cfg := everyMessage().config()
	cfg.Seed, cfg.Remote, cfg.Plan = seed, seed%2 == 1, &sim.Plan{}
	if name == poisonName {
		cfg.Processes, cfg.Remote, cfg.Poison = 1+int(seed%2), seed%2 == 1, 1+seed/2
		return &Companion{name, cfg, checkPoisoned}
	}
	if name == damagedName {
		cfg.Executions, cfg.Processes, cfg.Acts = 2, 1+int(seed%2), damages(seed) //nolint:gosec // 0 or 1
		return &Companion{name, cfg, checkDamaged}
	}
	at := everyMessageMoments()[seed/2%uint64(len(everyMessageMoments()))]
	of := []string{"x", "x.1"}[seed%2]
	cfg.Remote = seed/2%2 == 1
	if name == suspendedName {
		cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at}, {What: sim.Resume, Execution: of, After: at + 30*time.Hour}}
		if seed%3 == 0 { // the simulation resumes it at the end
			cfg.Acts = cfg.Acts[:1]
		}
		return &Companion{name, cfg, checkSuspended}
	}
	cfg.Acts = []sim.Act{{What: sim.Cancel, Execution: of, After: at}}
	if seed%3 == 1 { // it is suspended by then
		cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at - min(at, time.Millisecond)}, {What: sim.Cancel, Execution: of, After: at}}
	}
	return &Companion{name, cfg, func(t *sim.Trial) []string { return checkCancelled(t, of, at) }}
}

// timersRefused returns a companion in which a timer request fails at first: it succeeds at a
// later delivery, or the request is dead-lettered and the execution faults. The clock jumps,
// so that the next delivery comes together with other timers.
func timersRefused(seed uint64) *Companion {
	cfg := workload{
		Document: `
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(12)]"}, do: [{rest: {wait: {milliseconds: 40}}}]}
          - b: {for: {in: "[range(8)]"}, do: [{rest: {wait: {milliseconds: 90}}}]}
          - c: {for: {in: "[range(6)]"}, do: [{rest: {wait: {milliseconds: 150}}}]}
  - end: {set: {n: 1}}
`,
	}.config()
	cfg.Seed, cfg.Remote, cfg.Processes = seed, seed%2 == 1, 1
	cfg.Plan = &sim.Plan{Kinds: []sim.FaultKind{sim.Clock}, Rate: 8, Most: 8}
	refusals := 1 + int(seed%2) //nolint:gosec // 0 or 1
	dead := seed%3 == 2         //nolint:mnd // one in three
	if dead {
		cfg.Plan, refusals = &sim.Plan{}, delivery.DefaultPolicy().Attempts
	}
	cfg.Scripted.Refuse = func(n uint64) int {
		if n != seed%20 { //nolint:mnd // there are more requests
			return 0
		}
		return refusals
	}
	return &Companion{refusedName, cfg, func(t *sim.Trial) []string {
		want := `completed {"n":1}`
		if dead {
			want = "faulted "
			t.Broken = slices.DeleteFunc(t.Broken, func(v sim.Violation) bool {
				return v.DeadLetter() && strings.HasPrefix(v.Detail, string(event.TimerScheduled))
			})
		}
		wrong := errorsOf(t.Broken)
		if text := fmt.Sprintf("%s %s", t.Status, t.Output); text != want {
			wrong = append(wrong, fmt.Sprintf("it is %s, want %s", text, want))
		}
		return wrong
	}}
}

// everyTimer is a workload with timers of every kind.
func everyTimer() workload {
	return workload{
		Name: changedName,
		Document: `
timeout: {after: P90D}
do:
  - all:
      fork:
        branches:
          - a: {for: {in: "[range(5)]"}, do: [{rest: {wait: P2D}}], timeout: {after: P40D}}
          - b: {listen: {to: {one: {with: {type: com.example.x}}}}, timeout: {after: P50D}}
          - c:
              try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
              catch: {retry: {delay: P2D, backoff: {exponential: {}}, limit: {attempt: {count: 5, duration: P9D}, duration: P70D}}}
          - d: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}, timeout: {after: P60D}}
          - e: {fork: {compete: true, branches: [{short: {do: [{rest: {wait: P8D}}, {say: {set: {n: 7}}}]}}, {long: {do: [{rest: {wait: P16D}}, {say: {set: {n: 7}}}]}}]}}
  - rest: {wait: P1D}
  - end: {set: "${ [.[1][0], .[2].n, .[3].n, .[4].n] }"}
`,
		With: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
timeout: {after: P50D}
do: [{rest: {wait: P3D}}, {more: {wait: P4D, timeout: {after: P20D}}}, {say: {set: {n: 4}}}]
`},
		Mocks: `
http: [{respond: [{status: 503}, {status: 503}, {status: 503}, {body: {n: 3}}]}]
events: [{after: P12D, type: com.example.x, source: /x, data: 5}]
`,
	}
}

// timersOutput is the output of everyTimer, unless something times out.
const timersOutput = "[5,3,4,7]"

// changes returns operator actions on timers and documents.
func changes(seed uint64) (acts []sim.Act) {
	kinds := []sim.ActKind{sim.Move, sim.Migrate, sim.CancelTimer, sim.Fire, sim.Move, sim.Restore, sim.CancelTimer, sim.Suspend, sim.Migrate, sim.Move, sim.Cancel}
	for i := range uint64(4) {
		n := sim.Draw(seed, "changes", i)
		after := time.Duration((n>>16)%uint64(12*day)) + time.Second //nolint:gosec // the offset is never negative
		acts = append(acts, sim.Act{What: kinds[(seed+3*i)%uint64(len(kinds))], Execution: []string{"x", "x", "x.1"}[n%3], After: after})
	}
	return acts
}

// changesOf returns operator actions on a modelled document that runs for lasts: in the end
// operators retry it.
func changesOf(seed uint64, lasts time.Duration) (acts []sim.Act) {
	kinds := []sim.ActKind{sim.Suspend, sim.Move, sim.Migrate, sim.CancelTimer, sim.Fire, sim.Move, sim.Resume, sim.Restore}
	for i := range seed % 4 { //nolint:mnd // possibly none
		n := sim.Draw(seed, "changes", i)
		acts = append(acts, sim.Act{What: kinds[(n>>8)%uint64(len(kinds))], Execution: "x", After: time.Duration((n >> 16) % uint64(lasts+time.Second))}) //nolint:gosec // the offset is never negative
	}
	return append(acts, sim.Act{What: sim.Retry, Execution: "x", After: lasts + time.Hour}, sim.Act{What: sim.Retry, Execution: "x", After: lasts + 2*time.Hour})
}

// operated returns what is wrong with a run that operators have changed. Its result is not
// checked, because it may wait for an event that has passed.
func operated(t *sim.Trial) []string { return errorsOf(t.Broken) }

// checkTimers returns what is wrong with a run whose timers were changed.
func checkTimers(t *sim.Trial) []string {
	wrong := errorsOf(t.Broken)
	if !t.Status.Ended() || t.Status == decide.Completed && string(t.Output) != timersOutput {
		wrong = append(wrong, fmt.Sprintf("it is %s %s, want completed %s or a timeout", t.Status, t.Output, timersOutput))
	}
	return wrong
}

// damages returns actions that damage an execution of everyMessage when it receives events,
// and mend it again: some before the events are dead-lettered, some after.
func damages(seed uint64) (acts []sim.Act) {
	lasts := []time.Duration{time.Minute, 100 * time.Millisecond, time.Hour, 500 * time.Millisecond}
	for i, at := range []time.Duration{0, 5 * time.Hour, day, 12 * day} {
		n := sim.Draw(seed, "damage", uint64(i)) //nolint:gosec // the index is small
		from := at - min(at, time.Duration(n%2)*time.Second)
		acts = append(acts, sim.Act{What: sim.Damage, Execution: "x", After: from}, sim.Act{What: sim.Mend, Execution: "x", After: from + lasts[(seed+uint64(i))%4] + 2*time.Second}) //nolint:gosec // likewise
	}
	return acts
}

// checkDamaged returns what is wrong with a run with two messages, one of them damaged.
func checkDamaged(t *sim.Trial) []string {
	wrong := errorsOf(t.Broken)
	for _, id := range []string{"x", "x-2"} {
		i := slices.IndexFunc(t.Ends, func(end sim.End) bool { return end.ID == id })
		if text := fmt.Sprintf("%s %s", t.Ends[i].Status, t.Ends[i].Output); text != "completed "+everyMessageOutput {
			wrong = append(wrong, fmt.Sprintf("%s is %s, want completed %s", id, text, everyMessageOutput))
		}
	}
	return wrong
}

// checkSuspended returns what is wrong with a run of everyMessage that was suspended for a
// while.
func checkSuspended(t *sim.Trial) []string {
	wrong := errorsOf(t.Broken)
	if text := fmt.Sprintf("%s %s", t.Status, t.Output); text != "completed "+everyMessageOutput {
		wrong = append(wrong, fmt.Sprintf("it is %s, want completed %s", text, everyMessageOutput))
	}
	return wrong
}

// checkCancelled returns what is wrong with a run of everyMessage that was cancelled, or whose
// child was.
func checkCancelled(t *sim.Trial, of string, at time.Duration) []string {
	wrong := errorsOf(t.Broken)
	history := t.Ends[0].History
	if of != "x" || at >= everyMessageLasts || len(history) == 0 {
		return wrong
	}
	if last := history[len(history)-1].Time.Sub(sim.Epoch()); t.Status != decide.Cancelled || last > at+time.Second {
		wrong = append(wrong, fmt.Sprintf("it is %s after %v, but was cancelled after %v", t.Status, last, at))
	}
	return wrong
}

// checkPoisoned returns what is wrong with a run of everyMessage in which a message crashes
// processes.
func checkPoisoned(t *sim.Trial) []string {
	wrong := errorsOf(t.Broken)
	if over := t.Ends[0].Status.Ended() || t.Operated.Retried["x"] > 0 || t.Operated.PoisonType == "com.example.x"; !over {
		wrong = append(wrong, fmt.Sprintf("it is %s after processes crashed on %s", t.Ends[0].Status, t.Operated.PoisonType))
	}
	return wrong
}

func errorsOf(broken []sim.Violation) (out []string) {
	for _, v := range broken {
		out = append(out, v.Error())
	}
	return out
}

// everyMessage is a workload that uses every kind of message: calls, timers, events and child
// workflows.
func everyMessage() workload {
	return workload{
		Name: "every kind of message",
		Document: `
do:
  - all:
      fork:
        branches:
          - a: {do: [{rest: {wait: P1D}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}, timeout: {after: P9D}}}]}
          - b: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - c: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - d: {try: [{none: {run: {workflow: {namespace: test, name: none, version: '1.0.0', input: {}}}}}], catch: {do: [{end: {set: {n: 4}}}]}}
  - end: {set: "${ [.[0].n, .[1].n, .[2][0], .[3].n] }"}
`,
		With: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: PT5H}}, {ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]
`},
		Mocks: `
http: [{respond: {latency: PT3S, body: {n: 3}}}]
events: [{after: P12D, type: com.example.x, source: /x, data: 5}]
`,
	}
}

// The output of everyMessage, and its duration.
const (
	everyMessageOutput = "[3,3,5,4]"
	everyMessageLasts  = 12 * day
)

// everyMessageMoments returns the moments at which something happens in everyMessage, each
// followed by one shortly after.
func everyMessageMoments() []time.Duration {
	const (
		call  = 3 * time.Second
		child = 5 * time.Hour
	)
	var out []time.Duration
	for _, at := range []time.Duration{0, child, child + call, day, day + call, everyMessageLasts} {
		out = append(out, at, at+time.Second)
	}
	return out
}

// companionRun identifies a companion.
type companionRun struct {
	name string
	seed uint64
}

// Nth returns the name and seed of companion number n, from 0. The most revealing ones come
// first. ok is false if n is past the last one.
func Nth(n int) (name string, seed uint64, ok bool) {
	all := companionRuns()
	if n >= len(all) {
		return "", 0, false
	}
	return all[n].name, all[n].seed, true
}

//nolint:gochecknoglobals // constant after the first call
var companionRuns = sync.OnceValue(func() []companionRun {
	of := func(seed uint64) (some []companionRun) {
		for _, l := range companionWorkloads() {
			if seed < cmp.Or(l.Seeds, usualSeeds) {
				some = append(some, companionRun{l.Name, seed})
			}
		}
		return some
	}
	var messages, modelled, changed []companionRun
	for n := range uint64(24) { // each moment, for both executions
		messages = append(messages, companionRun{poisonName, 2*n + n%2}, companionRun{suspendedName, 7 * n % 24}, companionRun{cancelledName, 11 * n % 24}, companionRun{changedName, n}, companionRun{damagedName, n}, companionRun{refusedName, refusedSeed(n)})
	}
	for _, n := range revealingModels() {
		modelled = append(modelled, companionRun{modelledName, n})
	}
	for _, n := range []uint64{172, 189, 145, 215, 101, 97, 132, 268, 290, 70, 147, 160, 59, 15, 238, 181, 115, 137, 22, 232, 78, 53, 72, 223} { // includes faulted ones
		changed = append(changed, companionRun{operatedName, n})
	}
	known := read("language")
	language := slices.IndexFunc(of(0), func(c companionRun) bool {
		return !slices.ContainsFunc(known, func(l workload) bool { return l.Name == c.name })
	})
	all := append(of(0)[:language:language], mixed(of(0)[language:], messages[:28], modelled[:12], changed[:12])...)
	rest := mixed(of(1), of(2), messages[28:], modelled[12:], changed[12:], of(3))
	for seed := uint64(4); seed < 16; seed++ {
		rest = append(rest, of(seed)...)
	}
	return append(all, rest...)
})

// mixed interleaves lists, spreading each evenly over the result.
func mixed(lists ...[]companionRun) (all []companionRun) {
	longest := 0
	for _, list := range lists {
		longest = max(longest, len(list))
	}
	for i := range longest {
		for _, list := range lists {
			for at := i * len(list) / longest; at < (i+1)*len(list)/longest; at++ {
				all = append(all, list[at])
			}
		}
	}
	return all
}

// refusedSeed returns the n-th seed of timersRefused; the most revealing ones come first.
func refusedSeed(n uint64) uint64 {
	if first := []uint64{2, 24, 5, 48}; n < uint64(len(first)) {
		return first[n]
	}
	return 3 + n
}

// revealingModels returns the numbers of the most revealing modelled documents: each has found
// a planted bug that no other run had found.
func revealingModels() []uint64 {
	return []uint64{1, 3, 9, 186, 81, 22, 42, 40, 197, 37, 6, 188, 2, 5, 10, 25, 27, 39, 62, 75, 79, 80, 163, 4, 7, 8, 11, 12, 13}
}
