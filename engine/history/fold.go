package history

import (
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
)

// Execution is an execution and its task runs, folded from the entries of its history. It keeps
// little of their data, so it may have many runs.
type Execution struct {
	Runs    []*TaskRun // in the order of their first entries; the first one is the execution itself
	Version int64      // of the last entry

	byRef map[string]map[turn]*TaskRun // by task
	open  map[*TaskRun]bool            // task runs that have not ended
}

// TaskRun is a run of a task, or an execution.
type TaskRun struct {
	event.Run // zero for the execution itself

	Index      int        // among the runs of the execution
	Parent     *TaskRun   // the run that contains it; nil for the execution itself
	Children   []*TaskRun // the runs that it contains
	Name, Kind string     // of the task, if the entries have data

	State     State
	Text      string    // of the entry that ended it, or that changed the execution's state
	Call      string    // of the same entry
	Began     Moment    // of its first entry
	Ended     Moment    // zero until it ends
	Requested int64     // version of the entry that requested it; 0 if there is none
	Until     time.Time // when its wait or its pause before a retry is due
	Waits     []Wait
	Timers    []*Timer // if the entries have data
}

// Moment is the time and the version of an entry.
type Moment struct {
	At      time.Time
	Version int64
}

// IsZero reports whether there is no such moment.
func (m Moment) IsZero() bool { return m.Version == 0 }

// Wait is a period in which a run did nothing: a wait, the pause before a retry, or, for the
// execution itself, a suspension.
type Wait struct {
	State    State  // Waiting, Retrying or Suspended
	From, To Moment // To is zero while it lasts
}

// Timer is a timer of a run. When an operator moves a timer, it ends, and another one begins.
type Timer struct {
	Kind     event.TimerKind
	Key      string
	Due      time.Time
	Set      Moment
	Gone     Moment // when it fired, was cancelled or moved; zero until then
	Fired    bool
	Moved    bool
	identity time.Time // the due time that it was first set to
}

// turn is the iteration and the attempt of a run.
type turn struct{ iteration, attempt string }

// NewExecution returns an execution without entries.
func NewExecution() *Execution {
	return &Execution{
		Runs: []*TaskRun{{Kind: "workflow", State: Pending}}, byRef: map[string]map[turn]*TaskRun{}, open: map[*TaskRun]bool{},
	}
}

// Add adds the next entry of the history. It returns the run that the entry is about, and the timer
// that it sets or ends, or nil.
func (x *Execution) Add(e Entry) (*TaskRun, *Timer) {
	x.Version = e.Version
	at := Moment{e.At, e.Version}
	if top := x.Runs[0]; top.State == Pending {
		top.State = Running // even if its first entries are missing
	}
	r := x.find(e, at)
	if r.Began.IsZero() { // the execution itself
		r.Began, r.Requested = at, e.Version
	}
	if e.is(event.TaskRequested) {
		r.Requested = e.Version
	}
	var t *Timer
	if d := e.Data; d != nil {
		if d.TaskType != "" {
			r.Name, r.Kind = d.TaskName, d.TaskType
		}
		t = r.timer(e, at)
	}
	if e.State != "" {
		r.enter(e, at)
		if e.State.Ended() {
			delete(x.open, r)
		}
	}
	return r, t
}

// enter puts a run into the state of an entry.
func (r *TaskRun) enter(e Entry, at Moment) {
	if n := len(r.Waits); n > 0 && r.Waits[n-1].To.IsZero() {
		r.Waits[n-1].To = at
	}
	r.State, r.Until, r.Ended, r.Text, r.Call = e.State, time.Time{}, Moment{}, "", ""
	if e.State.Ended() || r.Parent == nil && (e.State == Suspended || e.is(event.ExecutionStarted)) {
		r.Text, r.Call = brief(e), e.Call
	}
	switch {
	case e.State.Ended():
		r.Ended = at
	case e.State != Running:
		r.Until = e.Until
		r.Waits = append(r.Waits, Wait{State: e.State, From: at})
	}
}

// longestOutput is the number of bytes kept of the output of a completed run, since there may be many runs.
const longestOutput = 100

// brief returns the text of an entry without its call.
func brief(e Entry) string {
	text := e.Text
	if e.Call != "" {
		text = strings.Replace(text, e.Call+"  ", "", 1)
	}
	if e.State != Completed || len(text) <= longestOutput {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:longestOutput], ""))
}

// timer applies an entry about a timer.
func (r *TaskRun) timer(e Entry, at Moment) *Timer {
	d := e.Data
	set, fired := e.is(event.TimerScheduled), e.is(event.TimerFired)
	if !set && !fired && !e.is(event.TimerCancelled) {
		return nil
	}
	var t *Timer
	for _, known := range r.Timers {
		if known.Gone.IsZero() && known.Kind == d.Kind && known.Key == d.Key && known.identity.Equal(d.FireAt) {
			t = known
			t.Gone, t.Fired, t.Moved = at, fired, set
		}
	}
	if set {
		t = &Timer{Kind: d.Kind, Key: d.Key, Due: d.due(), Set: at, identity: d.FireAt}
		r.Timers = append(r.Timers, t)
	}
	return t
}

// find returns the run of an entry, and adds it if it is new.
func (x *Execution) find(e Entry, at Moment) *TaskRun {
	if e.Ref == "" {
		return x.Runs[0]
	}
	turns := x.byRef[e.Ref]
	if turns == nil {
		turns = map[turn]*TaskRun{}
		x.byRef[e.Ref] = turns
	}
	key := turn{e.Iteration, e.Attempt}
	if r := turns[key]; r != nil {
		return r
	}
	r := &TaskRun{
		Run: event.Run{Ref: e.Ref, Iteration: e.Iteration, Attempt: e.Attempt}, Index: len(x.Runs), State: Pending, Began: at,
	}
	r.Parent = x.around(r.Run)
	r.Parent.Children = append(r.Parent.Children, r)
	turns[key] = r
	x.Runs = append(x.Runs, r)
	x.open[r] = true
	// A retry continues inside runs that had ended.
	for up := r.Parent; up != nil && up.State.Ended(); up = up.Parent {
		up.State, up.Ended, up.Text, up.Call = Running, Moment{}, "", ""
		if up.Parent != nil {
			x.open[up] = true
		}
	}
	return r
}

// around returns the run that contains another one: that of the innermost enclosing task whose
// iteration and attempt are prefixes of those of the run.
func (x *Execution) around(run event.Run) *TaskRun {
	ref, iteration := run.Ref, run.Iteration
	for {
		if ref = ref[:max(0, strings.LastIndexByte(ref, '/'))]; ref == "" {
			// A function runs inside its caller.
			if ref, iteration = caller(iteration); ref == "" {
				return x.Runs[0]
			}
		}
		turns := x.byRef[ref]
		for it, more := iteration, turns != nil; more; it, more = shorter(it) {
			for attempt, again := run.Attempt, true; again; attempt, again = shorter(attempt) {
				if r := turns[turn{it, attempt}]; r != nil {
					return r
				}
			}
		}
	}
}

// caller returns the last reference in an iteration, that of the task that called a function, and
// the iteration of the call.
func caller(iteration string) (ref, outside string) {
	parts := Parts(iteration)
	for i, part := range slices.Backward(parts) {
		if strings.HasPrefix(part, "/") {
			return event.ParseRun(part).Ref, strings.Join(parts[:i], ".")
		}
	}
	return "", ""
}

// shorter removes the last segment of an iteration or an attempt.
func shorter(path string) (string, bool) {
	if path == "" {
		return "", false
	}
	parts := Parts(path)
	return strings.Join(parts[:len(parts)-1], "."), true
}

// Turn returns the iteration and the attempt of a task run within its parent run.
func (r *TaskRun) Turn() (iteration, attempt string) {
	if r.Parent == nil {
		return "", ""
	}
	iteration = strings.TrimPrefix(r.Iteration, r.Parent.Iteration)
	if !strings.HasPrefix(r.Ref, r.Parent.Ref+"/") { // a function
		iteration = strings.TrimSuffix(iteration, event.EscapeRef(r.Parent.Ref))
	}
	// Leave out enclosing lists and tries that were not repeated.
	iteration = without("r0.", strings.Trim(iteration, "."))
	attempt = without("0.", strings.TrimPrefix(strings.TrimPrefix(r.Attempt, r.Parent.Attempt), "."))
	return iteration, attempt
}

func without(prefix, path string) string {
	for strings.HasPrefix(path, prefix) {
		path = path[len(prefix):]
	}
	return path
}

// Open returns the task runs that have not ended, in order; none if the execution has ended.
func (x *Execution) Open() []*TaskRun {
	var open []*TaskRun
	for r := range x.open {
		if r.State != Pending && !r.over() {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b *TaskRun) int { return a.Index - b.Index })
	return open
}

// Innermost returns the open task runs that contain no other open ones, in order.
func (x *Execution) Innermost() []*TaskRun {
	open := x.Open()
	around := map[*TaskRun]bool{}
	for _, r := range open {
		around[r.Parent] = true
	}
	return slices.DeleteFunc(open, func(r *TaskRun) bool { return around[r] })
}

// over reports whether a run, or one that contains it, has ended.
func (r *TaskRun) over() bool {
	return r.State.Ended() || r.Parent != nil && r.Parent.over()
}
