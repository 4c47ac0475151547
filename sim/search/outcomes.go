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

	runs       int                                 // number of runs learned
	normalizer *normalizer                         // of values that depend on the start time of a run
	known      map[string]map[string]*outcomeGroup // by canonical id of an execution, or wholeRun, and by key
}

// wholeRun takes the place of an execution's id where whole runs are compared, see together.
const wholeRun = ""

func newOutcomes(s *Search) *outcomes {
	return &outcomes{Search: s, known: map[string]map[string]*outcomeGroup{}}
}

// outcomeGroup describes the runs without faults that ended alike.
type outcomeGroup struct {
	keys      keys
	ids       map[string]bool // of the executions that ended like this
	runs      int
	end       sim.End         // of the first of them, with its history only if it did not end
	calls     []sim.Call      // of the first of them and its descendants
	scenarios []Scenario      // of the first maxFacts of them
	facts     []*historyFacts // of the same scenarios
	loses     *failure        // a lost update in the first of them; nil: none
	finding   string          // signature of the finding about it; "" if there is none
}

// maxFacts is how many runs of a group are kept for comparisons.
const maxFacts = 16

// ended reports whether the executions of a group ended.
func (g *outcomeGroup) ended() bool { return g.end.Status.Ended() }

// expected reports whether the executions of a group end like this in all runs: they differ from the
// others of the run, for example because an event is meant for one of them.
func (g *outcomeGroup) expected(all []*outcomeGroup) bool {
	return !slices.ContainsFunc(all, func(other *outcomeGroup) bool {
		return other != g && slices.ContainsFunc(slices.Collect(maps.Keys(other.ids)), func(id string) bool { return g.ids[id] })
	})
}

// anyRun reports whether some kept run of the groups has a property.
func anyRun(groups []*outcomeGroup, has func(*historyFacts) bool) bool {
	return slices.ContainsFunc(groups, func(g *outcomeGroup) bool { return slices.ContainsFunc(g.facts, has) })
}

// learn adds the ends of a run without faults to the known outcomes.
func (o *outcomes) learn(v *verdict) {
	o.runs++
	t := v.trial
	if o.together() && len(t.Ends) > 0 {
		g := o.group(wholeRun, keys{whole: o.runKey(t)})
		if g.runs == 0 {
			g.end, g.calls, g.loses = wholeEnd(t), callsBelow(t, wholeRun), o.overwritten(t)
		}
		o.count(g, v, t.Ends[0])
	}
	for _, end := range t.Ends {
		g := o.group(canonicalID(end.ID), o.normalizer.keysOf(end))
		if g.runs == 0 {
			g.end, g.calls = end, callsBelow(t, end.ID)
		}
		o.count(g, v, end)
	}
}

// group returns the group of an execution, or of a whole run, that ended with these keys.
func (o *outcomes) group(id string, key keys) *outcomeGroup {
	if o.known[id] == nil {
		o.known[id] = map[string]*outcomeGroup{}
	}
	g := o.known[id][key.whole]
	if g == nil {
		g = &outcomeGroup{keys: key, ids: map[string]bool{}}
		o.known[id][key.whole] = g
	}
	return g
}

// count adds a run to its group.
func (o *outcomes) count(g *outcomeGroup, v *verdict, end sim.End) {
	if g.ended() {
		g.end.History = nil
	}
	g.runs++
	g.ids[end.ID] = true
	if len(g.facts) < maxFacts {
		g.facts = append(g.facts, o.factsOf(v.trial, end))
		g.scenarios = append(g.scenarios, v.scenario)
	}
}

// wholeEnd returns the end of a whole run. An execution that did not end determines its status.
func wholeEnd(t *sim.Trial) sim.End {
	whole := sim.End{ID: t.Execution, Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}
	for _, end := range t.Ends {
		if !end.Status.Ended() && whole.Status.Ended() {
			whole.Status, whole.History = end.Status, end.History
		}
	}
	return whole
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
		parts = append(parts, canonicalID(end.ID)+" "+o.normalizer.key(end))
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
// records when the responses arrived.
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
	return end.Status != "" && o.known[canonicalID(end.ID)][o.normalizer.key(end)] == nil
}

// unusualResult is like unusualOutcome but ignores external effects.
func (o *outcomes) unusualResult(end sim.End) bool {
	result := o.normalizer.keysOf(end).result
	for _, c := range o.known[canonicalID(end.ID)] {
		if c.keys.result == result {
			return false
		}
	}
	return end.Status != ""
}

// groupsOf returns the groups of an execution, or of whole runs: those that ended before the others,
// and the most frequent before the rarer ones.
func (o *outcomes) groupsOf(id string) []*outcomeGroup {
	return slices.SortedFunc(maps.Values(o.known[canonicalID(id)]), func(a, b *outcomeGroup) int {
		if a.ended() != b.ended() {
			if a.ended() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.runs-a.runs, cmp.Compare(a.scenarios[0].Seed, b.scenarios[0].Seed))
	})
}

// distinctEffects returns the external effects of a group that some other group does not have.
func (o *outcomes) distinctEffects(g *outcomeGroup, all []*outcomeGroup) []string {
	var out []string
	own := o.normalizer.effects(g.calls)
	for _, e := range slices.SortedFunc(maps.Keys(own), Effect.compare) {
		if !slices.ContainsFunc(all, func(other *outcomeGroup) bool { return o.normalizer.effects(other.calls)[e] != own[e] }) {
			continue
		}
		text := e.String()
		if own[e] > 1 {
			text = fmt.Sprintf("%d times %s", own[e], text)
		}
		out = append(out, text)
	}
	for _, at := range slices.Sorted(maps.Keys(g.end.Kept)) {
		value := string(event.Encode(g.end.Kept[at]))
		if slices.ContainsFunc(all, func(other *outcomeGroup) bool { return string(event.Encode(other.end.Kept[at])) != value }) {
			out = append(out, at+" keeps "+value)
		}
	}
	return out
}

// knownFindings returns the findings of runs without faults that a run confirms.
func (o *outcomes) knownFindings(t *sim.Trial) []string {
	var out []string
	add := func(g *outcomeGroup) {
		if g != nil && g.finding != "" && !slices.Contains(out, g.finding) {
			out = append(out, g.finding)
		}
	}
	if o.together() {
		add(o.known[wholeRun][o.runKey(t)])
		return out
	}
	for _, end := range t.Ends {
		add(o.known[canonicalID(end.ID)][o.normalizer.key(end)])
	}
	return out
}

// follows reports whether an execution ended differently only because another one did,
// which has its own finding: a child because it got another input, or its parent because
// of the child.
func (o *outcomes) follows(id string, usual, g *outcomeGroup) bool {
	if sim.Parent(id) != "" && !slices.ContainsFunc(usual.facts, func(f *historyFacts) bool { return f.input == g.facts[0].input }) {
		return true
	}
	if disagreement(usual.facts, g.facts) != nil {
		return false
	}
	for other, groups := range o.known {
		if strings.HasPrefix(other, id+".") && len(groups) > 1 {
			return true
		}
	}
	return false
}

// overwritten finds a lost update in a run without faults: an execution writes data derived
// from a value that another one has changed since it was read. If all runs lose the update,
// comparing runs does not reveal it.
func (o *outcomes) overwritten(t *sim.Trial) *failure {
	if !o.together() || len(t.Injected) > 0 || len(o.known[wholeRun]) != 1 {
		return nil // runs with different outcomes are a race
	}
	type read struct{ root, url string }
	since := map[read]*sim.Call{} // the change by another execution since the last read; nil: none
	calls := callsBelow(t, wholeRun)
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
					"%s read %s before %s changed it, and then overwrote the change with %s %s", c.Execution, c.URL, other.Execution, c.Method, c.Body)
			}
			for of := range since {
				if of.url == c.URL && of.root != root {
					since[of] = c
				}
			}
			delete(since, at) // the execution knows what it wrote
		}
	}
	return nil
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
