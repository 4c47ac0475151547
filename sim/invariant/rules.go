package invariant

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// rules follows the tasks of a history through the document: which task begins after which,
// when an enclosing task ends, and what its output is. It evaluates no expressions: what
// depends on data is taken from the history.
type rules struct {
	def    *dsl.Definition
	id     string
	report Report

	root  frame
	open  map[string]*frame // open tasks by their runs
	ended *frame            // the task that ended last
	due   []*frame          // enclosing tasks that have to continue, because an inner task ended since the last event from outside
}

// frame is an open task and the state of the tasks inside it.
type frame struct {
	task   *dsl.Task // the workflow itself has no reference
	run    event.Run
	parent *frame
	branch int // its index among the tasks of its parent

	part    string    // the list that runs: "do", "try", "catch/do", "foreach/do"
	at      event.Run // the last task of that list that began or was skipped
	last    int       // its index, -1 if there was none
	next    string    // the flow directive with which it ended
	success bool      // it succeeded
	output  json.RawMessage
	ending  bool   // an inner task ended with "end"
	failing bool   // an inner task failed, and the failure is not handled yet
	awaits  string // the inner run that ended, after which the task must continue immediately

	branches []branchEnd
}

// branchEnd is the result of a branch of a fork.
type branchEnd struct {
	ended, success, cancelled bool
	output                    json.RawMessage // nil if unknown
}

func newRules(def *dsl.Definition, id string, report Report) *rules {
	return &rules{def: def, id: id, report: report, root: frame{task: &dsl.Task{Kind: dsl.Do, Do: def.Do, Output: def.Output}, last: -1}, open: map[string]*frame{}}
}

// stop ends the checks: operator actions and failures of the engine are not in the
// document.
func (r *rules) stop() { r.open, r.due, r.ended = nil, nil, nil }

func (r *rules) stopped() bool { return r.open == nil }

// settle is called before an event from outside: all consequences of the previous one must
// have happened by then.
func (r *rules) settle() {
	for _, f := range r.due {
		if f.awaits != "" {
			r.report("when a task ends, the enclosing one continues", r.id, "%s has ended, but %s did not continue", f.awaits, f.name())
			f.awaits = ""
		}
	}
	r.due = r.due[:0]
}

// outside reports whether an event of a history came from outside, not from a decision.
func outside(e event.Event) bool {
	number, own := strings.CutPrefix(e.ID, e.Execution+"/")
	return !own || number == "" || strings.Trim(number, "0123456789") != ""
}

func (f *frame) name() string {
	if f.task.Ref == "" {
		return RunName("")
	}
	return f.run.String()
}

// begins records that a task run began.
func (r *rules) begins(e event.Event, run event.Run) {
	task := r.def.Task(run.Ref)
	if r.stopped() || task == nil {
		return
	}
	f := &frame{task: task, run: run, last: -1}
	if task.Kind == dsl.Fork {
		f.branches = make([]branchEnd, len(task.Fork.Branches))
	}
	r.open[e.Task] = f
	var part string
	if f.parent, part, f.branch = r.around(run); f.parent != nil {
		r.follows(f.parent, part, f.branch, run)
	}
}

// around finds the enclosing task of a run, the list that contains the run, and its index
// there.
func (r *rules) around(run event.Run) (parent *frame, part string, at int) {
	ref := run.Ref
	slash := strings.LastIndexByte(ref, '/')
	if slash < 0 || !strings.HasPrefix(ref, "/do/") {
		return nil, "", 0
	}
	list, number := cutLast(ref[:slash])
	at, err := strconv.Atoi(number)
	if err != nil {
		return nil, "", 0
	}
	if list == "/do" {
		return &r.root, "do", at
	}
	for outer := list; ; {
		if outer, _ = cutLast(outer); outer == "" {
			return nil, "", 0
		}
		if r.def.Task(outer) == nil {
			continue
		}
		for _, f := range r.open {
			if f.run.Ref == outer && encloses(f.run, run) {
				return f, list[len(outer)+1:], at
			}
		}
		return nil, "", 0
	}
}

// cutLast splits a reference before its last part.
func cutLast(ref string) (before, last string) {
	i := strings.LastIndexByte(ref, '/')
	if i < 0 {
		return "", ref
	}
	return ref[:i], ref[i+1:]
}

// follows checks that a task that begins or is skipped comes after the previous one in its
// list.
func (r *rules) follows(parent *frame, part string, at int, run event.Run) {
	parent.awaits = ""
	if parent.task.Kind == dsl.Fork {
		return
	}
	same := parent.part == part && parent.last >= 0
	again := !same || parent.at.Iteration != run.Iteration || parent.at.Attempt != run.Attempt
	want := 0
	if same {
		want = parent.follower(part)
	}
	if at != want && (at != 0 || !again) || same && !again && !parent.success {
		r.report("tasks run in the order of the document", r.id, "%s began after %s, which ended with %q", run, parent.at, parent.next)
	}
	parent.part, parent.last, parent.at = part, at, run
	parent.next, parent.success, parent.failing, parent.output = "", false, false, nil
}

// follower returns the index of the task that comes next; -1 if none does.
func (f *frame) follower(part string) int {
	switch f.next {
	case "", dsl.Continue:
		return f.last + 1
	case dsl.Exit, dsl.End:
		return -1
	default:
		return f.list(part).Find(f.next)
	}
}

// list returns an inner list of tasks.
func (f *frame) list(part string) dsl.TaskList {
	switch part {
	case "try":
		return f.task.Try.Try
	case "catch/do":
		return f.task.Try.Catch.Do
	case "foreach/do":
		return f.task.Listen.Foreach.Do
	default:
		return f.task.Do
	}
}

// ends records the end of a task run. late reports whether its time limit has expired.
func (r *rules) ends(e event.Event, run event.Run, c *event.Completed, late bool) {
	if r.stopped() {
		return
	}
	f := r.open[e.Task]
	switch {
	case c.Status == "skipped":
		if parent, part, at := r.around(run); parent != nil {
			r.follows(parent, part, at, run)
			parent.success = true
			r.innerEnded(parent, at, branchEnd{ended: true, success: true}, run)
		}
		return
	case f == nil: // an invalid output turns a success into a failure
		if r.ended != nil && r.ended.run == run && !c.Success {
			r.fails(r.ended)
		}
		return
	}
	delete(r.open, e.Task)
	f.awaits, r.ended = "", f
	switch {
	case c.Status != "":
		if f.parent != nil && f.parent.branches != nil {
			f.parent.branches[f.branch] = branchEnd{ended: true, cancelled: true}
		}
	case !c.Success:
		r.noWinner(f, late)
		r.fails(f)
	default:
		r.checkInner(f, c)
		r.succeeds(f, c)
	}
}

// noWinner checks a competing fork that failed: it runs until its last branch has failed,
// unless its time limit expires.
func (r *rules) noWinner(f *frame, late bool) {
	if f.branches == nil || !f.task.Fork.Compete || late || slices.ContainsFunc(f.branches, func(b branchEnd) bool { return b.success }) {
		return
	}
	if i := slices.IndexFunc(f.branches, func(b branchEnd) bool { return b.cancelled }); i >= 0 {
		r.report("a fork ends with its branches", r.id, "%s failed, but its competing branch %s had not", f.run, f.task.Fork.Branches[i].Name)
	}
}

// fails records a failure: the enclosing task must fail or handle it immediately.
func (r *rules) fails(f *frame) {
	p := f.parent
	if p == nil {
		return
	}
	p.success, p.output = false, nil
	if p.task.Kind == dsl.Try && p.part == "try" {
		p.last, p.part = -1, ""
		r.mustContinue(p, f.run)
		return
	}
	if p.branches == nil {
		p.failing = true
		r.mustContinue(p, f.run)
		return
	}
	p.branches[f.branch] = branchEnd{ended: true}
	if left := p.left(); !p.task.Fork.Compete || left == 0 {
		p.failing = true
		r.mustContinue(p, f.run)
	}
}

func (r *rules) mustContinue(f *frame, run event.Run) {
	f.awaits = run.String()
	r.due = append(r.due, f)
}

// left returns how many branches of a fork have not ended.
func (f *frame) left() (n int) {
	for _, b := range f.branches {
		if !b.ended {
			n++
		}
	}
	return n
}

// succeeds records a success.
func (r *rules) succeeds(f *frame, c *event.Completed) {
	p := f.parent
	if p == nil {
		return
	}
	next := f.task.Then
	if c.Then != "" {
		next = c.Then
	} else if f.task.Kind == dsl.Try && f.task.Try.Catch.Then != "" && (f.part == "catch/do" || f.part == "") {
		next = f.task.Try.Catch.Then
	}
	if f.ending {
		next = dsl.End
	}
	end := branchEnd{ended: true, success: true}
	if f.task.Output.As == nil || transformed(f.task) {
		end.output = c.Output
	}
	p.next, p.success, p.output = next, true, end.output
	p.ending = p.ending || next == dsl.End
	r.innerEnded(p, f.branch, end, f.run)
}

// transformed reports whether the history has the output of a task after output.as, as for
// tasks that enclose others.
func transformed(t *dsl.Task) bool {
	switch t.Kind {
	case dsl.Do, dsl.For, dsl.Fork, dsl.Try, dsl.Listen, dsl.Wait:
		return true
	default:
		return false
	}
}

// innerEnded records that an inner task has ended, so the enclosing one must continue.
func (r *rules) innerEnded(p *frame, at int, end branchEnd, run event.Run) {
	switch {
	case p.task.Kind == dsl.Listen: // it may wait for the next event
		return
	case p.branches == nil:
		r.mustContinue(p, run)
		return
	}
	p.branches[at] = end
	if p.task.Fork.Compete || p.ending || p.left() == 0 {
		r.mustContinue(p, run)
	}
}

// waits records that a try has set a timer for its next attempt.
func (r *rules) waits(task string) {
	if f := r.open[task]; f != nil {
		f.awaits = ""
	}
}

// checkInner checks the success of a task against the tasks inside it.
func (r *rules) checkInner(f *frame, c *event.Completed) {
	if f.failing {
		r.report("a failure is handled or fails the enclosing task", r.id, "%s succeeded, but a task inside it had failed", f.run)
	}
	switch f.task.Kind {
	case dsl.Fork:
		r.forked(f, c)
	case dsl.Do, dsl.For, dsl.Try:
		r.listed(f, c.Output)
	default:
	}
}

// listed checks a task with a list of others: it ends with the last of them and has its
// output.
func (r *rules) listed(f *frame, output json.RawMessage) {
	if f.last < 0 {
		return
	}
	list := f.list(f.part)
	if f.success && !f.ending && f.next != dsl.Exit && f.follower(f.part) != len(list) {
		r.report("a list ends with its last task", r.id, "%s ended after %s", f.name(), f.at)
	}
	if f.task.Output.As == nil && f.success && f.output != nil && !SameData(f.output, output) {
		r.report("a task has the output of the last task inside it", r.id, "%s has the output %s, but %s inside it has %s", f.name(), output, f.at, f.output)
	}
}

// forked checks a fork: it ends when all branches have ended, or when one has won.
func (r *rules) forked(f *frame, c *event.Completed) {
	successes, known := 0, true
	for _, b := range f.branches {
		if b.success {
			successes++
		}
		known = known && b.output != nil
	}
	switch n := len(f.branches); {
	case n == 0 || f.ending:
	case f.task.Fork.Compete && successes == 0:
		r.report("a fork ends with its branches", r.id, "%s succeeded, but none of its branches had", f.run)
	case f.task.Fork.Compete:
		r.won(f, c)
	case successes < n:
		r.report("a fork ends with its branches", r.id, "%s succeeded, but only %d of its %d branches had", f.run, successes, n)
	case known && f.task.Output.As == nil:
		all := make([]json.RawMessage, n)
		for i, b := range f.branches {
			all[i] = b.output
		}
		if text := event.Encode(all); !SameData(text, c.Output) {
			r.report("a fork has the output of its branches", r.id, "%s has the output %s, want %s", f.run, c.Output, text)
		}
	}
}

// won checks that the output of a competing fork is that of a branch.
func (r *rules) won(f *frame, c *event.Completed) {
	if f.task.Output.As != nil {
		return
	}
	for _, b := range f.branches {
		if b.success && (b.output == nil || SameData(b.output, c.Output)) {
			return
		}
	}
	r.report("a fork has the output of its branches", r.id, "%s has the output %s, which none of its branches has", f.run, c.Output)
}

// closes records that the execution has completed.
func (r *rules) closes(e event.Event) {
	if r.stopped() || e.Type != event.WorkflowCompleted {
		return
	}
	var end event.Ended
	if decide.DecodeData(e, &end) == nil {
		r.listed(&r.root, end.Output)
	}
}

// SameData reports whether two JSON documents contain the same data.
func SameData(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := canonical.Decode(a)
	if err != nil {
		return false
	}
	y, err := canonical.Decode(b)
	return err == nil && canonical.Equal(x, y)
}
