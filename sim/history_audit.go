package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/timers"
)

// historyAudit checks a history against rules that hold for every history. It uses only the
// history and its document, not package decide: decisions that are wrong in the same way
// each time agree with themselves.
type historyAudit struct {
	def    *dsl.Definition
	id     string
	broken reportFunc

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

// audit checks the history of an execution.
func audit(def *dsl.Definition, id string, events []event.Event, broken reportFunc) {
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
	if e.Type != event.WorkflowFailed || givenUp(e) || l.held || len(l.fell) == 0 || l.cause.Type == "" {
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
	l.rules.ends(e, run, &c, l.fired[slot(event.Timer{TaskID: e.Task, Kind: event.TimeoutTimer})])
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
	for _, inside := range sortedKeys(l.open) {
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
	for _, key := range sortedKeys(l.timers) {
		if l.timers[key].TaskID == l.over {
			l.broken("no timer outlives its task", l.id, "%s ended, and its %s timer stays", l.over, l.timers[key].Kind)
			delete(l.timers, key)
		}
	}
}

// closes records the end of the execution.
func (l *historyAudit) closes(e event.Event) {
	if givenUp(e) { // the engine gave up on the execution, so nothing was decided about its tasks
		l.open, l.timers = map[string]event.Run{}, map[string]event.Timer{}
		return
	}
	for _, task := range sortedKeys(l.open) {
		l.broken("nothing goes on inside an execution that has ended", l.id, "%s had not ended", task)
	}
	for _, key := range sortedKeys(l.timers) {
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
		types := typesIn([]dsl.EventFilter{f})
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
