// Package invariant checks histories against the rules that hold for every execution, whatever goes
// wrong. It knows documents and events, and not how the engine decides.
package invariant

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/timers"
)

// historyAudit checks a history against rules that hold for every history. It uses only the
// history and its document, not package decide: decisions that are wrong in the same way
// each time agree with themselves.
type historyAudit struct {
	def    *dsl.Definition
	id     string
	broken Report

	begun  map[string]bool      // all task runs that have begun
	open   map[string]event.Run // task runs that have not ended
	over   string               // the task run that ended last
	timers map[string]event.Timer
	set    map[string]event.Event // the scheduling event of each timer that a run has ever set, by slot
	fired  map[string]bool        // likewise, the timers that have fired
	heard  map[string]bool        // ids of the events from outside that were received
	tries  map[string]int         // the number of retries, by the run of the try task

	limitless bool        // the execution has a time limit, and no timer was set for it since it began or was retried
	fell      []event.Run // the tasks that failed last, of one cause, the innermost first
	cause     *event.Problem
	resumes   string // the task from which a faulted execution continues if it is retried; "" if unknown
	next      string // the same, after it was retried
	held      bool   // results were deferred by a suspension

	paused bool      // the execution is suspended
	last   time.Time // when a task last began or a timer was last set

	rules *rules // about the order of its tasks

	// Once an execution was suspended or retried, the events that it receives and its
	// reactions to them are no longer adjacent: from then on only its timers are checked.
	loose bool
}

// History checks the history of an execution.
func History(def *dsl.Definition, id string, events []event.Event, broken Report) {
	l := &historyAudit{
		def: def, id: id, broken: broken, begun: map[string]bool{}, open: map[string]event.Run{}, timers: map[string]event.Timer{},
		set: map[string]event.Event{}, fired: map[string]bool{}, tries: map[string]int{}, heard: map[string]bool{}, rules: newRules(def, id, broken),
	}
	for _, e := range events {
		l.take(e)
	}
	l.rules.settle()
}

func (l *historyAudit) take(e event.Event) {
	if outside(e) {
		l.rules.settle()
		l.limited()
		l.fell = nil
	}
	if e.Type != event.TimerCancelled {
		l.tidy()
	}
	if (e.Type == event.TaskRequested || e.Type == event.TimerScheduled) && e.Source != timers.OperatorSource {
		l.dated(e)
	}
	switch e.Type {
	case event.ExecutionStarted:
		l.limitless = l.def.Timeout != nil
	case event.TaskRequested:
		l.goesOn(e)
		l.begins(e)
	case event.TaskCompleted:
		l.fails(e)
		l.ends(e)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		var t event.Timer
		_ = decide.DecodeData(e, &t) // the engine's own data is always readable
		l.timer(e, t)
	case event.EventReceived:
		l.hears(e)
	case event.ExecutionSuspended, event.ExecutionRetried, event.ExecutionResumed:
		l.loose, l.open = true, map[string]event.Run{}
		l.rules.stop()
		if e.Type == event.ExecutionRetried {
			l.limitless, l.next, l.resumes = l.def.Timeout != nil, l.resumes, ""
		}
		l.paused, l.held = e.Type == event.ExecutionSuspended, l.held || e.Type == event.ExecutionSuspended
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		l.rules.closes(e)
		l.rules.stop()
		l.falls(e)
		l.closes(e)
	case event.ExecutionMigrated, event.ExecutionRestored:
		l.next = ""
		l.rules.stop()
	default:
	}
}

// limited checks, once a decision is complete, that the time limit of the execution has a
// timer.
func (l *historyAudit) limited() {
	if l.limitless {
		l.broken("a workflow with a time limit has a timer", l.id, "none was set as it began, or was retried")
		l.limitless = false
	}
}

// fails records the end of a task, which may have failed because the task before it
// failed.
func (l *historyAudit) fails(e event.Event) {
	var c event.Completed
	if decide.DecodeData(e, &c) != nil || c.Status != "" && c.Status != "skipped" {
		return // cancelled tasks do not count
	}
	run := event.ParseRun(e.Task)
	if c.Status == "skipped" && run.Ref == l.next {
		l.next = ""
	}
	switch n := len(l.fell); {
	case c.Success || c.Error == nil:
		l.fell = nil
	case n > 0 && encloses(run, l.fell[n-1]):
		l.fell = append(l.fell, run)
		if *c.Error != *l.cause { // it may have a different cause
			l.cause = &event.Problem{}
		}
	default:
		l.fell, l.cause = []event.Run{run}, c.Error
	}
}

// falls records from where a faulted execution continues: from the innermost of the tasks
// that failed of one cause, or from the fork around them.
func (l *historyAudit) falls(e event.Event) {
	if e.Type == event.WorkflowCompleted {
		l.limited()
	}
	l.resumes, l.limitless, l.next = "", false, ""
	if e.Type != event.WorkflowFailed || GivenUp(e) || l.held || len(l.fell) == 0 || l.cause.Type == "" {
		return
	}
	for i, run := range l.fell {
		t := l.def.Task(run.Ref)
		if t == nil || !strings.HasPrefix(run.Ref, "/do/") { // the task is part of a function
			l.resumes = ""
			return
		}
		if i == 0 || t.Kind == dsl.Fork {
			l.resumes = run.Ref
		}
	}
	if l.around(l.fell[len(l.fell)-1].Ref) != "" { // the task around it has failed of another cause
		l.resumes = ""
	}
}

// goesOn checks that the first task of a retried execution is the one that had failed.
func (l *historyAudit) goesOn(e event.Event) {
	if ref := event.ParseRun(e.Task).Ref; l.next != "" && ref != l.next {
		l.broken("what is retried goes on from the task that failed", l.id, "%s had failed, and %s began", l.next, RunName(e.Task))
	}
	l.next = ""
}

// dated checks the time of a decision: time never runs backwards, and a suspended
// execution makes no decisions.
func (l *historyAudit) dated(e event.Event) {
	if l.paused {
		l.broken("nothing begins in an execution that is suspended", l.id, "%s of %s is there", e.Type, RunName(e.Task))
	}
	if e.Time.Before(l.last) {
		l.broken("time does not run back", l.id, "%s of %s is from %v, what was before it from %v", e.Type, RunName(e.Task), e.Time, l.last)
	}
	l.last = e.Time
}

// begins records the begin of a task run.
func (l *historyAudit) begins(e event.Event) {
	if l.begun[e.Task] {
		l.broken("a run of a task begins once", l.id, "%s has begun twice", e.Task)
	}
	l.begun[e.Task] = true
	if l.loose {
		return
	}
	run := event.ParseRun(e.Task)
	if around := l.around(run.Ref); around != "" && !l.within(around, run) {
		l.broken("a task begins inside one that has not ended", l.id, "%s began, and no run of %s around it was there", e.Task, around)
	}
	l.open[e.Task] = run
	l.rules.begins(e, run)
}

// ends records the end of a task run.
func (l *historyAudit) ends(e event.Event) {
	var c event.Completed
	_ = decide.DecodeData(e, &c)
	if l.loose {
		return
	}
	run, ok := l.open[e.Task]
	if !ok {
		run = event.ParseRun(e.Task)
	}
	l.rules.ends(e, run, &c, l.fired[Slot(event.Timer{TaskID: e.Task, Kind: event.TimeoutTimer})])
	if c.Status == "skipped" {
		return
	}
	if !ok {
		if l.over != e.Task || c.Error == nil { // an invalid output turns a success into a failure
			l.broken("a run of a task ends once", l.id, "%s ended, and was not under way", e.Task)
		}
		return
	}
	delete(l.open, e.Task)
	l.over = e.Task
	for _, inside := range slices.Sorted(maps.Keys(l.open)) {
		if encloses(run, l.open[inside]) {
			l.broken("nothing goes on inside a task that has ended", l.id, "%s ended, and %s had not", e.Task, inside)
		}
	}
	if c.Success {
		l.timely(e, run)
	}
}

// tidy checks that no timer is left of the run that ended last.
func (l *historyAudit) tidy() {
	if l.over == "" || l.loose {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.timers)) {
		if l.timers[key].TaskID == l.over {
			l.broken("no timer outlives its task", l.id, "%s ended, and its %s timer stays", l.over, l.timers[key].Kind)
			delete(l.timers, key)
		}
	}
}

// closes records the end of the execution.
func (l *historyAudit) closes(e event.Event) {
	if GivenUp(e) { // the engine gave up on the execution, so nothing was decided about its tasks
		l.open, l.timers = map[string]event.Run{}, map[string]event.Timer{}
		return
	}
	for _, task := range slices.Sorted(maps.Keys(l.open)) {
		l.broken("nothing goes on inside an execution that has ended", l.id, "%s had not ended", task)
	}
	for _, key := range slices.Sorted(maps.Keys(l.timers)) {
		l.broken("an execution takes back its timers", l.id, "the %s timer of %s stays", l.timers[key].Kind, RunName(l.timers[key].TaskID))
	}
	l.open, l.timers = map[string]event.Run{}, map[string]event.Timer{}
}

// hears checks that some task listens for an event from outside.
func (l *historyAudit) hears(e event.Event) {
	if l.heard[e.ID] && len(l.heard) < mostHeard {
		l.broken("an event is heard once", l.id, "%s is there twice", e.ID)
	}
	l.heard[e.ID] = true
	if l.loose {
		return
	}
	listens := false
	for _, run := range l.open {
		if t := l.def.Task(run.Ref); t != nil && t.Kind == dsl.Listen {
			if listens = true; listensFor(t, e) {
				return
			}
		}
	}
	if listens {
		l.broken("a task receives only the events that it listens for", l.id, "%s came, and no task listened for its type", e.ID)
		return
	}
	l.broken("an event is received only by a listening task", l.id, "%s came, and no task listened", e.ID)
}

// mostHeard is how many event ids an execution remembers.
const mostHeard = 256

// listensFor reports whether a filter of a listen task may accept an event, judging by
// its type.
func listensFor(t *dsl.Task, e event.Event) bool {
	to := t.Listen.To
	filters := to.Filters
	if to.UntilEvent != nil {
		filters = slices.Concat(filters, to.UntilEvent.Filters)
	}
	if len(to.Filters) == 0 {
		return true
	}
	var envelope struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(e.Data, &envelope) != nil {
		return true
	}
	for _, f := range filters {
		types := EventTypes([]dsl.EventFilter{f})
		if len(types) == 0 || types[0] == envelope.Type || strings.ContainsAny(types[0], `*+?()[]{}|\^$`) {
			return true
		}
	}
	return false
}

// around returns the reference of the innermost task that encloses ref in the document;
// "" if there is none, or if the task is part of a function.
func (l *historyAudit) around(ref string) string {
	for strings.HasPrefix(ref, "/do/") {
		ref = ref[:strings.LastIndexByte(ref, '/')]
		if t := l.def.Task(ref); t != nil {
			return ref
		}
	}
	return ""
}

// within reports whether run is inside an open run of the task ref.
func (l *historyAudit) within(ref string, run event.Run) bool {
	for _, o := range l.open {
		if o.Ref == ref && encloses(o, run) {
			return true
		}
	}
	return false
}

// encloses reports whether the run inner is inside the run outer, by their names.
func encloses(outer, inner event.Run) bool {
	return strings.HasPrefix(inner.Ref, outer.Ref+"/") &&
		under(outer.Iteration, inner.Iteration) && under(outer.Attempt, inner.Attempt)
}

func under(outer, inner string) bool {
	return outer == "" || outer == inner || strings.HasPrefix(inner, outer+".")
}

// RunName is how messages call a task run; "" is the workflow.
func RunName(task string) string {
	if task == "" {
		return "the workflow"
	}
	return history.Task(task)
}

// The keys of the timers for the attempts of a try.
const (
	keyAttempt = "attempt"
	keyOverall = "overall"
)

// TryLimit is the key of the timer that limits all attempts of a try together.
const TryLimit = keyOverall

// Slot identifies a timer of a run, whenever it is due.
func Slot(t event.Timer) string { return t.TaskID + " " + string(t.Kind) + " " + t.Key }

// timer records that a timer was set, cancelled or fired. Only a timer that is set can be
// cancelled or fire.
func (l *historyAudit) timer(e event.Event, t event.Timer) {
	key := Slot(t) + " " + t.FireAt.String()
	_, known := l.timers[key]
	switch {
	case e.Type == event.TimerScheduled && e.Source == timers.OperatorSource: // it was moved, or restored
		l.timers[key] = t
		return
	case e.Type == event.TimerScheduled:
		l.limitless = l.limitless && t.TaskID != ""
		l.schedules(e, t)
		if t.Kind == event.RetryTimer {
			l.rules.waits(t.TaskID)
		}
		l.timers[key], l.set[Slot(t)] = t, e
		return
	case e.Type == event.TimerFired && !known:
		l.broken("only a timer that is set fires", l.id, "the %s timer of %s for %v fired, and was not set", t.Kind, RunName(t.TaskID), t.FireAt)
	case e.Type == event.TimerFired:
		l.fired[Slot(t)] = true
	case !known && !l.loose:
		l.broken("a timer is taken back once", l.id, "the %s timer of %s for %v was not set any more", t.Kind, RunName(t.TaskID), t.FireAt)
	}
	delete(l.timers, key)
}

// schedules checks a new timer against the duration in the document, if that is a
// literal.
func (l *historyAudit) schedules(e event.Event, t event.Timer) {
	for _, other := range l.timers {
		if Slot(other) == Slot(t) {
			l.broken("a task has one timer of a kind", l.id, "the %s timer of %s was set again", t.Kind, RunName(t.TaskID))
		}
	}
	ref := event.ParseRun(t.TaskID).Ref
	task := l.def.Task(ref)
	if t.Kind == event.RetryTimer && task != nil && task.Kind == dsl.Try {
		l.retries(e, t, task.Try.Catch.Retry)
		return
	}
	var stated *expr.Value
	switch {
	case t.TaskID == "":
		stated = l.def.Timeout
	case task != nil:
		stated = statedOf(task, t)
	}
	if want, ok := moment(stated, e.Time); ok && !want.Equal(t.FireAt) {
		l.broken("a timer is set for when the document says", l.id, "the %s timer of %s is set for %v, want %v", t.Kind, RunName(t.TaskID), t.FireAt, want)
	}
}

// statedOf returns the duration in the document that a timer of a task is set for.
func statedOf(task *dsl.Task, t event.Timer) *expr.Value {
	switch {
	case t.Kind == event.WaitTimer:
		return task.Wait
	case t.Kind != event.TimeoutTimer:
		return nil
	case t.Key == "":
		return task.Timeout
	case task.Kind != dsl.Try || task.Try.Catch.Retry == nil:
		return nil
	case t.Key == keyAttempt:
		return task.Try.Catch.Retry.AttemptDuration
	case t.Key == keyOverall:
		return task.Try.Catch.Retry.Duration
	default:
		return nil
	}
}

// moment returns when a duration of the document is over; false if it is not a literal.
func moment(stated *expr.Value, from time.Time) (time.Time, bool) {
	if stated == nil {
		return from, false
	}
	data, ok := stated.Constant()
	if !ok {
		return from, false
	}
	d, err := dsl.ParseDuration(data)
	return d.From(from), err == nil
}

// retries checks a retry against its policy: the number of retries, and the delay with
// its backoff and jitter.
func (l *historyAudit) retries(e event.Event, t event.Timer, r *dsl.RetryPolicy) {
	l.tries[t.TaskID]++
	n := l.tries[t.TaskID]
	if r == nil || r.AttemptCount > 0 && n > r.AttemptCount {
		l.broken("a task is tried again as often as the document says", l.id, "%s is tried again %d times", t.TaskID, n)
		return
	}
	from, to, ok := RetryDelay(r, n, e.Time)
	const longest = 365 * 24 * time.Hour
	if got := t.FireAt.Sub(e.Time); ok && from < longest && (got < from || got > to) {
		l.broken("a retry comes when the document says", l.id, "retry %d of %s comes after %v, want %v to %v", n, t.TaskID, got, from, to)
	}
}

// RetryDelay returns how long a policy delays the n-th retry after at, with the least and
// the most jitter; ok is false if the delay is not a literal.
func RetryDelay(r *dsl.RetryPolicy, n int, at time.Time) (from, to time.Duration, ok bool) {
	once := at
	if r.Delay != nil {
		if once, ok = moment(r.Delay, at); !ok {
			return 0, 0, false
		}
	}
	delay := once.Sub(at)
	switch r.Backoff {
	case "linear":
		delay *= time.Duration(n)
	case "exponential":
		delay = time.Duration(float64(delay) * math.Pow(2, float64(n-1))) //nolint:mnd // doubles each time
	}
	from, to = jitterOf(r)
	return delay + from, delay + to, true
}

// jitterOf returns the bounds of the jitter.
func jitterOf(r *dsl.RetryPolicy) (from, to time.Duration) {
	if r.JitterTo == nil {
		return 0, 0
	}
	from, _ = LiteralDuration(r.JitterFrom)
	to, ok := LiteralDuration(r.JitterTo)
	if !ok {
		return 0, math.MaxInt64 / 2 //nolint:mnd // no bound, and far from an overflow
	}
	return from, to
}

// timely checks the success of a task against its timers: a wait ends when its timer has
// fired, and a task with a time limit has a timer that has not fired.
func (l *historyAudit) timely(e event.Event, run event.Run) {
	task := l.def.Task(run.Ref)
	if task == nil {
		return
	}
	mine := func(kind event.TimerKind) string { return Slot(event.Timer{TaskID: e.Task, Kind: kind}) }
	if task.Kind == dsl.Wait && !l.fired[mine(event.WaitTimer)] {
		l.broken("a wait ends when its time has come", l.id, "%s ended before", e.Task)
	}
	if _, limited := l.set[mine(event.TimeoutTimer)]; task.Timeout != nil && !limited {
		l.broken("a task with a time limit has a timer", l.id, "%s ended, and had none", e.Task)
	}
	if l.fired[mine(event.TimeoutTimer)] {
		l.broken("a task that has run out of time fails", l.id, "%s ended well", e.Task)
	}
}

// LiteralDuration returns a duration of the document; false if it is not a literal.
func LiteralDuration(v *expr.Value) (time.Duration, bool) {
	if v == nil {
		return 0, false
	}
	data, ok := v.Constant()
	if !ok {
		return 0, false
	}
	d, err := dsl.ParseDuration(data)
	if err != nil {
		return 0, false
	}
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // of simulations; months have different lengths
	return d.From(begin).Sub(begin), true
}

// GivenUp reports whether an event is the end of an execution that the engine gave up
// without a decision.
func GivenUp(e event.Event) bool {
	var ended event.Ended
	return e.Type == event.WorkflowFailed && decide.DecodeData(e, &ended) == nil && strings.HasPrefix(ended.Reason, "given up")
}

// EventTypes returns the types that filters name literally.
func EventTypes(filters []dsl.EventFilter) (types []string) {
	for _, f := range filters {
		for _, attribute := range f.With {
			if attribute.Key != "type" {
				continue
			}
			if v, ok := attribute.Value.Constant(); ok {
				if typ, ok := v.(string); ok {
					types = append(types, typ)
				}
			}
		}
	}
	return types
}

// Report records a violation.
type Report func(rule, execution, format string, args ...any)
