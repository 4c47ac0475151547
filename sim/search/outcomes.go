package search

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// outcomes holds the ways in which executions end without faults, each with example runs. They
// are learned from the plain runs, and every other run is compared with them.
type outcomes struct {
	*Search

	runs       int                          // number of runs learned
	suppressed *pattern                     // values that depend on the start time of a run
	known      map[string]map[string]*class // by execution, by key
	whole      map[string]*class            // outcomes of whole runs, see together
}

func newOutcomes(s *Search) *outcomes {
	return &outcomes{Search: s, known: map[string]map[string]*class{}, whole: map[string]*class{}}
}

// class is the set of runs without faults that ended alike.
type class struct {
	keys      keys
	end       sim.End       // of the first of them, without its history
	calls     []sim.Call    // of the first of them and its descendants
	history   []event.Event // of one that did not end
	outcome   Outcome
	loses     *failure // a lost update in it; nil: none
	finding   string   // signature of the finding about it; "" if there is none
	scenarios []Scenario
	facts     []*historyFacts // of the first of them
}

// maxFacts is how many runs of a class are kept for comparisons.
const maxFacts = 16

// ended reports whether the executions of a class ended.
func (c *class) ended() bool { return c.end.Status.Ended() }

// anyRun reports whether some kept run of the classes has a property.
func anyRun(classes []*class, has func(*historyFacts) bool) bool {
	return slices.ContainsFunc(classes, func(c *class) bool { return slices.ContainsFunc(c.facts, has) })
}

// learn adds the ends of a run without faults to the known outcomes.
func (o *outcomes) learn(v *verdict) {
	o.runs++
	if o.together() && len(v.trial.Ends) > 0 {
		o.learnRun(v)
	}
	for _, end := range v.trial.Ends {
		id := canonicalID(end.ID)
		if o.known[id] == nil {
			o.known[id] = map[string]*class{}
		}
		key := o.suppressed.keysOf(end)
		c := o.known[id][key.whole]
		if c == nil {
			c = &class{keys: key, end: end, calls: callsBelow(v.trial, end.ID)}
			c.outcome = Outcome{Status: string(end.Status), Output: end.Output, Error: end.Error, Calls: c.calls, Kept: end.Kept, Stop: v.trial.Stop}
			if c.end.History = nil; !c.ended() {
				c.history = end.History
			}
			o.known[id][key.whole] = c
		}
		o.count(c, v, end)
	}
}

// learnRun adds a run without faults to the known outcomes.
func (o *outcomes) learnRun(v *verdict) {
	t := v.trial
	key := o.runKey(t)
	c := o.whole[key]
	if c == nil {
		c = &class{keys: keys{whole: key}, end: sim.End{Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}, calls: callsBelow(t, "")}
		for _, end := range t.Ends { // one that did not end determines the outcome
			if !end.Status.Ended() && c.ended() {
				c.end.Status, c.end.ID, c.history = end.Status, end.ID, end.History
			}
		}
		c.outcome = Outcome{Status: string(c.end.Status), Output: t.Output, Error: t.Error, Calls: c.calls, Kept: t.Shared, Stop: t.Stop}
		o.whole[key] = c
		if f, ok := o.overwritten(t); ok {
			c.loses = &f
		}
	}
	o.count(c, v, t.Ends[0])
}

// count adds a run to its class.
func (o *outcomes) count(c *class, v *verdict, end sim.End) {
	c.outcome.Runs++
	if len(c.facts) < maxFacts {
		c.facts = append(c.facts, o.factsOf(v.trial, end))
		c.scenarios = append(c.scenarios, v.scenario)
	}
}

// canonicalID returns the id that an execution would have if its root execution were the first
// one of the run.
func canonicalID(id string) string {
	root := sim.Root(id)
	if at := strings.LastIndexByte(root, '-'); at > 0 && strings.Trim(root[at+1:], "0123456789") == "" {
		return root[:at] + id[len(root):]
	}
	return id
}

// runKey is equal for runs with the same outcomes, regardless of which execution has which.
func (o *outcomes) runKey(t *sim.Trial) string {
	var parts []string
	for _, end := range t.Ends {
		parts = append(parts, canonicalID(end.ID)+" "+o.suppressed.key(end))
	}
	slices.Sort(parts)
	sum := sha256.Sum256(append([]byte(strings.Join(parts, "\n")), event.Encode(t.Shared)...))
	return string(sum[:])
}

// factsOf returns the facts of an execution, including its calls if their order matters.
func (o *outcomes) factsOf(t *sim.Trial, end sim.End) *historyFacts {
	f := factsOf(end.History)
	if o.Config.Mocks.Stateful() {
		f.calls = o.callsOf(t, end)
	}
	return f
}

// callsOf returns the calls of an execution and of those with the same root, or of all
// executions if they share state, in the order in which they were carried out. A history only
// records when the answers arrived.
func (o *outcomes) callsOf(t *sim.Trial, end sim.End) *historyFacts {
	f := &historyFacts{place: map[string]int{}}
	if len(end.History) > 0 {
		f.start = end.History[0].Time
	}
	root := sim.Root(end.ID)
	for _, c := range t.Answered {
		by, id, of := sim.Root(c.Execution), canonicalID(c.Execution), ""
		if o.together() {
			by, id, of = root, c.Execution, c.Execution
		}
		if by == root {
			f.add(stepFact{"call " + id + " " + c.Task + " " + c.Method + " " + c.URL, c.Task, of, stepAnswered, c.At})
		}
	}
	return f
}

// unusualOutcome reports whether an execution ended as none does in runs without faults.
func (o *outcomes) unusualOutcome(end sim.End) bool {
	return end.Status != "" && o.known[canonicalID(end.ID)][o.suppressed.key(end)] == nil
}

// unusualResult is like unusualOutcome but ignores external effects.
func (o *outcomes) unusualResult(end sim.End) bool {
	result := o.suppressed.keysOf(end).result
	for _, c := range o.known[canonicalID(end.ID)] {
		if c.keys.result == result {
			return false
		}
	}
	return end.Status != ""
}

// classes returns the classes of an execution, see classes.
func (o *outcomes) classes(id string) []*class { return classes(o.known[id]) }

// classes sorts classes: those that ended first, and within each group the most frequent
// first.
func classes(of map[string]*class) []*class {
	return slices.SortedFunc(maps.Values(of), func(a, b *class) int {
		if a.ended() != b.ended() {
			if a.ended() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.outcome.Runs-a.outcome.Runs, cmp.Compare(a.scenarios[0].Seed, b.scenarios[0].Seed))
	})
}

// distinctEffects returns the external effects of a class that some other class does not have.
func (o *outcomes) distinctEffects(c *class, all []*class) []string {
	var out []string
	own := o.suppressed.effects(c.calls)
	for _, e := range slices.SortedFunc(maps.Keys(own), Effect.compare) {
		if !slices.ContainsFunc(all, func(other *class) bool { return o.suppressed.effects(other.calls)[e] != own[e] }) {
			continue
		}
		text := e.String()
		if own[e] > 1 {
			text = fmt.Sprintf("%d times %s", own[e], text)
		}
		out = append(out, text)
	}
	for _, at := range slices.Sorted(maps.Keys(c.end.Kept)) {
		value := string(event.Encode(c.end.Kept[at]))
		if slices.ContainsFunc(all, func(other *class) bool { return string(event.Encode(other.end.Kept[at])) != value }) {
			out = append(out, at+" keeps "+value)
		}
	}
	return out
}

// knownFindings returns the findings of runs without faults that a run confirms.
func (o *outcomes) knownFindings(t *sim.Trial) []string {
	var out []string
	add := func(c *class) {
		if c != nil && c.finding != "" && !slices.Contains(out, c.finding) {
			out = append(out, c.finding)
		}
	}
	if o.together() {
		add(o.whole[o.runKey(t)])
		return out
	}
	for _, end := range t.Ends {
		add(o.known[canonicalID(end.ID)][o.suppressed.key(end)])
	}
	return out
}

// follows reports whether an execution ended differently only because another one did,
// which has its own finding: a child because it got another input, or its parent because
// of the child.
func (o *outcomes) follows(id string, usual, c *class) bool {
	if sim.Parent(id) != "" && !slices.ContainsFunc(usual.facts, func(f *historyFacts) bool { return f.input == c.facts[0].input }) {
		return true
	}
	if _, _, ok := disagreement(usual.facts, c.facts); ok {
		return false
	}
	for other, classes := range o.known {
		if strings.HasPrefix(other, id+".") && len(classes) > 1 {
			return true
		}
	}
	return false
}

// overwritten finds a lost update in a run without faults: an execution writes data derived
// from a value that another one has changed since it was read. If all runs lose the update,
// comparing runs does not reveal it.
func (o *outcomes) overwritten(t *sim.Trial) (failure, bool) {
	if !o.together() || len(t.Injected) > 0 || len(o.whole) != 1 {
		return failure{}, false // runs with different outcomes are a race
	}
	type read struct{ root, url string }
	since := map[read]*sim.Call{} // the change by another execution since the last read; nil: none
	calls := callsBelow(t, "")
	for i := range calls {
		c := &calls[i]
		root := sim.Root(c.Execution)
		at := read{root, c.URL}
		_, shared := t.Shared[c.URL]
		switch other := since[at]; {
		case !shared || c.Status >= 300: // it changed nothing
		case c.Safe():
			since[at] = nil
		default:
			if task := o.writer(c); other != nil && task != nil {
				return failed(SideEffect, RuleOverwritten, c.Execution, task.Ref,
					"%s read %s before %s changed it, and then overwrote the change with %s %s", c.Execution, c.URL, other.Execution, c.Method, c.Body), true
			}
			for of := range since {
				if of.url == c.URL && of.root != root {
					since[of] = c
				}
			}
			delete(since, at) // the execution knows what it wrote
		}
	}
	return failure{}, false
}

// writer returns the task that made a call, if its body is computed and it sends no
// precondition, such as If-Match; nil otherwise.
func (o *outcomes) writer(c *sim.Call) *dsl.Task {
	for _, def := range o.Config.Definitions() {
		t := def.Task(event.ParseRun(c.Task).Ref)
		if t == nil {
			continue
		}
		method, _ := request(t)
		if method == c.Method && (method == "PUT" || method == "PATCH") && !checksVersion(t) && strings.Contains(string(event.Encode(withOf(t)["body"])), "${") {
			return t
		}
	}
	return nil
}
