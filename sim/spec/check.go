package spec

import (
	"fmt"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// Difference is a value that differs from the expected one.
type Difference struct {
	Expect string // the member of expect, or "mocks"
	Path   string // path of the value in that member, such as .order.items[2]
	At     Place  // in the test file
	Source Place  // of the task that the value comes from
	Task   string // name of the task
	Why    string // the reason, if the lines do not show it
	Lines  []Line

	edits []edit
}

// Want returns the expected lines as one text.
func (d Difference) Want() string { return texts(d.Lines, '-') }

// Got returns the actual lines as one text.
func (d Difference) Got() string { return texts(d.Lines, '+') }

// checker compares one run with its expectations.
type checker struct {
	*Case
	outcome *Outcome
	found   []Difference
}

// Check returns how a run differs from its expectations.
func (c *Case) Check(o *Outcome) []Difference {
	j := &checker{Case: c, outcome: o}
	// Other differences may be consequences of an unanswered request.
	if j.unanswered(); len(j.found) == 0 {
		if j.status() {
			j.output()
			j.problem()
		}
		j.elapsed()
		j.tasks()
		j.requests()
		j.events()
	}
	j.missed()
	for i := range j.found {
		d := &j.found[i]
		d.Why = c.Redact(d.Why)
		for k := range d.Lines {
			d.Lines[k].Text = cut(c.Redact(d.Lines[k].Text))
		}
	}
	return j.found
}

// add records a difference with the place of the task that it comes from.
func (j *checker) add(d Difference, ref string) {
	if d.At.Line == 0 {
		d.At = j.At
	}
	d.Source = j.suite.place(ref)
	if t := j.suite.Workflow.Definition.Task(ref); t != nil {
		d.Task = t.Name
	}
	j.found = append(j.found, d)
}

// unanswered reports requests that no mock answers. They fail a case even if the workflow
// handles the error, because the test is at fault.
func (j *checker) unanswered() {
	if j.Network {
		return
	}
	reported := map[string]bool{}
	for _, x := range j.outcome.Requests {
		key := x.Method + " " + x.URL
		if x.Mock >= 0 || x.Err == nil || reported[key] {
			continue
		}
		reported[key] = true
		j.add(Difference{Expect: "mocks", Why: x.Err.Error()}, x.Task)
	}
}

// status checks how the run ended.
func (j *checker) status() bool {
	e, got := j.Expect, j.outcome.status()
	if got == e.Status() {
		return true
	}
	d := Difference{Expect: "status", Lines: []Line{{'-', string(e.Status())}, {'+', j.ending()}}}
	switch {
	case e.status != nil:
		d.At = j.at(e.status)
	case e.problem != nil:
		d.At = Place{e.problem.file, e.problem.node.Line, e.problem.node.Column}
	case e.node != nil:
		d.At = j.at(e.node)
	}
	d.edits = j.endingEdits()
	j.add(d, j.outcome.blame())
	return false
}

// missed adds to the first difference the events that no execution received.
func (j *checker) missed() {
	const most = 5
	if len(j.found) == 0 || j.found[0].Expect == "mocks" {
		return
	}
	d := &j.found[0]
	for i, m := range j.outcome.Missed {
		if i == most {
			break
		}
		d.Why = strings.TrimPrefix(d.Why+"; "+m.String(), "; ")
	}
}

// ending describes how the run ended and why.
func (j *checker) ending() string {
	o := j.outcome
	text := string(o.status())
	switch {
	case o.Error != nil:
		text += ": " + o.Error.Error() + " (" + event.ShortType(o.Error.Type) + ")"
	case o.Stop == sim.TimeUp:
		text += " when it was stopped after " + iso(j.Until)
	case o.Stop == sim.TasksUp:
		text = "still running after " + history.Count(maxTasks, "task")
		if o.Busiest != "" {
			text += ": " + o.Busiest
		}
	case o.Stop == sim.Never && len(o.Waiting) > 0:
		text += " for something that never comes: " + strings.Join(o.Waiting, "; ")
	}
	return text
}

func (j *checker) variables(output any) map[string]any {
	input, err := canonical.Decode(j.Input)
	if len(j.Input) == 0 || err != nil {
		input = map[string]any{}
	}
	return map[string]any{"input": input, "output": output}
}

func (j *checker) output() {
	if j.Expect.output == nil || j.outcome.status() != decide.Completed {
		return
	}
	got := decoded(j.outcome.Output)
	c := &comparison{vars: j.variables(got)}
	c.compare("", j.Expect.output, got)
	j.mismatches("output", c.found, j.outcome.blame())
}

func (j *checker) problem() {
	want := j.Expect.problem
	if want == nil || j.outcome.Error == nil {
		return
	}
	got := decoded(event.Encode(j.outcome.Error))
	c := &comparison{vars: j.variables(nil), problem: true}
	if want.isMap() || want.program != nil {
		c.compare("", want, got)
	} else {
		c.compare(".type", want, j.outcome.Error.Type)
	}
	j.mismatches("error", c.found, j.outcome.blame())
}

// decoded decodes JSON that the engine has written.
func decoded(data []byte) any {
	if len(data) == 0 {
		return nil
	}
	v, err := canonical.Decode(data)
	if err != nil {
		return string(data)
	}
	return v
}

// maxMismatches is how many values of one expectation are shown.
const maxMismatches = 20

func (j *checker) mismatches(expect string, found []mismatch, ref string) {
	for i, m := range found {
		if i == maxMismatches {
			last := &j.found[len(j.found)-1]
			last.Why = strings.TrimPrefix(fmt.Sprintf("%s; %d more values differ", last.Why, len(found)-i), "; ")
		}
		if i >= maxMismatches {
			last := &j.found[len(j.found)-1]
			last.edits = append(last.edits, m.edit())
			continue
		}
		j.add(m.difference(expect), ref)
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

func (j *checker) elapsed() {
	got := j.outcome.elapsed(j.Case)
	for _, b := range j.Expect.elapsed {
		if b.lasted(got, j.Start) {
			continue
		}
		j.add(Difference{
			Expect: "elapsed", At: j.at(j.Expect.elapsedAt),
			Lines: []Line{{'-', b.String()}, {'+', iso(got)}},
			edits: []edit{j.replace(j.Expect.elapsedAt, iso(got))},
		}, j.outcome.blame())
		return
	}
}

// tasks checks the tasks in the order in which they began. Tasks that only run others (do,
// for, fork, try, the task of a function) count only if the list names them.
func (j *checker) tasks() {
	if j.Expect.tasks == nil {
		return
	}
	var want []string
	named := map[string]bool{}
	for _, n := range j.Expect.tasks.Content {
		want = append(want, n.Value)
		named[n.Value] = true
	}
	got, refs := j.begun(named)
	for i := range max(len(want), len(got)) {
		if i < len(want) && i < len(got) && want[i] == got[i] {
			continue
		}
		d := Difference{Expect: "tasks", At: j.at(j.Expect.tasks), Lines: aligned(want, got)}
		if i < len(want) {
			d.At = j.at(j.Expect.tasks.Content[i])
		}
		ref := j.outcome.blame()
		if i < len(got) {
			ref = refs[i]
		}
		d.edits = []edit{j.replace(j.Expect.tasks, list(got))}
		j.add(d, ref)
		return
	}
}

// begun returns the names of the tasks that began, and their references.
func (j *checker) begun(named map[string]bool) (names, refs []string) {
	for _, e := range j.outcome.own(event.TaskRequested) {
		ref := event.ParseRun(e.Task).Ref
		t := j.suite.Workflow.Definition.Task(ref)
		switch {
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
		return strings.HasPrefix(t.Ref, "/use/functions/") && strings.Count(t.Ref, "/") == len([]string{"use", "functions", "name"})
	}
}

func (j *checker) requests() {
	e := j.Expect
	if e.requestsAt == nil {
		return
	}
	sent := j.outcome.Requests
	if e.hasNone && len(sent) > 0 {
		j.add(Difference{
			Expect: "requests", At: j.at(e.requestsAt), Lines: append([]Line{{'-', "no request"}}, sentLines(sent)...),
			edits: []edit{j.replace(e.requestsAt, summary(sent))},
		}, sent[0].Task)
	}
	for i, q := range e.requests {
		n, ref := 0, j.outcome.blame()
		for _, x := range sent {
			if q.match.Selects(x) {
				n++
				ref = x.Task
			}
		}
		if !q.holds(n) {
			j.add(j.requestDifference(i, n), ref)
		}
	}
}

func (q request) holds(n int) bool {
	for _, b := range q.times {
		if !b.holds(n - b.count) {
			return false
		}
	}
	return len(q.times) > 0 || n > 0
}

func (j *checker) requestDifference(i, n int) Difference {
	q := j.Expect.requests[i]
	var want []string
	for _, b := range q.times {
		want = append(want, "times "+b.String())
	}
	if len(want) == 0 {
		want = []string{"at least once"}
	}
	d := Difference{
		Expect: "requests", Path: fmt.Sprintf("[%d]", i), At: j.at(q.node), Why: q.match.String(),
		Lines: append([]Line{{'-', strings.Join(want, ", ")}, {'+', times(n)}}, also(j.outcome.Requests)...),
	}
	if q.timesAt != nil {
		d.edits = []edit{j.replace(q.timesAt, n)}
	} else {
		d.edits = []edit{{op: insert, file: j.suite.File, node: q.node, key: "times", value: n}}
	}
	return d
}

func (j *checker) events() {
	if j.Expect.events == nil {
		return
	}
	got, tasks := j.outcome.emitted()
	c := &comparison{vars: j.variables(nil)}
	c.compare("", j.Expect.events, got)
	ref := j.outcome.blame()
	if len(tasks) > 0 {
		ref = tasks[len(tasks)-1]
	}
	j.mismatches("events", c.found, ref)
}
