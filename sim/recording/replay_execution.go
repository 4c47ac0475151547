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
	last   event.Event            // the last event that was seen
	failed *event.Problem         // the error with which the engine gave up on it
}

// begin starts the execution.
func (w *executionReplay) begin(e event.Event) {
	w.started, w.from, w.last = e, w.at, e
	var started event.Started
	if err := decide.DecodeData(e, &started); err != nil {
		w.broken(e, err)
		return
	}
	var d decide.Decision
	if w.doc = w.choose(e, started); w.doc == nil {
		name := started.Namespace + "." + started.Name
		if started.Version != "" {
			name += ":" + started.Version
		}
		why := event.NewProblem(event.Configuration, "workflow "+event.NewRedactor(w.replay.secrets).Redact(name)+" is not registered")
		var err error
		if w.state, err = decide.Reject(e, event.Ended{Error: why}, &d); err != nil {
			w.broken(e, err)
			return
		}
		w.decided(&d)
		return
	}
	w.env, w.state = w.replay.env(w.doc), decide.New()
	w.apply(e)
}

// choose finds the document of an execution that starts.
func (w *executionReplay) choose(e event.Event, s event.Started) *document {
	if e.Execution == w.header.ID {
		return w.first()
	}
	var best *document
	for _, d := range w.docs {
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
func (w *executionReplay) first() *document {
	for _, e := range w.entries {
		var m event.Migrated
		if e.Type == event.ExecutionMigrated && e.Execution == w.header.ID && decide.DecodeData(e.Event, &m) == nil && w.earlier[m.From] != nil {
			return w.earlier[m.From]
		}
	}
	return w.main
}

// migrate continues with another document, from which the whole history must follow.
func (w *executionReplay) migrate(e event.Event) {
	var m event.Migrated
	if err := decide.DecodeData(e, &m); err != nil {
		w.broken(e, err)
		return
	}
	to := w.earlier[m.Definition]
	switch {
	case to == nil || w.doc == nil:
		w.broken(e, fmt.Errorf("the recording does not have the document %.12s that the execution was migrated to", m.Definition))
		return
	case to.now != w.doc.now:
		env := w.replay.env(to)
		state, err := decide.Rebuild(env, w.history(e.Execution, w.at))
		if err != nil {
			w.unexpected(e, "the history before it does not follow from version "+m.Version+": "+cut(err.Error()))
			return
		}
		w.env, w.state = env, state
		clear(w.asked) // the old document made those requests
	}
	w.doc = to
	w.apply(e)
}

// history returns the events of an execution before entry end.
func (rp *replay) history(execution string, end int) (out []event.Event) {
	for _, e := range rp.entries[:end] {
		if e.Execution == execution {
			out = append(out, e.Event)
		}
	}
	return out
}

// migration reports whether the running execution can be migrated to the changed document.
func (rp *replay) migration() *Migration {
	_, err := decide.Rebuild(rp.env(rp.main), rp.history(rp.header.ID, len(rp.entries)))
	if err == nil {
		return &Migration{MayBe: true}
	}
	if d, diverges := errors.AsType[*decide.Divergence](err); diverges {
		return &Migration{Reason: fmt.Sprintf("event %d of its history is: %s; with the new document it would be: %s", d.Version, Describe(d.Got), Describe(d.Want))}
	}
	return &Migration{Reason: cut(err.Error())}
}

// take follows one event of the history.
func (w *executionReplay) take(e event.Event) {
	switch {
	case e.Type == event.ExecutionMigrated && len(w.made) == 0:
		w.migrate(e)
	case len(w.made) > 0:
		w.match(e)
	case incoming(e):
		if w.check(e); w.diff == nil {
			w.apply(e)
		}
	case w.gaveUp(e):
	default:
		w.unexpected(e, w.doing())
	}
	w.last = e
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
func (w *executionReplay) match(e event.Event) {
	i := slices.IndexFunc(w.made, func(m event.Event) bool { return m.Type == e.Type && m.Task == e.Task })
	if i < 0 || slices.ContainsFunc(w.made[:i], func(m event.Event) bool { return !independent(m.Task, e.Task) }) {
		want := w.made[0]
		w.differs(&Difference{What: "unexpected", Recorded: Describe(e), Replayed: Describe(want), now: want.Task}, nil)
		return
	}
	if i > 0 && !w.loose {
		w.loose, w.differ = true, w.at
	}
	if g := w.comparison().between(e.Data, w.made[i].Data); g != nil {
		w.differs(&Difference{What: "event", Recorded: Describe(e), Replayed: Describe(w.made[i])}, g)
		return
	}
	w.made = slices.Delete(w.made, i, i+1)
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
func (w *executionReplay) apply(e event.Event) {
	var d decide.Decision
	applied, err := w.decide(e, &d)
	if err != nil {
		w.broken(e, err)
		return
	}
	if !applied {
		w.unexpected(e, "nothing: the event has no effect, since "+w.doing())
		return
	}
	delete(w.asked, e.Task)
	w.decided(&d)
}

// decide calls decide's Apply and turns a panic into an error.
func (w *executionReplay) decide(e event.Event, d *decide.Decision) (applied bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decide: %v", r)
		}
	}()
	return w.state.Apply(w.env, e, d)
}

// decided records the effects of a decision.
func (w *executionReplay) decided(d *decide.Decision) {
	w.made = append(w.made, d.History[1:]...)
	for _, e := range d.Publish {
		switch e.Type {
		case event.TaskRequested:
			w.asked[e.Task] = e
		case event.ExecutionStarted:
			w.starts[e.Execution] = e
		case event.TaskCompleted: // from a child to its parent
			w.ends[w.state.Execution] = e
		default:
			if !strings.HasPrefix(string(e.Type), event.Prefix) {
				w.emitted[arrivalKey(e.Source, e.ID)] = true
			}
		}
	}
}

// gaveUp accepts the end of an execution on which the engine gave up. This end is not a
// decision, because its cause lies outside.
func (w *executionReplay) gaveUp(e event.Event) bool {
	var ended event.Ended
	if e.Type != event.WorkflowFailed || decide.DecodeData(e, &ended) != nil || ended.Error == nil {
		return false
	}
	if !strings.Contains(ended.Error.Detail, " gave up ") {
		return false
	}
	w.failed = ended.Error
	w.notes = append(w.notes, fmt.Sprintf("the engine gave up on the execution at event %d (line %d): %s", w.at+1, w.entries[w.at].line, cut(ended.Error.Detail)))
	return true
}

// unexpected reports an event that the replay does not produce.
func (w *executionReplay) unexpected(e event.Event, replayed string) {
	w.differs(&Difference{What: "unexpected", Recorded: Describe(e), Replayed: replayed}, nil)
}

// broken reports an event that the engine cannot apply.
func (w *executionReplay) broken(e event.Event, err error) {
	w.differs(&Difference{What: "unexpected", Recorded: Describe(e), Replayed: "the engine rejects it: " + cut(err.Error())}, nil)
}

// doing describes an execution that has no decision to make.
func (w *executionReplay) doing() string {
	if w.state.Status.Ended() {
		return "the execution has ended: it is " + string(w.state.Status)
	}
	text := "the execution is " + string(w.state.Status)
	if awaits := w.state.Awaits(); len(awaits) > 0 {
		text += ": " + strings.Join(awaits, "; ")
	}
	return cut(text)
}

// leftover reports a decided event that is missing from a finished recording.
func (w *executionReplay) leftover() {
	if len(w.made) == 0 || !w.finished() {
		return
	}
	want := w.made[0]
	if w.loose {
		w.at = w.differ
	}
	w.differs(&Difference{What: "missing", Recorded: "nothing more", Replayed: Describe(want), task: want.Task}, nil)
}

// result returns how the execution has ended so far.
func (w *executionReplay) result() *sim.Result {
	r := &sim.Result{Status: w.state.Status, Error: w.state.Error}
	switch {
	case w.failed != nil:
		r.Status, r.Error = decide.Faulted, w.failed
	case r.Status == decide.Completed:
		r.Output = canonical.Encode(w.state.Output.V)
	}
	return r
}

// check checks an input before it is applied.
func (w *executionReplay) check(e event.Event) {
	switch e.Type {
	case event.EventReceived:
		w.checkArrival(e)
	case event.TaskCompleted:
		w.checkResult(e)
	default:
	}
}

// checkArrival finds the event from outside that a history event records.
func (w *executionReplay) checkArrival(e event.Event) {
	envelope, _ := dataOf(e.Data).(map[string]any)
	key := arrivalKey(canonical.Text(envelope["source"]), canonical.Text(envelope["id"]))
	if w.emitted[key] {
		return
	}
	i, known := w.known[key]
	if !known {
		w.differs(&Difference{What: "arrival", Recorded: Describe(e), Replayed: "no such event from outside: the recording has no line for it"}, nil)
		return
	}
	came := w.arrivals[i]
	now := decide.Received(came.Event, e.Execution)
	if g := w.comparison("time").between(e.Data, now.Data); g != nil {
		w.differs(&Difference{
			What: "arrival", Recorded: Describe(e), Replayed: fmt.Sprintf("%s (line %d)", Describe(now), came.line),
		}, g)
	}
}

func arrivalKey(source, id string) string { return source + " " + id }

// checkResult recomputes the result of a task, if possible.
func (w *executionReplay) checkResult(e event.Event) {
	asked, ok := w.asked[e.Task]
	if !ok {
		w.checkChild(e)
		return
	}
	var requested event.Requested
	task := w.doc.now.Task(event.ParseRun(e.Task).Ref)
	if err := decide.DecodeData(asked, &requested); err != nil || task == nil {
		w.broken(e, fmt.Errorf("request of %s: %w", e.Task, err))
		return
	}
	now := asked.Time
	if e.Source == decide.Source && w.state.Now.After(now) {
		now = w.state.Now
	}
	scope, err := w.env.RequestScope(task, requested, now)
	if err != nil {
		w.broken(e, err)
		return
	}
	if c, ok := w.env.Compute(task, scope, e.Execution, e.Task); ok {
		if d, g := w.compare("computed", e, c); d != nil {
			w.tolerate(d, g)
		}
		return
	}
	if w.fromHistory() || e.Source != executor.Source {
		return
	}
	w.checkCall(e, task, scope)
}

// checkChild compares the result of a task that ran a child execution.
func (w *executionReplay) checkChild(e event.Event) {
	id, ok := strings.CutSuffix(e.ID, "/parent")
	child := w.executions[id]
	if !ok || child == nil || e.Source != decide.Source || child.failed != nil {
		return
	}
	end, known := w.ends[id]
	if !known {
		w.unexpected(e, "nothing: execution "+id+" has not ended")
		return
	}
	if g := w.comparison().between(e.Data, end.Data); g != nil {
		w.differs(&Difference{What: "event", Recorded: Describe(e), Replayed: Describe(end)}, g)
	}
}

// compare compares a recorded result with the replayed one.
func (w *executionReplay) compare(what string, e event.Event, now event.Completed) (*Difference, *difference) {
	data := event.Encode(now)
	g := w.comparison("duration_ms", "call").between(e.Data, data)
	if g == nil {
		return nil, nil
	}
	replayed := e
	replayed.Data = data
	return &Difference{What: what, Recorded: Describe(e), Replayed: Describe(replayed)}, g
}

// tolerate tolerates a difference in the result of a task of a running execution, which keeps
// its recorded result even though a new execution would have a different one.
func (w *executionReplay) tolerate(d *Difference, g *difference) {
	if !w.doc.changed() || w.finished() {
		w.differs(d, g)
		return
	}
	if w.tolerated == nil {
		w.differs(d, g)
		w.tolerated, w.diff = w.diff, nil
	}
}
