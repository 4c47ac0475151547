package tui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
)

// column is a column of a table.
type column struct {
	title string
	field string // its name in a filter; "": it cannot be filtered
	most  int    // maximum width in cells
	grows bool   // it takes the remaining width
	needs int    // minimum width of the screen that shows it
	right bool
	text  func(r Row, now time.Time) string
	order func(a, b Row) int // ascending order; nil: it cannot be sorted by …
	down  bool               // … but descending by default
}

// columnsOf returns the columns of a table, the important ones first.
func columnsOf(kind Table) []column {
	switch kind {
	case Executions:
		return executionColumns()
	case Timers:
		return timerColumns()
	case DeadLetters:
		return deadLetterColumns()
	default:
		return eventColumns()
	}
}

func executionColumns() []column {
	return []column{
		{"STATUS", "status", 11, false, 0, false, func(r Row, _ time.Time) string { return string(r.State) }, byState, false},
		{"ID", "id", 40, true, 0, false, func(r Row, _ time.Time) string { return r.ID }, byID, false},
		{"WORKFLOW", "workflow", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow, false},
		{"NOW / ERROR", "", 60, true, 0, false, func(r Row, now time.Time) string { return r.Stands.text(now) }, nil, false},
		{"AGE", "", 8, false, 0, true, func(r Row, now time.Time) string { return since(now, r.At) }, byAge, false},
		{"TOOK", "", 8, false, 90, true, func(r Row, _ time.Time) string { return lasted(r) }, byLasting, true},
		{"EVENTS", "", 7, false, 90, true, func(r Row, _ time.Time) string { return count(r.Count) }, byCount, true},
		{"PARENT", "execution", 30, true, 130, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution, false},
		{"CREATED", "", 19, false, 110, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime, false},
	}
}

func timerColumns() []column {
	return []column{
		{"DUE", "", 13, false, 0, false, func(r Row, now time.Time) string { return due(now, r) }, byTime, false},
		{"STATE", "status", 11, false, 100, false, func(r Row, _ time.Time) string { return string(r.State) }, byState, false},
		{"KIND", "kind", 16, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind, false},
		{"EXECUTION", "execution", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution, false},
		{"TASK", "task", 50, true, 0, false, func(r Row, _ time.Time) string { return history.Task(r.Task) }, byTask, false},
		{"AT", "", 19, false, 110, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime, false},
		{"WORKFLOW", "workflow", 40, true, 130, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow, false},
		{"ID", "id", 24, false, 150, false, func(r Row, _ time.Time) string { return r.ID }, byID, false},
	}
}

func deadLetterColumns() []column {
	return []column{
		{"AGE", "", 8, false, 0, true, func(r Row, now time.Time) string { return since(now, r.At) }, byAge, false},
		{"EVENT", "kind", 18, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind, false},
		{"EXECUTION", "execution", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution, false},
		{"REASON", "note", 80, true, 0, false, func(r Row, _ time.Time) string { return r.Note }, byNote, false},
		{"TASK", "task", 40, true, 110, false, func(r Row, _ time.Time) string { return history.Task(r.Task) }, byTask, false},
		{"ATTEMPTS", "", 8, false, 90, true, func(r Row, _ time.Time) string { return count(r.Count) }, byCount, true},
		{"WORKFLOW", "workflow", 40, true, 150, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow, false},
		{"ID", "id", 20, false, 130, false, func(r Row, _ time.Time) string { return r.ID }, byID, false},
	}
}

func eventColumns() []column {
	return []column{
		{"TIME", "", 19, false, 0, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime, false},
		{"TYPE", "kind", 40, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind, false},
		{"EXECUTION", "execution", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution, false},
		{"TASK", "task", 50, true, 0, false, func(r Row, _ time.Time) string { return history.Task(r.Task) }, byTask, false},
		{"DETAIL", "note", 60, true, 100, false, func(r Row, _ time.Time) string { return r.Note }, byNote, false},
		{"WORKFLOW", "workflow", 40, true, 130, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow, false},
		{"ID", "id", 20, false, 150, false, func(r Row, _ time.Time) string { return r.ID }, byID, false},
	}
}

// naturally returns the column by which the source sorts a table, and whether it is descending.
func (t Table) naturally() (number int, back bool) {
	switch t {
	case Executions:
		return titled(t, "AGE"), false
	case Timers:
		return titled(t, "DUE"), false
	case DeadLetters:
		return titled(t, "AGE"), false
	default:
		return titled(t, "TIME"), true
	}
}

// titled returns the number of a column.
func titled(t Table, title string) int {
	return 1 + slices.IndexFunc(columnsOf(t), func(c column) bool { return c.title == title })
}

// text describes what an execution is doing, what it waits for, or why it failed.
func (s *Standing) text(now time.Time) string {
	switch {
	case s == nil:
		return ""
	case s.Note != "":
		return s.Note
	}
	const few = 2
	var parts []string
	for _, r := range s.Open[:min(few, len(s.Open))] {
		name := shortRun(r.Task)
		switch {
		case r.State == Retrying:
			parts = append(parts, name+" again "+countdown(now, r.Until))
		case r.State == Waiting && r.Until.IsZero():
			parts = append(parts, name+" listens")
		case r.State == Waiting:
			parts = append(parts, name+" "+countdown(now, r.Until))
		default:
			parts = append(parts, name+" "+since(now, r.At))
		}
	}
	if more := len(s.Open) - few; more > 0 {
		parts = append(parts, count(int64(more))+" more")
	}
	return strings.Join(parts, ", ")
}

// shortRun names a run by the name of its task.
func shortRun(run string) string {
	run, attempt, _ := strings.Cut(run, "@")
	ref, iteration, _ := strings.Cut(run, "#")
	return history.Run(lastName(ref), iteration, attempt)
}

// lasted formats how long something took, if it has ended.
func lasted(r Row) string {
	if r.Until.IsZero() {
		return ""
	}
	return took(r.Until.Sub(r.At))
}

func byState(a, b Row) int     { return cmp.Compare(a.State, b.State) }
func byID(a, b Row) int        { return strings.Compare(a.ID, b.ID) }
func byWorkflow(a, b Row) int  { return strings.Compare(a.Workflow, b.Workflow) }
func byExecution(a, b Row) int { return strings.Compare(a.Execution, b.Execution) }
func byKind(a, b Row) int      { return strings.Compare(a.Kind, b.Kind) }
func byTask(a, b Row) int      { return strings.Compare(a.Task, b.Task) }
func byNote(a, b Row) int      { return strings.Compare(a.Note, b.Note) }
func byTime(a, b Row) int      { return a.At.Compare(b.At) }
func byAge(a, b Row) int       { return b.At.Compare(a.At) }
func byCount(a, b Row) int     { return cmp.Compare(a.Count, b.Count) }

// byLasting sorts by duration; rows that have not ended come last.
func byLasting(a, b Row) int {
	return cmp.Compare(lastingOf(a), lastingOf(b))
}

func lastingOf(r Row) time.Duration {
	if r.Until.IsZero() {
		return -1
	}
	return r.Until.Sub(r.At)
}

// title returns the plural of the table's name.
func (t Table) title() string {
	return [...]string{"Executions", "Timers", "Dead letters", "Events"}[t]
}

// short returns the name for narrow screens.
func (t Table) short() string {
	return [...]string{"Exec", "Timers", "Dead", "Events"}[t]
}

// one is what a row of the table is.
func (t Table) one() string {
	return [...]string{"execution", "timer", "dead letter", "event"}[t]
}

// stated reports whether the rows of a table begin with a state.
func (t Table) stated() bool { return t == Executions || t == Timers }
