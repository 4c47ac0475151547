package recording

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim"
)

// executionReplay follows the history of one execution. It repeats each decision, and checks each
// recorded input before applying it.
type executionReplay struct {
	*replay

	doc     *document // nil: it was not registered
	env     *decide.Env
	state   *decide.State
	started event.Event
	from    int // index of its first event

	made   []event.Event          // decided but not yet seen in the recording
	asked  map[string]event.Event // open requests, by task run
	failed *event.Problem         // the error with which the engine gave up on it
}

// begin starts the execution.
func (x *executionReplay) begin(e event.Event) {
	x.started, x.from = e, x.at
	var started event.Started
	if err := decide.DecodeData(e, &started); err != nil {
		x.broken(e, err)
		return
	}
	var d decide.Decision
	if x.doc = x.choose(e, started); x.doc == nil {
		name := started.Namespace + "." + started.Name
		if started.Version != "" {
			name += ":" + started.Version
		}
		why := event.NewProblem(event.Configuration, "workflow "+event.NewRedactor(x.replay.secrets).Redact(name)+" is not registered")
		var err error
		if x.state, err = decide.Reject(e, event.Ended{Error: why}, &d); err != nil {
			x.broken(e, err)
			return
		}
		x.decided(&d)
		return
	}
	x.env, x.state = x.replay.env(x.doc), decide.New()
	x.apply(e)
}

// choose finds the document of an execution that starts.
func (x *executionReplay) choose(e event.Event, s event.Started) *document {
	if e.Execution == x.header.ID {
		return x.first()
	}
	var best *document
	for _, d := range x.docs {
		switch {
		case d.was.ID() != s.Namespace+"."+s.Name:
		case s.Definition != "" && d.hash == s.Definition:
			return d
		case s.Version != "" && s.Version != "latest":
			if d.was.Document.Version == s.Version {
				return d
			}
		case best == nil || newerVersion(d.was.Document.Version, best.was.Document.Version):
			best = d
		}
	}
	return best
}

// first returns the document that the execution began with, which may have been migrated
// since.
func (x *executionReplay) first() *document {
	for _, e := range x.entries {
		var m event.Migrated
		if e.Type == event.ExecutionMigrated && e.Execution == x.header.ID && decide.DecodeData(e.Event, &m) == nil && x.earlier[m.From] != nil {
			return x.earlier[m.From]
		}
	}
	return x.main
}

// migrate continues with another document, from which the whole history must follow.
func (x *executionReplay) migrate(e event.Event) {
	var m event.Migrated
	if err := decide.DecodeData(e, &m); err != nil {
		x.broken(e, err)
		return
	}
	to := x.earlier[m.Definition]
	switch {
	case to == nil || x.doc == nil:
		x.broken(e, fmt.Errorf("the recording does not have the document %.12s that the execution was migrated to", m.Definition))
		return
	case to.now != x.doc.now:
		env := x.replay.env(to)
		state, err := decide.Rebuild(env, x.history(e.Execution, x.at))
		if err != nil {
			x.unexpected(e, "the history before it does not follow from version "+m.Version+": "+history.Cut(err.Error()))
			return
		}
		x.env, x.state = env, state
		clear(x.asked) // the old document made those requests
	}
	x.doc = to
	x.apply(e)
}

// migration reports whether the running execution can be migrated to the changed document.
func (rp *replay) migration() *Migration {
	_, err := decide.Rebuild(rp.env(rp.main), rp.history(rp.header.ID, len(rp.entries)))
	if err == nil {
		return &Migration{MayBe: true}
	}
	if d, diverges := errors.AsType[*decide.Divergence](err); diverges {
		return &Migration{Reason: fmt.Sprintf("event %d of its history is: %s; with the new document it would be: %s", d.Version, history.Describe(d.Got), history.Describe(d.Want))}
	}
	return &Migration{Reason: history.Cut(err.Error())}
}

// take follows one event of the history.
func (x *executionReplay) take(e event.Event) {
	switch {
	case e.Type == event.ExecutionMigrated && len(x.made) == 0:
		x.migrate(e)
	case len(x.made) > 0:
		x.match(e)
	case incoming(e):
		if x.check(e); x.diff == nil {
			x.apply(e)
		}
	case x.gaveUp(e):
	default:
		x.unexpected(e, x.doing())
	}
}

// incoming reports whether an event is an input of its execution, not its decision.
func incoming(e event.Event) bool {
	switch e.Type {
	case event.TimerScheduled, event.TimerCancelled:
		return e.Source == timers.OperatorSource
	case event.TaskRequested, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return false
	default:
		return true
	}
}

// match compares an event with the decided ones.
func (x *executionReplay) match(e event.Event) {
	i := slices.IndexFunc(x.made, func(m event.Event) bool { return m.Type == e.Type && m.Task == e.Task })
	if i < 0 || slices.ContainsFunc(x.made[:i], func(m event.Event) bool { return !independent(m.Task, e.Task) }) {
		want := x.made[0]
		x.differs(&Difference{What: "unexpected", Recorded: history.Describe(e), Replayed: history.Describe(want), now: want.Task}, nil)
		return
	}
	if i > 0 && !x.loose {
		x.loose, x.differ = true, x.at
	}
	x.compareData(e, x.made[i])
	x.made = slices.Delete(x.made, i, i+1)
}

// independent reports whether two task runs belong to different branches of one fork.
func independent(a, b string) bool {
	x, y := strings.Split(event.ParseRun(a).Ref, "/"), strings.Split(event.ParseRun(b).Ref, "/")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i > 0 && x[i-1] == "branches"
		}
	}
	return false
}

// apply applies an event.
func (x *executionReplay) apply(e event.Event) {
	var d decide.Decision
	applied, err := x.decide(e, &d)
	if err != nil {
		x.broken(e, err)
		return
	}
	if !applied {
		x.unexpected(e, "nothing: the event has no effect, since "+x.doing())
		return
	}
	delete(x.asked, e.Task)
	x.decided(&d)
}

// decide calls decide's Apply and turns a panic into an error.
func (x *executionReplay) decide(e event.Event, d *decide.Decision) (applied bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decide: %v", r)
		}
	}()
	return x.state.Apply(x.env, e, d)
}

// decided records the effects of a decision.
func (x *executionReplay) decided(d *decide.Decision) {
	x.made = append(x.made, d.History[1:]...)
	for _, e := range d.Publish {
		switch e.Type {
		case event.TaskRequested:
			x.asked[e.Task] = e
		case event.ExecutionStarted:
			x.starts[e.Execution] = e
		case event.TaskCompleted: // from a child to its parent
			x.ends[x.state.Execution] = e
		case event.TimerScheduled:
			x.recordInput(e)
		default:
			if !strings.HasPrefix(string(e.Type), event.Prefix) {
				x.emitted[arrivalKey(e.Source, e.ID)] = true
			}
		}
	}
}

// recordInput records the event that an input delivers, if a timer is one.
func (x *executionReplay) recordInput(scheduled event.Event) {
	var t event.Timer
	if decide.DecodeData(scheduled, &t) != nil || t.Kind != event.InputTimer {
		return
	}
	if in, err := t.ReadInput(); err == nil {
		x.emitted[arrivalKey(in.Source, in.ID)] = true
	}
}

// gaveUp accepts the end of an execution on which the engine gave up. This end is not a
// decision, because its cause lies outside.
func (x *executionReplay) gaveUp(e event.Event) bool {
	var ended event.Ended
	if e.Type != event.WorkflowFailed || decide.DecodeData(e, &ended) != nil || ended.Error == nil {
		return false
	}
	if !strings.Contains(ended.Error.Detail, " gave up ") {
		return false
	}
	x.failed = ended.Error
	x.notes = append(x.notes, fmt.Sprintf("the engine gave up on the execution at event %d (line %d): %s", x.at+1, x.entries[x.at].line, history.Cut(ended.Error.Detail)))
	return true
}

// broken reports an event that the engine cannot apply.
func (x *executionReplay) broken(e event.Event, err error) {
	x.unexpected(e, "the engine rejects it: "+history.Cut(err.Error()))
}

// doing describes an execution that has no decision to make.
func (x *executionReplay) doing() string {
	if x.state.Status.Ended() {
		return "the execution has ended: it is " + string(x.state.Status)
	}
	text := "the execution is " + string(x.state.Status)
	if awaits := x.state.Awaits(nil); len(awaits) > 0 {
		text += ": " + strings.Join(awaits, "; ")
	}
	return history.Cut(text)
}

// leftover reports a decided event that is missing from a finished recording.
func (x *executionReplay) leftover() {
	if len(x.made) == 0 || !x.finished() {
		return
	}
	want := x.made[0]
	if x.loose {
		x.at = x.differ
	}
	x.differs(&Difference{What: "missing", Recorded: "nothing more", Replayed: history.Describe(want), task: want.Task}, nil)
}

// result returns how the execution has ended so far.
func (x *executionReplay) result() *sim.Result {
	r := &sim.Result{Status: x.state.Status, Error: x.state.Error}
	switch {
	case x.failed != nil:
		r.Status, r.Error = decide.Faulted, x.failed
	case r.Status == decide.Completed:
		r.Output = canonical.Encode(x.state.Output.V)
	}
	return r
}

// check checks an input before it is applied.
func (x *executionReplay) check(e event.Event) {
	switch e.Type {
	case event.EventReceived:
		x.checkArrival(e)
	case event.TaskCompleted:
		x.checkResult(e)
	default:
	}
}

// checkArrival finds the event from outside that a history event records.
func (x *executionReplay) checkArrival(e event.Event) {
	envelope, _ := canonical.DecodeOrText(e.Data).(map[string]any)
	key := arrivalKey(canonical.Text(envelope["source"]), canonical.Text(envelope["id"]))
	if x.emitted[key] {
		return
	}
	i, known := x.known[key]
	if !known {
		x.differs(&Difference{What: "arrival", Recorded: history.Describe(e), Replayed: "no such event from outside: the recording has no line for it"}, nil)
		return
	}
	came := x.arrivals[i]
	now := decide.Received(came.WithoutAddress(), e.Execution)
	if where := x.comparison("time").between(e.Data, now.Data); where != nil {
		x.differs(&Difference{
			What: "arrival", Recorded: history.Describe(e), Replayed: fmt.Sprintf("%s (line %d)", history.Describe(now), came.line),
		}, where)
	}
}

func arrivalKey(source, id string) string { return source + " " + id }

// checkResult recomputes the result of a task, if possible.
func (x *executionReplay) checkResult(e event.Event) {
	asked, ok := x.asked[e.Task]
	if !ok {
		x.checkChild(e)
		return
	}
	var requested event.Requested
	task := x.doc.now.Task(event.ParseRun(e.Task).Ref)
	if err := decide.DecodeData(asked, &requested); err != nil || task == nil {
		x.broken(e, fmt.Errorf("request of %s: %w", e.Task, err))
		return
	}
	now := asked.Time
	if e.Source == decide.Source && x.state.Now.After(now) {
		now = x.state.Now
	}
	scope, err := x.env.RequestScope(task, requested, now)
	if err != nil {
		x.broken(e, err)
		return
	}
	if c, ok := x.env.Compute(task, scope, e.Execution, e.Task); ok {
		if d, where := x.compare(e, c); d != nil {
			x.tolerate(d, where)
		}
		return
	}
	if x.fromHistory() || e.Source != executor.Source {
		return
	}
	x.checkCall(e, task, scope)
}

// checkChild compares the result of a task that ran a child execution.
func (x *executionReplay) checkChild(e event.Event) {
	id, ok := strings.CutSuffix(e.ID, "/parent")
	child := x.executions[id]
	if !ok || child == nil || e.Source != decide.Source || child.failed != nil {
		return
	}
	end, known := x.ends[id]
	if !known {
		x.unexpected(e, "nothing: execution "+id+" has not ended")
		return
	}
	x.compareData(e, end)
}

// compare compares a recorded result with the replayed one.
func (x *executionReplay) compare(e event.Event, now event.Completed) (*Difference, *canonical.Difference) {
	data := event.Encode(now)
	where := x.comparison("duration_ms", "call").between(e.Data, data)
	if where == nil {
		return nil, nil
	}
	replayed := e
	replayed.Data = data
	return &Difference{What: "computed", Recorded: history.Describe(e), Replayed: history.Describe(replayed)}, where
}

// tolerate tolerates a difference in the result of a task of a running execution, which keeps
// its recorded result even though a new execution would have a different one.
func (x *executionReplay) tolerate(d *Difference, where *canonical.Difference) {
	if !x.doc.changed() || x.finished() {
		x.differs(d, where)
		return
	}
	if x.tolerated == nil {
		x.differs(d, where)
		x.tolerated, x.diff = x.diff, nil
	}
}
