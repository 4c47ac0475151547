package spec

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// Coverage counts how many times runs reach the points of documents.
type Coverage struct {
	files map[string]*DocumentCoverage
}

// DocumentCoverage is the coverage of one document.
type DocumentCoverage struct {
	Document *Document
	Points   []*Point // in line order

	list *pointList
}

// NewCoverage returns a Coverage without documents.
func NewCoverage() *Coverage { return &Coverage{files: map[string]*DocumentCoverage{}} }

// Documents returns the documents so far, sorted by file name.
func (c *Coverage) Documents() []*DocumentCoverage {
	return slices.SortedFunc(maps.Values(c.files), func(a, b *DocumentCoverage) int { return strings.Compare(a.Document.File, b.Document.File) })
}

// Reached counts the points that were reached, and all points.
func (r *DocumentCoverage) Reached() (reached, all int) {
	for _, p := range r.Points {
		if p.Hits > 0 {
			reached++
		}
	}
	return reached, len(r.Points)
}

// Include adds the documents of a suite so that they count even if no run reaches them.
func (c *Coverage) Include(s *Suite) {
	for _, d := range s.documents() {
		if c.files[d.File] != nil {
			continue
		}
		list := newPointList(d.Definition)
		points := slices.Clone(list.points)
		slices.SortStableFunc(points, func(a, b *Point) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
		})
		c.files[d.File] = &DocumentCoverage{Document: d, Points: points, list: list}
	}
}

// Add counts the points that a run of a case has reached.
func (c *Coverage) Add(s *Suite, secrets map[string]any, o *Outcome) {
	c.Include(s)
	byExecution := map[string][]event.Event{}
	for _, e := range o.History {
		byExecution[e.Execution] = append(byExecution[e.Execution], e)
	}
	for _, history := range byExecution {
		d := s.document(history[0].Workflow)
		if d == nil {
			continue
		}
		t := &coverageTracker{pointList: c.files[d.File].list, secrets: secrets, history: history, failing: map[string]bool{}}
		for i, e := range history {
			t.event(i, e)
		}
	}
}

// coverageTracker follows one history through its document.
type coverageTracker struct {
	*pointList
	secrets map[string]any
	history []event.Event
	failing map[string]bool // tries, by reference, whose body has just failed
}

func (t *coverageTracker) event(i int, e event.Event) {
	ref := event.ParseRun(e.Task).Ref
	switch e.Type {
	case event.TaskRequested:
		t.begun(ref)
	case event.TaskCompleted:
		t.completed(i, e, ref)
	case event.TimerFired:
		t.fired(e)
	case event.TimerScheduled:
		var timer event.Timer
		if json.Unmarshal(e.Data, &timer) == nil && timer.Kind == event.RetryTimer {
			t.caught(ref, retryPoint)
		}
	default:
	}
}

func (t *coverageTracker) begun(ref string) {
	t.hit(taskPoint, ref, "")
	t.hit(branchPoint, ref, "")
	t.hit(ifTrue, ref, "")
	t.entered(ref)
}

// entered records that a task runs in a handler, or again after a failure.
func (t *coverageTracker) entered(ref string) {
	for try := range t.failing {
		switch {
		case strings.HasPrefix(ref, try+"/catch/do/"):
			t.caught(try, catchPoint)
		case strings.HasPrefix(ref, try+"/try/"):
			t.caught(try, retryPoint)
		}
	}
}

// caught records that a try has handled an error, possibly by a retry.
func (t *coverageTracker) caught(try, kind string) {
	if !t.failing[try] {
		return
	}
	delete(t.failing, try)
	t.hit(catchPoint, try, "")
	if kind == retryPoint {
		t.hit(retryPoint, try, "")
	}
}

func (t *coverageTracker) completed(i int, e event.Event, ref string) {
	var c event.Completed
	task := t.def.Task(ref)
	if json.Unmarshal(e.Data, &c) != nil || task == nil {
		return
	}
	switch {
	case c.Status == "skipped":
		t.hit(ifFalse, ref, "")
		t.entered(ref)
		return
	case c.Status != "":
		return
	case !c.Success:
		delete(t.failing, ref)
		if try, rest, ok := cutLast(ref, "/try/"); ok && strings.Count(rest, "/") == 1 {
			t.failing[try] = true
		}
		return
	case task.Try != nil:
		t.caught(ref, catchPoint)
	case task.Listen != nil:
		t.hit(listenPoint, ref, "")
	case len(task.Switch) > 0:
		t.chosen(i, e, ref, c.Then)
	}
}

// cutLast slices text around the last occurrence of separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// chosen finds the case that a switch has taken. If several cases lead to the same task,
// it evaluates their conditions again.
func (t *coverageTracker) chosen(i int, e event.Event, ref, then string) {
	if then == "" {
		t.hit(noCase, ref, "")
		return
	}
	var names []string
	for _, c := range t.def.Task(ref).Switch {
		if c.Then == then {
			names = append(names, c.Name)
		}
	}
	if len(names) == 1 {
		t.hit(casePoint, ref, names[0])
		return
	}
	t.hit(casePoint, ref, t.evaluate(i, e, ref))
}

// evaluate returns the case that a switch takes in the state before its event; "" if it is
// unknown.
func (t *coverageTracker) evaluate(i int, e event.Event, ref string) string {
	env := decide.NewEnv(t.def, decide.Options{Secrets: t.secrets})
	state := decide.New()
	if state.Replay(env, t.history[:i]) != nil {
		return ""
	}
	scope := state.ScopeOf(env, e.Task)
	if scope == nil {
		return ""
	}
	fallback := ""
	for _, c := range t.def.Task(ref).Switch {
		if c.When == nil {
			fallback = c.Name
			continue
		}
		if ok, err := c.When.Test(scope); err == nil && ok {
			return c.Name
		}
	}
	return fallback
}

// fired records timeouts that fired.
func (t *coverageTracker) fired(e event.Event) {
	var f event.Fired
	if json.Unmarshal(e.Data, &f) != nil || f.Kind != event.TimeoutTimer {
		return
	}
	ref, kind := event.ParseRun(f.TaskID).Ref, timeoutPoint
	switch f.Key {
	case "attempt":
		t.failing[ref], kind = true, attemptLimit
	case "overall":
		t.failing[ref], kind = true, overallLimit
	}
	t.hit(kind, ref, "")
}
