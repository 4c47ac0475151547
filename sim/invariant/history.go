// Package invariant checks histories against rules that hold for every execution, with and
// without faults. It knows documents and events, but not how the engine decides.
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

// historyAudit checks a history using only its document, not package decide: comparing
// decisions with themselves would not reveal a consistent mistake.
type historyAudit struct {
	def    *dsl.Definition
	id     string
	report Report

	begun     map[string]bool      // all task runs that have begun
	open      map[string]event.Run // task runs that have not ended
	lastEnded string               // the task run that ended last
	timers    map[string]event.Timer
	set       map[string]event.Event // the scheduling event of each timer that a run has ever set, by slot
	fired     map[string]bool        // timers of a run that have fired, by slot
	received  map[string]bool        // ids of the events from outside that were received
	tries     map[string]int         // the number of retries, by the run of the try task

	needsTimer bool           // the execution has a time limit, but no timer was set for it since it started or was retried
	failed     []event.Run    // the tasks that failed last, with the same error, the innermost first
	cause      *event.Problem // their error
	resumes    string         // the task from which a faulted execution continues if it is retried; "" if unknown
	next       string         // the task from which the retried execution must continue; "" if unknown
	deferred   bool           // a suspension deferred results

	paused bool      // the execution is suspended
	last   time.Time // when a task last began or a timer was last set

	rules *rules // about the order of its tasks

	// Once an execution was suspended or retried, its reactions no longer directly follow the
	// events that it receives, and only its timers are checked.
	loose bool
}

// History checks the history of execution id against its document, and passes each violation to
// report.
func History(def *dsl.Definition, id string, events []event.Event, report Report) {
	a := &historyAudit{
		def: def, id: id, report: report, begun: map[string]bool{}, open: map[string]event.Run{}, timers: map[string]event.Timer{},
		set: map[string]event.Event{}, fired: map[string]bool{}, tries: map[string]int{}, received: map[string]bool{}, rules: newRules(def, id, report),
	}
	for _, e := range events {
		a.take(e)
	}
	a.rules.settle()
}

func (a *historyAudit) take(e event.Event) {
	if outside(e) {
		a.rules.settle()
		a.checkTimeLimit()
		a.failed = nil
	}
	if e.Type != event.TimerCancelled {
		a.tidy()
	}
	if (e.Type == event.TaskRequested || e.Type == event.TimerScheduled) && e.Source != timers.OperatorSource {
		a.dated(e)
	}
	switch e.Type {
	case event.ExecutionStarted:
		a.needsTimer = a.def.Timeout != nil
	case event.TaskRequested:
		a.continues(e)
		a.begins(e)
	case event.TaskCompleted:
		a.recordFailure(e)
		a.ends(e)
	case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
		var t event.Timer
		_ = decide.DecodeData(e, &t) // the engine's own data is always readable
		a.timer(e, t)
	case event.EventReceived:
		a.receives(e)
	case event.ExecutionSuspended, event.ExecutionRetried, event.ExecutionResumed:
		a.loose, a.open = true, map[string]event.Run{}
		a.rules.stop()
		if e.Type == event.ExecutionRetried {
			a.needsTimer, a.next, a.resumes = a.def.Timeout != nil, a.resumes, ""
		}
		a.paused, a.deferred = e.Type == event.ExecutionSuspended, a.deferred || e.Type == event.ExecutionSuspended
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		a.rules.closes(e)
		a.rules.stop()
		a.recordFault(e)
		a.closes(e)
	case event.ExecutionMigrated, event.ExecutionRestored:
		a.next = ""
		a.rules.stop()
	default:
	}
}

// checkTimeLimit checks, once a decision is complete, that a timer was set for the execution's
// time limit.
func (a *historyAudit) checkTimeLimit() {
	if a.needsTimer {
		a.report("a workflow with a time limit has a timer", a.id, "none was set when it started or was retried")
		a.needsTimer = false
	}
}

// recordFailure records the end of a task, which may have failed because the task before it
// failed.
func (a *historyAudit) recordFailure(e event.Event) {
	var c event.Completed
	if decide.DecodeData(e, &c) != nil || c.Status != "" && c.Status != "skipped" {
		return // cancelled tasks do not count
	}
	run := event.ParseRun(e.Task)
	if c.Status == "skipped" && run.Ref == a.next {
		a.next = ""
	}
	switch n := len(a.failed); {
	case c.Success || c.Error == nil:
		a.failed = nil
	case n > 0 && encloses(run, a.failed[n-1]):
		a.failed = append(a.failed, run)
		if *c.Error != *a.cause { // it may have a different cause
			a.cause = &event.Problem{}
		}
	default:
		a.failed, a.cause = []event.Run{run}, c.Error
	}
}

// recordFault records where a faulted execution continues if it is retried: at the innermost
// of the tasks that failed with the same error, or at the fork around them.
func (a *historyAudit) recordFault(e event.Event) {
	if e.Type == event.WorkflowCompleted {
		a.checkTimeLimit()
	}
	a.resumes, a.needsTimer, a.next = "", false, ""
	if e.Type != event.WorkflowFailed || GivenUp(e) || a.deferred || len(a.failed) == 0 || a.cause.Type == "" {
		return
	}
	for i, run := range a.failed {
		t := a.def.Task(run.Ref)
		if t == nil || !strings.HasPrefix(run.Ref, "/do/") { // the task is part of a function
			a.resumes = ""
			return
		}
		if i == 0 || t.Kind == dsl.Fork {
			a.resumes = run.Ref
		}
	}
	if a.around(a.failed[len(a.failed)-1].Ref) != "" { // the task around it failed with another error
		a.resumes = ""
	}
}

// continues checks that a retried execution continues with the task that had failed.
func (a *historyAudit) continues(e event.Event) {
	if ref := event.ParseRun(e.Task).Ref; a.next != "" && ref != a.next {
		a.report("a retried execution continues with the task that failed", a.id, "%s had failed, but %s began", a.next, RunName(e.Task))
	}
	a.next = ""
}

// dated checks the time of a decision: time never runs backwards, and a suspended
// execution makes no decisions.
func (a *historyAudit) dated(e event.Event) {
	if a.paused {
		a.report("nothing begins in a suspended execution", a.id, "%s of %s is in the history", e.Type, RunName(e.Task))
	}
	if e.Time.Before(a.last) {
		a.report("time never runs backwards", a.id, "%s of %s has the time %v, after an event with %v", e.Type, RunName(e.Task), e.Time, a.last)
	}
	a.last = e.Time
}

// begins records the begin of a task run.
func (a *historyAudit) begins(e event.Event) {
	if a.begun[e.Task] {
		a.report("a task run begins once", a.id, "%s began twice", e.Task)
	}
	a.begun[e.Task] = true
	if a.loose {
		return
	}
	run := event.ParseRun(e.Task)
	if around := a.around(run.Ref); around != "" && !a.within(around, run) {
		a.report("a task begins inside one that has not ended", a.id, "%s began, but no run of %s around it was open", e.Task, around)
	}
	a.open[e.Task] = run
	a.rules.begins(e, run)
}

// ends records the end of a task run.
func (a *historyAudit) ends(e event.Event) {
	var c event.Completed
	_ = decide.DecodeData(e, &c)
	if a.loose {
		return
	}
	run, ok := a.open[e.Task]
	if !ok {
		run = event.ParseRun(e.Task)
	}
	a.rules.ends(e, run, &c, a.fired[Slot(event.Timer{TaskID: e.Task, Kind: event.TimeoutTimer})])
	if c.Status == "skipped" {
		return
	}
	if !ok {
		if a.lastEnded != e.Task || c.Error == nil { // an invalid output turns a success into a failure
			a.report("a task run ends once", a.id, "%s ended, but was not open", e.Task)
		}
		return
	}
	delete(a.open, e.Task)
	a.lastEnded = e.Task
	for _, inside := range slices.Sorted(maps.Keys(a.open)) {
		if encloses(run, a.open[inside]) {
			a.report("a task ends after the tasks inside it", a.id, "%s ended, but %s had not", e.Task, inside)
		}
	}
	if c.Success {
		a.timely(e, run)
	}
}

// tidy checks that no timer is left of the run that ended last.
func (a *historyAudit) tidy() {
	if a.lastEnded == "" || a.loose {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(a.timers)) {
		if a.timers[key].TaskID == a.lastEnded {
			a.report("no timer outlives its task", a.id, "%s ended, but its %s timer is still set", a.lastEnded, a.timers[key].Kind)
			delete(a.timers, key)
		}
	}
}

// closes records the end of the execution.
func (a *historyAudit) closes(e event.Event) {
	if GivenUp(e) { // the engine gave up on the execution, so nothing was decided about its tasks
		a.open, a.timers = map[string]event.Run{}, map[string]event.Timer{}
		return
	}
	for _, task := range slices.Sorted(maps.Keys(a.open)) {
		a.report("an execution ends after its tasks", a.id, "%s had not ended", task)
	}
	for _, key := range slices.Sorted(maps.Keys(a.timers)) {
		a.report("an execution cancels its timers when it ends", a.id, "the %s timer of %s is still set", a.timers[key].Kind, RunName(a.timers[key].TaskID))
	}
	a.open, a.timers = map[string]event.Run{}, map[string]event.Timer{}
}

// receives checks that some task listens for an event from outside.
func (a *historyAudit) receives(e event.Event) {
	if a.received[e.ID] && len(a.received) < maxRemembered {
		a.report("an event is received once", a.id, "%s was received twice", e.ID)
	}
	a.received[e.ID] = true
	if a.loose {
		return
	}
	listens := false
	for _, run := range a.open {
		if t := a.def.Task(run.Ref); t != nil && t.Kind == dsl.Listen {
			if listens = true; listensFor(t, e) {
				return
			}
		}
	}
	if listens {
		a.report("a task receives only the events that it listens for", a.id, "%s arrived, but no task listened for its type", e.ID)
		return
	}
	a.report("an event is received only by a listening task", a.id, "%s arrived, but no task listened", e.ID)
}

// maxRemembered is how many ids of received events an execution remembers.
const maxRemembered = 256

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
		types := EventTypes(f)
		if len(types) == 0 || types[0] == envelope.Type || strings.ContainsAny(types[0], `*+?()[]{}|\^$`) {
			return true
		}
	}
	return false
}

// around returns the reference of the innermost task that encloses ref in the document;
// "" if there is none, or if the task is part of a function.
func (a *historyAudit) around(ref string) string {
	for strings.HasPrefix(ref, "/do/") {
		ref = ref[:strings.LastIndexByte(ref, '/')]
		if t := a.def.Task(ref); t != nil {
			return ref
		}
	}
	return ""
}

// within reports whether run is inside an open run of the task ref.
func (a *historyAudit) within(ref string, run event.Run) bool {
	for _, o := range a.open {
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

// RunName returns a task run as messages name it; "" is the workflow.
func RunName(task string) string {
	if task == "" {
		return "the workflow"
	}
	return history.Task(task)
}

// The keys of the timers that limit one attempt of a try, and all attempts together.
const (
	keyAttempt = "attempt"
	TryLimit   = "overall"
)

// Slot identifies a timer of a run, whenever it is due.
func Slot(t event.Timer) string { return t.TaskID + " " + string(t.Kind) + " " + t.Key }

// timer records that a timer was set, cancelled or fired. Only a timer that is set can be
// cancelled or fire.
func (a *historyAudit) timer(e event.Event, t event.Timer) {
	key := Slot(t) + " " + t.FireAt.String()
	_, known := a.timers[key]
	switch {
	case t.Kind == event.InputTimer: // only operators' changes are in the history
	case e.Type == event.TimerScheduled && e.Source == timers.OperatorSource: // an operator moved or restored it
		a.timers[key] = t
		return
	case e.Type == event.TimerScheduled:
		a.needsTimer = a.needsTimer && t.TaskID != ""
		a.schedules(e, t)
		if t.Kind == event.RetryTimer {
			a.rules.waits(t.TaskID)
		}
		a.timers[key], a.set[Slot(t)] = t, e
		return
	case e.Type == event.TimerFired && !known:
		a.report("only a timer that is set fires", a.id, "the %s timer of %s for %v fired, but was not set", t.Kind, RunName(t.TaskID), t.FireAt)
	case e.Type == event.TimerFired:
		a.fired[Slot(t)] = true
	case !known && !a.loose:
		a.report("a timer is cancelled once", a.id, "the %s timer of %s for %v was not set", t.Kind, RunName(t.TaskID), t.FireAt)
	}
	delete(a.timers, key)
}

// schedules checks a new timer against the duration in the document, if it is a literal.
func (a *historyAudit) schedules(e event.Event, t event.Timer) {
	for _, other := range a.timers {
		if Slot(other) == Slot(t) {
			a.report("a task has one timer of a kind", a.id, "the %s timer of %s was set again", t.Kind, RunName(t.TaskID))
		}
	}
	ref := event.ParseRun(t.TaskID).Ref
	task := a.def.Task(ref)
	if t.Kind == event.RetryTimer && task != nil && task.Kind == dsl.Try {
		a.retries(e, t, task.Try.Catch.Retry)
		return
	}
	var stated *expr.Value
	switch {
	case t.TaskID == "":
		stated = a.def.Timeout
	case task != nil:
		stated = statedOf(task, t)
	}
	if want, ok := moment(stated, e.Time); ok && !want.Equal(t.FireAt) {
		a.report("a timer is set for the time that the document says", a.id, "the %s timer of %s is set for %v, want %v", t.Kind, RunName(t.TaskID), t.FireAt, want)
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
	case t.Key == TryLimit:
		return task.Try.Catch.Retry.Duration
	default:
		return nil
	}
}

// moment returns when a duration of the document is over; false if it is not a literal.
func moment(stated *expr.Value, from time.Time) (time.Time, bool) {
	d, ok := dsl.ConstantDuration(stated)
	return d.From(from), ok
}

// retries checks a retry against its policy: the number of retries, and the delay with
// its backoff and jitter.
func (a *historyAudit) retries(e event.Event, t event.Timer, r *dsl.RetryPolicy) {
	a.tries[t.TaskID]++
	n := a.tries[t.TaskID]
	if r == nil || r.AttemptCount > 0 && n > r.AttemptCount {
		a.report("a task is retried as often as the document says", a.id, "%s was retried %d times", t.TaskID, n)
		return
	}
	from, to, ok := RetryDelay(r, n, e.Time)
	const longest = 365 * 24 * time.Hour
	if got := t.FireAt.Sub(e.Time); ok && from < longest && (got < from || got > to) {
		a.report("a retry is delayed as the document says", a.id, "retry %d of %s is delayed by %v, want %v to %v", n, t.TaskID, got, from, to)
	}
}

// RetryDelay returns the minimum and the maximum delay, with jitter, of the n-th retry (from 1)
// after at. ok is false if the delay is not a literal.
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
		delay = time.Duration(float64(delay) * math.Pow(2, float64(n-1))) // doubles each time
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
		return 0, math.MaxInt64 / 2 // unbounded, but cannot overflow
	}
	return from, to
}

// timely checks the success of a task against its timers: a wait ends when its timer has
// fired, and a task with a time limit has a timer that has not fired.
func (a *historyAudit) timely(e event.Event, run event.Run) {
	task := a.def.Task(run.Ref)
	if task == nil {
		return
	}
	mine := func(kind event.TimerKind) string { return Slot(event.Timer{TaskID: e.Task, Kind: kind}) }
	if task.Kind == dsl.Wait && !a.fired[mine(event.WaitTimer)] {
		a.report("a wait ends when its timer has fired", a.id, "%s ended before that", e.Task)
	}
	if _, limited := a.set[mine(event.TimeoutTimer)]; task.Timeout != nil && !limited {
		a.report("a task with a time limit has a timer", a.id, "%s ended without one", e.Task)
	}
	if a.fired[mine(event.TimeoutTimer)] {
		a.report("a task whose timeout fires fails", a.id, "%s succeeded", e.Task)
	}
}

// LiteralDuration returns a duration of the document; it returns false if the duration is nil
// or not a literal.
func LiteralDuration(v *expr.Value) (time.Duration, bool) {
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // the start of simulations, since months have different lengths
	end, ok := moment(v, begin)
	return end.Sub(begin), ok
}

// GivenUp reports whether an event ends an execution that the engine gave up without a
// decision.
func GivenUp(e event.Event) bool {
	var ended event.Ended
	return e.Type == event.WorkflowFailed && decide.DecodeData(e, &ended) == nil && strings.HasPrefix(ended.Reason, "given up")
}

// EventTypes returns the event types that filters name literally.
func EventTypes(filters ...dsl.EventFilter) (types []string) {
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

// Report records a violation of a rule by an execution; format and args describe it.
type Report func(rule, execution, format string, args ...any)
