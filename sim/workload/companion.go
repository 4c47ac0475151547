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
	Config sim.Config // including its seed and its plan

	wrong func(*sim.Trial) []string
}

// Check replaces the violations of a trial with those that count for the companion: it removes
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

// New returns the companion with the given name and seed, or an error if there is none. The
// definitions and mocks of its configuration are shared with other companions.
func New(name string, seed uint64) (*Companion, error) {
	known, err := newCompanion(name, seed)
	if err != nil {
		return nil, err
	}
	c := *known // which may be cached
	c.Config.Watchful = true
	c.Config.Cluster = c.Config.Waits == 0 && sim.Choice(seed, "cluster "+name)%clusterEvery == 0
	return &c, nil
}

// clusterEvery is N if one in N companions runs on a Redis Cluster.
const clusterEvery = 4

func newCompanion(name string, seed uint64) (*Companion, error) {
	switch name {
	case modelledName, operatedName:
		return once(name, seed, func() (*Companion, error) { return modelledCompanion(name, seed) })
	case suspendedName, cancelledName, poisonName, damagedName:
		return messageCompanion(name, seed), nil
	case changedName:
		return timersChanged(seed), nil
	case refusedName:
		return timersRefused(seed), nil
	}
	i := slices.IndexFunc(companionWorkloads(), func(l workload) bool { return l.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no companion is named %q", name)
	}
	l := companionWorkloads()[i]
	if seed >= cmp.Or(l.Seeds, defaultSeeds) { // the workload's expectations hold only for its seeds
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
		if cfg.Waits = defaultWaits; plan.Harmless() {
			cfg.Waits = longWaits
		}
	}
	cfg.Thorough = seed == 1 && len(l.Acts) == 0 && l.CrashURL == "" && l.CrashType == ""
	return &Companion{cfg, l.wrong}, nil
}

// madeCompanions caches companions by name and number, because parsing their documents
// takes most of the time.
//
//nolint:gochecknoglobals // its entries never change
var madeCompanions sync.Map

// once returns the cached companion for name and n, or creates it with of.
func once(name string, n uint64, of func() (*Companion, error)) (*Companion, error) {
	key := fmt.Sprintf("%s %d", name, n)
	known, _ := madeCompanions.Load(key)
	if c, ok := known.(*Companion); ok {
		return c, nil
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
	defaultWaits = 7 * time.Hour
	longWaits    = 400 * day
)

// plainSeeds is the number of a workload's seeds that run without faults.
const plainSeeds = 2

// companionWorkloads returns the workloads, which never change.
//
//nolint:gochecknoglobals // constant after the first call
var companionWorkloads = sync.OnceValue(workloads)

// modelledCompanion returns a companion with a modelled document.
func modelledCompanion(name string, seed uint64) (*Companion, error) {
	m, ok := modelOf(seed, modelledChildren())
	if !ok {
		return nil, fmt.Errorf("companion %q has no seed %d", name, seed)
	}
	c := &Companion{m.cfg, m.wrong}
	c.Config.Plan = &sim.Plan{}
	if name == operatedName {
		c.Config.Acts = changesOf(seed, m.want.at)
		c.wrong = func(t *sim.Trial) []string { return errorsOf(t.Broken) } // it may wait for an event that has passed
	}
	return c, nil
}

// variation returns a companion that varies a workload of variations.yaml. end returns what is
// wrong with how a run ended; "" if nothing is.
func variation(cfg sim.Config, end func(*sim.Trial) string) *Companion {
	return &Companion{cfg, func(t *sim.Trial) []string {
		wrong := errorsOf(t.Broken)
		if text := end(t); text != "" {
			wrong = append(wrong, text)
		}
		return wrong
	}}
}

// variedWorkloads returns the workloads of variations.yaml by their names.
//
//nolint:gochecknoglobals // constant after the first call
var variedWorkloads = sync.OnceValue(func() map[string]workload {
	all := map[string]workload{}
	for _, l := range read("variations") {
		all[l.Name] = l
	}
	return all
})

// varied returns the configuration of a workload of variations.yaml without faults.
func varied(name string, seed uint64) sim.Config {
	cfg := variedWorkloads()[name].config()
	cfg.Seed, cfg.Remote, cfg.Plan = seed, seed%2 == 1, &sim.Plan{}
	return cfg
}

// unlike describes how the end of an execution differs from the wanted one; "" if it does not.
func unlike(t *sim.Trial, id, want string) string {
	end := t.End(id)
	if end == nil {
		return id + " is missing"
	}
	if got := fmt.Sprintf("%s %s", end.Status, end.Output); got != want {
		return fmt.Sprintf("%s is %s, want %s", id, got, want)
	}
	return ""
}

// messageCompanion returns one of the companions that run the workload with every kind of
// message: calls, timers, events and child workflows.
func messageCompanion(name string, seed uint64) *Companion {
	cfg := varied(everyMessage, seed)
	moments := everyMessageMoments()
	at, of := moments[seed/2%uint64(len(moments))], []string{"x", "x.1"}[seed%2]
	completed := func(t *sim.Trial) string { return unlike(t, "x", everyMessageEnd) }
	switch name {
	case poisonName:
		cfg.Processes, cfg.Poison = 1+int(seed%2), 1+seed/2
		return variation(cfg, func(t *sim.Trial) string {
			if over := t.Ends[0].Status.Ended() || t.Operated.Retried["x"] > 0 || t.Operated.PoisonType == "com.example.x"; !over {
				return fmt.Sprintf("it is %s after processes crashed on %s", t.Ends[0].Status, t.Operated.PoisonType)
			}
			return ""
		})
	case damagedName:
		cfg.Executions, cfg.Processes, cfg.Acts = 2, 1+int(seed%2), damages(seed)
		return variation(cfg, func(t *sim.Trial) string { return cmp.Or(completed(t), unlike(t, "x-2", everyMessageEnd)) })
	case suspendedName:
		cfg.Remote = seed/2%2 == 1
		cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at}, {What: sim.Resume, Execution: of, After: at + 30*time.Hour}}
		if seed%3 == 0 { // the simulation resumes it at the end
			cfg.Acts = cfg.Acts[:1]
		}
		return variation(cfg, completed)
	default:
		cfg.Remote = seed/2%2 == 1
		cfg.Acts = []sim.Act{{What: sim.Cancel, Execution: of, After: at}}
		if seed%3 == 1 { // it is suspended by then
			cfg.Acts = []sim.Act{{What: sim.Suspend, Execution: of, After: at - min(at, time.Millisecond)}, {What: sim.Cancel, Execution: of, After: at}}
		}
		return variation(cfg, func(t *sim.Trial) string { return uncancelled(t, of, at) })
	}
}

// uncancelled describes a run that did not end although it, or its child, was cancelled; "" if it
// did end.
func uncancelled(t *sim.Trial, of string, at time.Duration) string {
	history := t.Ends[0].History
	if of != "x" || at >= everyMessageLasts || len(history) == 0 {
		return ""
	}
	if last := history[len(history)-1].Time.Sub(sim.Epoch()); t.Status != decide.Cancelled || last > at+time.Second {
		return fmt.Sprintf("it is %s after %v, but was cancelled after %v", t.Status, last, at)
	}
	return ""
}

// timersChanged returns a companion whose timers, of every kind, and documents are changed by
// operators.
func timersChanged(seed uint64) *Companion {
	cfg := varied(everyTimer, seed)
	kinds := []sim.ActKind{sim.Move, sim.Migrate, sim.CancelTimer, sim.Fire, sim.Move, sim.Restore, sim.CancelTimer, sim.Suspend, sim.Migrate, sim.Move, sim.Cancel}
	for i := range uint64(4) {
		n := sim.Draw(seed, "changes", i)
		after := time.Duration((n>>16)%uint64(12*day)) + time.Second // the offset is never negative
		cfg.Acts = append(cfg.Acts, sim.Act{What: kinds[(seed+3*i)%uint64(len(kinds))], Execution: []string{"x", "x", "x.1"}[n%3], After: after})
	}
	if seed%2 == 0 {
		cfg.Waits = longWaits
	}
	return variation(cfg, func(t *sim.Trial) string {
		const output = "[5,3,4,7]" // unless something times out
		if !t.Status.Ended() || t.Status == decide.Completed && string(t.Output) != output {
			return fmt.Sprintf("it is %s %s, want completed %s or a timeout", t.Status, t.Output, output)
		}
		return ""
	})
}

// timersRefused returns a companion in which a timer request fails at first: it succeeds at a
// later delivery, or the request is dead-lettered and the execution faults. The clock jumps,
// so that the next delivery comes together with other timers.
func timersRefused(seed uint64) *Companion {
	cfg := varied(manyTimers, seed)
	cfg.Plan = &sim.Plan{Kinds: []sim.FaultKind{sim.Clock}, Rate: 8, Most: 8}
	refusals := 1 + int(seed%2)
	dead := seed%3 == 2
	want := `completed {"n":1}`
	if dead {
		cfg.Plan, refusals, want = &sim.Plan{}, delivery.DefaultPolicy().Attempts, "faulted "
	}
	cfg.Scripted.Refuse = func(n uint64) int {
		if n != seed%20 { // there are more requests
			return 0
		}
		return refusals
	}
	c := variation(cfg, func(t *sim.Trial) string { return unlike(t, "x", want) })
	wrong := c.wrong
	c.wrong = func(t *sim.Trial) []string {
		if dead {
			t.Broken = slices.DeleteFunc(t.Broken, func(v sim.Violation) bool {
				return v.DeadLetter() && strings.HasPrefix(v.Detail, string(event.TimerScheduled))
			})
		}
		return wrong(t)
	}
	return c
}

// changesOf returns operator actions on a modelled document that runs for lasts: in the end
// operators retry it.
func changesOf(seed uint64, lasts time.Duration) (acts []sim.Act) {
	kinds := []sim.ActKind{sim.Suspend, sim.Move, sim.Migrate, sim.CancelTimer, sim.Fire, sim.Move, sim.Resume, sim.Restore}
	for i := range seed % 4 { // possibly none
		n := sim.Draw(seed, "changes", i)
		acts = append(acts, sim.Act{What: kinds[(n>>8)%uint64(len(kinds))], Execution: "x", After: time.Duration((n >> 16) % uint64(lasts+time.Second))}) // the offset is never negative
	}
	return append(acts, sim.Act{What: sim.Retry, Execution: "x", After: lasts + time.Hour}, sim.Act{What: sim.Retry, Execution: "x", After: lasts + 2*time.Hour})
}

// damages returns actions that damage an execution when it receives events, and mend it again:
// some before the events are dead-lettered, some after.
func damages(seed uint64) (acts []sim.Act) {
	lasts := []time.Duration{time.Minute, 100 * time.Millisecond, time.Hour, 500 * time.Millisecond}
	for i, at := range []time.Duration{0, 5 * time.Hour, day, 12 * day} {
		n := sim.Draw(seed, "damage", uint64(i)) // the index is small
		from := at - min(at, time.Duration(n%2)*time.Second)
		acts = append(acts, sim.Act{What: sim.Damage, Execution: "x", After: from}, sim.Act{What: sim.Mend, Execution: "x", After: from + lasts[(seed+uint64(i))%4] + 2*time.Second})
	}
	return acts
}

func errorsOf(broken []sim.Violation) (out []string) {
	for _, v := range broken {
		out = append(out, v.Error())
	}
	return out
}

// The workloads of variations.yaml.
const (
	everyMessage = "every kind of message"
	everyTimer   = "every kind of timer"
	manyTimers   = "many timers"
)

// How the execution of everyMessage ends, and how long it lasts.
const (
	everyMessageEnd   = "completed [3,3,5,4]"
	everyMessageLasts = 12 * day
)

// everyMessageMoments returns the moments at which something happens in everyMessage, each
// followed by one shortly after.
func everyMessageMoments() (out []time.Duration) {
	const call, child = 3 * time.Second, 5 * time.Hour
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
			if seed < cmp.Or(l.Seeds, defaultSeeds) {
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
