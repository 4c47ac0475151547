package spec

import (
	"fmt"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// Difference is a value that differs from the expected one.
type Difference struct {
	Expect string // the member of expect, or what the case lacks: mocks, secrets or until
	Path   string // path of the value in that member, such as .order.items[2]
	At     Place  // in the test file
	Source Place  // of the task that the value comes from
	Task   string // name of the task
	Why    string // the reason, if the lines do not show it
	Lines  []Line

	edits []edit
}

// Updatable reports whether the expectation can become the actual result.
func (d Difference) Updatable() bool {
	return d.Expect != "mocks" && d.Expect != "secrets" && d.Expect != "until"
}

// Want returns the expected lines, joined.
func (d Difference) Want() string { return d.texts('-') }

// Got returns the actual lines, joined.
func (d Difference) Got() string { return d.texts('+') }

// Sent returns the requests that were sent, one per line, for a difference in one of them.
func (d Difference) Sent() string {
	if d.Expect != "requests" {
		return ""
	}
	return strings.TrimPrefix(strings.ReplaceAll("\n"+d.texts(' '), "\nsent: ", "\n"), "\n")
}

// texts joins the lines with a mark; of tasks, also those that are both expected and actual.
func (d Difference) texts(mark byte) string {
	var out []string
	for _, line := range d.Lines {
		if line.Mark == mark || line.Mark == ' ' && d.Expect == "tasks" {
			out = append(out, line.Text)
		}
	}
	return strings.Join(out, "\n")
}

// checker compares one run with its expectations.
type checker struct {
	*Case
	outcome *Outcome
	found   []Difference
}

// Check returns how a run differs from its expectations.
func (c *Case) Check(o *Outcome) []Difference {
	chk := &checker{Case: c, outcome: o}
	// Other differences may be consequences of an unanswered request.
	if chk.unanswered(); len(chk.found) == 0 {
		if chk.status() {
			chk.output()
			chk.problem()
		}
		chk.elapsed()
		chk.tasks()
		chk.requests()
		chk.events()
	}
	chk.missed()
	for i := range chk.found {
		d := &chk.found[i]
		d.Why = c.Redact(d.Why)
		for k := range d.Lines {
			d.Lines[k].Text = excerpt.Of(c.Redact(d.Lines[k].Text), longest)
		}
	}
	return chk.found
}

// add records a difference with the place of the task that it comes from.
func (chk *checker) add(d Difference, ref string) {
	if d.At.Line == 0 {
		d.At = chk.At
	}
	d.Source = chk.suite.place(ref)
	if t := chk.suite.Workflow.Definition.Task(ref); t != nil {
		d.Task = t.Name
	}
	chk.found = append(chk.found, d)
}

// unanswered reports requests that no mock answers. They fail a case even if the workflow
// handles the error, because the test is at fault.
func (chk *checker) unanswered() {
	if chk.Network {
		return
	}
	reported := map[string]bool{}
	for _, x := range chk.outcome.Requests {
		key := x.Method + " " + x.URL
		if x.Mock >= 0 || x.Err == nil || reported[key] {
			continue
		}
		reported[key] = true
		chk.add(Difference{Expect: "mocks", Why: x.Err.Error()}, x.Task)
	}
}

// status checks how the run ended.
func (chk *checker) status() bool {
	e, got := chk.Expect, chk.outcome.status()
	if got == e.Status() {
		return true
	}
	d := Difference{Expect: "status", Lines: []Line{{'-', string(e.Status())}, {'+', chk.ending()}}}
	switch {
	case e.status != nil:
		d.At = chk.at(e.status)
	case e.problem != nil:
		d.At = Place{e.problem.file, e.problem.node.Line, e.problem.node.Column}
	case e.node != nil:
		d.At = chk.at(e.node)
	}
	d.edits = chk.endingEdits()
	chk.add(d, chk.outcome.blame())
	return false
}

// missed adds to the first difference the events that no execution received.
func (chk *checker) missed() {
	const limit = 5
	if len(chk.found) == 0 || chk.found[0].Expect == "mocks" {
		return
	}
	d := &chk.found[0]
	for i, m := range chk.outcome.Missed {
		if i == limit {
			break
		}
		d.Why = strings.TrimPrefix(d.Why+"; "+m.String(), "; ")
	}
}

// ending describes how the run ended and why.
func (chk *checker) ending() string {
	o := chk.outcome
	text := string(o.status())
	switch {
	case o.Error != nil:
		text += ": " + o.Error.Error() + " (" + event.ShortType(o.Error.Type) + ")"
	case o.Stop == sim.TimeUp:
		text += " when it was stopped after " + dsl.ISO(chk.Until)
	case o.Stop == sim.TasksUp:
		text = "still running after " + history.Count(maxTasks, "task")
		if o.Busiest != "" {
			text += ": " + o.Busiest
		}
	case o.Stop == sim.Never && len(o.Waiting) > 0:
		text += " for something that never arrives: " + strings.Join(o.Waiting, "; ")
	}
	return text
}

func (chk *checker) variables(output any) map[string]any {
	input, err := canonical.Decode(chk.Input)
	if len(chk.Input) == 0 || err != nil {
		input = map[string]any{}
	}
	return map[string]any{"input": input, "output": output}
}

func (chk *checker) output() {
	if chk.Expect.output == nil || chk.outcome.status() != decide.Completed {
		return
	}
	got := canonical.DecodeOrText(chk.outcome.Output)
	c := &comparison{vars: chk.variables(got)}
	c.compare("", chk.Expect.output, got)
	chk.mismatches("output", c.found, chk.outcome.blame())
}

func (chk *checker) problem() {
	want := chk.Expect.problem
	if want == nil || chk.outcome.Error == nil {
		return
	}
	got := canonical.DecodeOrText(event.Encode(chk.outcome.Error))
	c := &comparison{vars: chk.variables(nil), problem: true}
	if want.isMap() || want.program != nil {
		c.compare("", want, got)
	} else {
		c.compare(".type", want, chk.outcome.Error.Type)
	}
	chk.mismatches("error", c.found, chk.outcome.blame())
}

// maxMismatches is how many values of one expectation are shown.
const maxMismatches = 20

func (chk *checker) mismatches(expect string, found []mismatch, ref string) {
	for i, m := range found {
		if i < maxMismatches {
			chk.add(m.difference(expect), ref)
			continue
		}
		last := &chk.found[len(chk.found)-1]
		last.edits = append(last.edits, m.edit())
		if i == maxMismatches {
			last.Why = strings.TrimPrefix(fmt.Sprintf("%s; %d more values differ", last.Why, len(found)-i), "; ")
		}
	}
}

func (m mismatch) difference(expect string) Difference {
	n := m.part.node
	d := Difference{
		Expect: expect, Path: m.path, At: Place{m.part.file, n.Line, n.Column}, Why: m.why,
		Lines: []Line{{'-', m.part.String()}}, edits: []edit{m.edit()},
	}
	if m.none {
		d.Lines = append(d.Lines, Line{'+', "nothing"})
	} else {
		d.Lines = append(d.Lines, Line{'+', shown(m.value)})
	}
	return d
}

// String returns the part in one line.
func (p *part) String() string {
	if p.program != nil {
		return strings.TrimSpace(p.node.Value)
	}
	return shown(p.data())
}

func (chk *checker) elapsed() {
	got := chk.outcome.elapsed(chk.Case)
	for _, b := range chk.Expect.elapsed {
		if b.lasted(got, chk.Start) {
			continue
		}
		chk.add(Difference{
			Expect: "elapsed", At: chk.at(chk.Expect.elapsedAt),
			Lines: []Line{{'-', b.String()}, {'+', dsl.ISO(got)}},
			edits: []edit{chk.replace(chk.Expect.elapsedAt, dsl.ISO(got))},
		}, chk.outcome.blame())
		return
	}
}

// tasks checks the tasks in the order in which they began. Tasks that only run others (do,
// for, fork, try, the task of a function) count only if the list names them.
func (chk *checker) tasks() {
	if chk.Expect.tasks == nil {
		return
	}
	var want []string
	named := map[string]bool{}
	for _, n := range chk.Expect.tasks.Content {
		want = append(want, n.Value)
		named[n.Value] = true
	}
	got, refs := chk.begun(named)
	for i := range max(len(want), len(got)) {
		if i < len(want) && i < len(got) && want[i] == got[i] {
			continue
		}
		first := func(names []string) []string { return names[:min(len(names), maxAligned)] }
		d := Difference{Expect: "tasks", At: chk.at(chk.Expect.tasks), Lines: folded(Align(first(want), first(got)))}
		if i < len(want) {
			d.At = chk.at(chk.Expect.tasks.Content[i])
		}
		ref := chk.outcome.blame()
		if i < len(got) {
			ref = refs[i]
		}
		d.edits = []edit{chk.replace(chk.Expect.tasks, list(got))}
		chk.add(d, ref)
		return
	}
}

// begun returns the names of the tasks that began, and their references.
func (chk *checker) begun(named map[string]bool) (names, refs []string) {
	for _, e := range chk.outcome.History {
		ref := event.ParseRun(e.Task).Ref
		t := chk.suite.Workflow.Definition.Task(ref)
		switch {
		case e.Execution != chk.outcome.Execution || e.Type != event.TaskRequested:
			continue
		case named[ref]:
			names = append(names, ref)
		case t != nil && (!onlyRunsOthers(t) || named[t.Name]):
			names = append(names, t.Name)
		default:
			continue
		}
		refs = append(refs, ref)
	}
	return names, refs
}

// onlyRunsOthers reports whether a task only runs other tasks.
func onlyRunsOthers(t *dsl.Task) bool {
	switch t.Kind {
	case dsl.Do, dsl.For, dsl.Fork, dsl.Try:
		return true
	default:
		return strings.HasPrefix(t.Ref, "/use/functions/") && strings.Count(t.Ref, "/") == 3 // not a task inside a function
	}
}

func (chk *checker) requests() {
	e := chk.Expect
	if e.requestsAt == nil {
		return
	}
	sent := chk.outcome.Requests
	if e.hasNone && len(sent) > 0 {
		chk.add(Difference{
			Expect: "requests", At: chk.at(e.requestsAt), Lines: append([]Line{{'-', "no request"}}, sentLines(sent)...),
			edits: []edit{chk.replace(e.requestsAt, summary(sent))},
		}, sent[0].Task)
	}
	for i, q := range e.requests {
		n, ref := 0, chk.outcome.blame()
		for _, x := range sent {
			if q.match.Selects(x) {
				n++
				ref = x.Task
			}
		}
		if !q.holds(n) {
			chk.add(chk.requestDifference(i, n), ref)
		}
	}
}

func (r request) holds(n int) bool {
	for _, b := range r.times {
		if !b.holds(n - b.count) {
			return false
		}
	}
	return len(r.times) > 0 || n > 0
}

func (chk *checker) requestDifference(i, n int) Difference {
	q := chk.Expect.requests[i]
	var want []string
	for _, b := range q.times {
		want = append(want, "times "+b.String())
	}
	if len(want) == 0 {
		want = []string{"at least once"}
	}
	d := Difference{
		Expect: "requests", Path: fmt.Sprintf("[%d]", i), At: chk.at(q.node), Why: q.match.String(),
		Lines: append([]Line{{'-', strings.Join(want, ", ")}, {'+', times(n)}}, sentContext(chk.outcome.Requests)...),
	}
	if q.timesAt != nil {
		d.edits = []edit{chk.replace(q.timesAt, n)}
	} else {
		d.edits = []edit{{op: insert, file: chk.suite.File, node: q.node, key: "times", value: n}}
	}
	return d
}

func (chk *checker) events() {
	if chk.Expect.events == nil {
		return
	}
	got, tasks := chk.outcome.emitted()
	c := &comparison{vars: chk.variables(nil)}
	c.compare("", chk.Expect.events, got)
	ref := chk.outcome.blame()
	if len(tasks) > 0 {
		ref = tasks[len(tasks)-1]
	}
	chk.mismatches("events", c.found, ref)
}

// tally counts equal requests, in the order in which they were first sent.
func tally(sent []mock.Exchange) (names []string, counts map[string]int, first map[string]mock.Exchange) {
	counts, first = map[string]int{}, map[string]mock.Exchange{}
	for _, x := range sent {
		name := x.Method + " " + x.URL
		if counts[name]++; counts[name] == 1 {
			names, first[name] = append(names, name), x
		}
	}
	return names, counts, first
}

// maxSent is the maximum number of requests that are shown.
const maxSent = 10

// sentLines lists the requests that were sent, with '+'.
func sentLines(sent []mock.Exchange) []Line {
	names, counts, _ := tally(sent)
	var out []Line
	for i, name := range names {
		if i == maxSent {
			return append(out, Line{'+', fmt.Sprintf("and %d more", len(names)-i)})
		}
		out = append(out, Line{'+', name + ", " + times(counts[name])})
	}
	return out
}

// sentContext lists the requests that were sent, as context for a difference.
func sentContext(sent []mock.Exchange) []Line {
	lines := sentLines(sent)
	for i := range lines {
		lines[i] = Line{' ', "sent: " + lines[i].Text}
	}
	if len(lines) == 0 {
		return []Line{{' ', "no request was sent"}}
	}
	return lines
}

// summary returns the requests as a test file expects them.
func summary(sent []mock.Exchange) []any {
	names, counts, first := tally(sent)
	out := []any{}
	for _, name := range names {
		x := first[name]
		out = append(out, map[string]any{"method": x.Method, "url": x.URL, "times": counts[name]})
	}
	return out
}
