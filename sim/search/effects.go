package search

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// usualEffects holds the external effects of executions without faults. They reveal which
// effects of a run with faults are repeated or were never undone.
type usualEffects struct {
	outcomes *outcomes
	known    map[string]*treeEffects // by root execution
}

// treeEffects records the external effects of the trees of one root execution in runs without
// faults.
type treeEffects struct {
	effects map[string]bool // as strings
	most    map[Effect]int
	tasks   map[string]bool // which tasks made which calls, as strings
	kept    map[string]bool
}

// learn records the external effects of a run without faults.
func (u *usualEffects) learn(t *sim.Trial) {
	for _, one := range trees(t) {
		d := u.known[canonicalID(one.root.ID)]
		if d == nil {
			d = &treeEffects{map[string]bool{}, map[Effect]int{}, map[string]bool{}, map[string]bool{}}
			u.known[canonicalID(one.root.ID)] = d
		}
		effects := u.outcomes.normalizer.effects(one.calls)
		for e, n := range effects {
			d.most[e] = max(d.most[e], n)
		}
		d.effects[effectsText(effects)] = true
		d.tasks[taskCalls(one.calls)] = true
		d.kept[keptText(t, one)] = true
	}
}

// withEffects looks for external effects that occur in no run without faults: a call carried
// out twice, one that is never undone, a lost update. They are failures of the workflow
// and replace the findings that follow from them.
func (u *usualEffects) withEffects(t *sim.Trial, found []failure) []failure {
	if len(t.Injected) == 0 {
		return found
	}
	for _, one := range trees(t) {
		of := func(f failure) bool {
			return f.Execution == one.root.ID || strings.HasPrefix(f.Execution, one.root.ID+".")
		}
		if !slices.ContainsFunc(found, of) {
			continue
		}
		if f, own := u.twice(one); f != nil {
			found = slices.DeleteFunc(found, func(x failure) bool { return of(x) && (x.Class == Late || own && x.Class == Engine) })
			found = append(found, *f)
			continue
		}
		if f := u.undone(t, one); f != nil {
			found = slices.DeleteFunc(found, func(x failure) bool { return of(x) && x.Class == Late && x.Rule == RuleResponse })
			found = append(found, *f)
			continue
		}
		if d := u.known[canonicalID(one.root.ID)]; d != nil && d.tasks[taskCalls(one.calls)] && !d.kept[keptText(t, one)] {
			for i := range found {
				if f := &found[i]; of(*f) && f.Class == Late && f.Rule == RuleFaster {
					f.Class = Race
				}
			}
		}
	}
	return found
}

// twice returns the failure of a tree in which the same call is carried out more often than in
// any run without faults, each time with a different idempotency key. own reports that the
// document sets these keys itself.
func (u *usualEffects) twice(one tree) (f *failure, own bool) {
	d := u.known[canonicalID(one.root.ID)]
	if d == nil {
		return nil, false
	}
	counts := map[Effect]int{}
	for i := range one.calls {
		c := &one.calls[i]
		if c.Idempotent() || undoing(c) {
			continue
		}
		e := u.outcomes.normalizer.effect(*c)
		if counts[e]++; counts[e] < 2 || counts[e] <= d.most[e] {
			continue
		}
		if slices.ContainsFunc(one.calls[:i], func(other sim.Call) bool { return undoing(&other) && related(c, &other) }) {
			continue // the first call was undone
		}
		run := event.ParseRun(c.Task)
		own = !strings.HasSuffix(c.Key, run.IdempotencyKey("", "", ""))
		f = failed(SideEffect, RuleTwice, one.root.ID, run.Ref,
			"%s %s was carried out %d times, each time with a different idempotency key", c.Method, c.URL, counts[e])
		f.in = c.Execution
		return f, own
	}
	return nil, false
}

// undone returns the failure of a tree in which a call was carried out, its response was lost,
// and the workflow continued as if the call had failed: no later call undoes it, asks for it
// or reports it. A workflow that faults with the error of this call has not continued.
func (u *usualEffects) undone(t *sim.Trial, one tree) *failure {
	d := u.known[canonicalID(one.root.ID)]
	if d == nil || !one.root.Status.Ended() || d.effects[effectsText(u.outcomes.normalizer.effects(one.calls))] {
		return nil
	}
	for _, s := range t.Injected {
		execution, task, _ := strings.Cut(s.Task, " ")
		if s.Kind != sim.CallLost || execution != one.root.ID && !strings.HasPrefix(execution, one.root.ID+".") {
			continue
		}
		at := slices.IndexFunc(one.calls, func(c sim.Call) bool {
			return c.Execution == execution && withoutAttempt(c.Task) == withoutAttempt(task) && !c.Safe()
		})
		if at < 0 || answerArrived(t, execution, task) || u.handled(d, one, at) {
			continue
		}
		c := &one.calls[at]
		f := failed(SideEffect, RuleUndone, one.root.ID, event.ParseRun(task).Ref,
			"%s %s was carried out, but its response was lost; the execution is %s, and no other call undoes it or asks for it", c.Method, c.URL, one.root.Status)
		f.in = execution
		return f
	}
	return nil
}

// handled reports whether later calls of the workflow deal with a call whose answer was lost.
func (u *usualEffects) handled(d *treeEffects, one tree, at int) bool {
	lost, continued := &one.calls[at], false
	if undoing(lost) {
		return true // the call itself undoes something
	}
	for i := at + 1; i < len(one.calls); i++ {
		c := &one.calls[i]
		if c.Execution == lost.Execution && withoutAttempt(c.Task) == withoutAttempt(lost.Task) {
			continue
		}
		if related(lost, c) {
			return true
		}
		if c.Safe() || d.most[u.outcomes.normalizer.effect(*c)] > 0 && !undoing(c) {
			continue
		}
		if continued = true; undoing(c) {
			continue // it undoes another call
		}
		// A call that is unrelated to all earlier ones may report the problem, for example by
		// opening a ticket.
		earlier := slices.ContainsFunc(one.calls[:at+1], func(before sim.Call) bool { return related(&before, c) || alike(&before, c) })
		if !earlier {
			return true
		}
	}
	return one.root.Status == decide.Faulted && !continued
}

// answerArrived reports whether a task run, or another attempt at it, succeeded.
func answerArrived(t *sim.Trial, execution, task string) bool {
	end := t.End(execution)
	return end == nil || factsOf(end.History).succeeded[withoutAttempt(task)]
}

// EffectCount is a call that was carried out more or less often than usual.
type EffectCount struct {
	Effect

	Usual, Here int
}

// differences returns the effects whose numbers differ between two runs.
func (n *normalizer) differences(usual, here []sim.Call) []EffectCount {
	a, b := n.effects(usual), n.effects(here)
	all := maps.Clone(a)
	maps.Copy(all, b)
	var out []EffectCount
	for e := range all {
		if a[e] != b[e] {
			out = append(out, EffectCount{e, a[e], b[e]})
		}
	}
	slices.SortFunc(out, func(x, y EffectCount) int { return x.compare(y.Effect) })
	return out
}

// compare orders effects by URL, method and body.
func (e Effect) compare(o Effect) int {
	return cmp.Or(cmp.Compare(e.URL, o.URL), cmp.Compare(e.Method, o.Method), cmp.Compare(e.Body, o.Body))
}

// String returns the call in one line.
func (e Effect) String() string { return strings.TrimSpace(e.Method + " " + e.URL + " " + e.Body) }

// callsBelow returns the calls of an execution and its descendants in order; for "" all
// calls.
func callsBelow(t *sim.Trial, id string) []sim.Call {
	var out []sim.Call
	for _, end := range t.Ends {
		if id == "" || end.ID == id || strings.HasPrefix(end.ID, id+".") {
			out = append(out, end.Calls...)
		}
	}
	slices.SortStableFunc(out, func(a, b sim.Call) int { return a.At.Compare(b.At) })
	return out
}

// tree is a root execution with its descendants.
type tree struct {
	root  sim.End
	calls []sim.Call // of all of them, in order
}

// trees returns the root executions of a run.
func trees(t *sim.Trial) []tree {
	var out []tree
	for _, end := range t.Ends {
		if !end.Child() {
			out = append(out, tree{root: end, calls: callsBelow(t, end.ID)})
		}
	}
	return out
}

// taskCalls returns the tasks that made unsafe calls, without the data that they sent.
func taskCalls(calls []sim.Call) string {
	var lines []string
	for i := range calls {
		if c := &calls[i]; !c.Safe() {
			lines = append(lines, canonicalID(c.Execution)+" "+withoutAttempt(c.Task)+" "+c.Method)
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// withoutAttempt returns a task run without its attempt.
func withoutAttempt(task string) string {
	run := event.ParseRun(task)
	return event.Run{Ref: run.Ref, Iteration: run.Iteration}.String()
}

func keptText(t *sim.Trial, one tree) string {
	return string(withCanonicalIDs(one.root.ID, event.Encode(one.root.Kept))) + string(event.Encode(t.Shared))
}

// unanswered returns a task whose call was carried out although the task did not succeed; ""
// if there is none.
func unanswered(end sim.End, got *historyFacts) string {
	for i := range end.Calls {
		if c := &end.Calls[i]; !c.Safe() && !got.succeeded[withoutAttempt(c.Task)] {
			return c.Task
		}
	}
	return ""
}

// related reports whether a later call may undo an earlier one or ask for it: on the same
// host, it concerns the same resource or a part of it, or it undoes something in the same
// folder.
func related(earlier, later *sim.Call) bool {
	a, err1 := url.Parse(earlier.URL)
	b, err2 := url.Parse(later.URL)
	if err1 != nil || err2 != nil || a.Host != b.Host {
		return false
	}
	x, y := strings.Trim(a.Path, "/"), strings.Trim(b.Path, "/")
	within := func(a, b string) bool { return a == b || a == "" || strings.HasPrefix(b, a+"/") }
	if within(x, y) || within(y, x) {
		return undoing(later) || later.Safe() || later.Method == http.MethodPut || later.Method == http.MethodPatch
	}
	if !undoing(later) || folder(x) != folder(y) {
		return false
	}
	p, q := nouns(x), nouns(y)
	return len(p) == 0 || len(q) == 0 || slices.ContainsFunc(p, func(word string) bool { return slices.Contains(q, word) })
}

// alike reports whether a call repeats elsewhere what another one did, for example with the
// next carrier.
func alike(a, b *sim.Call) bool {
	x, err1 := url.Parse(a.URL)
	y, err2 := url.Parse(b.URL)
	return err1 == nil && err2 == nil && a.Method == b.Method && (last(x.Path) == last(y.Path) || len(a.Body) > 0 && string(a.Body) == string(b.Body))
}

func folder(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// undoWords returns words that name undoing something.
func undoWords() []string {
	return []string{"cancel", "refund", "release", "revert", "undo", "void", "rollback", "compensat", "delete", "remove", "reverse", "revoke", "return", "free", "unbook", "unreserve"}
}

// undoing reports whether a call undoes something, judging by its method or its name.
func undoing(c *sim.Call) bool {
	if c.Method == http.MethodDelete {
		return true
	}
	u, err := url.Parse(c.URL)
	return err == nil && !c.Safe() && slices.ContainsFunc(strings.Split(u.Path, "/"), isUndo)
}

func isUndo(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(undoWords(), func(word string) bool { return strings.Contains(text, word) })
}

// nouns returns the words of the last part of a path that name things, not actions.
func nouns(path string) []string {
	var out []string
	for _, word := range strings.FieldsFunc(strings.ToLower(last(path)), func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == ':' }) {
		word = strings.TrimSuffix(word, "s")
		if !isUndo(word) && !slices.Contains([]string{"book", "create", "add", "make", "new", "reserve", "charge", "pay", "start", "order", "put", "place"}, word) {
			out = append(out, word)
		}
	}
	return out
}
