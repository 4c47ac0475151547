package tui

import (
	"cmp"
	"strings"
	"time"
)

// column is one of a table.
type column struct {
	title string
	most  int  // cells that it is given
	grows bool // it takes what is left
	needs int  // the width of a screen that has room for it
	right bool
	text  func(r Row, now time.Time) string
	order func(a, b Row) int
}

// columnsOf are those of a table, the important ones first.
func columnsOf(kind Table) []column {
	switch kind {
	case Executions:
		return executionColumns()
	case Timers:
		return timerColumns()
	case Letters:
		return letterColumns()
	default:
		return eventColumns()
	}
}

func executionColumns() []column {
	return []column{
		{"STATUS", 11, false, 0, false, func(r Row, _ time.Time) string { return string(r.State) }, byState},
		{"ID", 40, true, 0, false, func(r Row, _ time.Time) string { return r.ID }, byID},
		{"WORKFLOW", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow},
		{"AGE", 8, false, 0, true, func(r Row, now time.Time) string { return since(now, r.At) }, byAge},
		{"TOOK", 8, false, 70, true, func(r Row, _ time.Time) string { return lasted(r) }, byLasting},
		{"EVENTS", 7, false, 90, true, func(r Row, _ time.Time) string { return count(r.Count) }, byCount},
		{"PARENT", 30, true, 130, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution},
		{"CREATED", 19, false, 110, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime},
	}
}

func timerColumns() []column {
	return []column{
		{"DUE", 13, false, 0, false, func(r Row, now time.Time) string { return due(now, r) }, byTime},
		{"STATE", 11, false, 100, false, func(r Row, _ time.Time) string { return string(r.State) }, byState},
		{"KIND", 16, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind},
		{"EXECUTION", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution},
		{"TASK", 50, true, 0, false, func(r Row, _ time.Time) string { return r.Task }, byTask},
		{"AT", 19, false, 110, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime},
		{"WORKFLOW", 40, true, 130, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow},
		{"ID", 24, false, 150, false, func(r Row, _ time.Time) string { return r.ID }, byID},
	}
}

func letterColumns() []column {
	return []column{
		{"AGE", 8, false, 0, true, func(r Row, now time.Time) string { return since(now, r.At) }, byAge},
		{"EVENT", 18, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind},
		{"EXECUTION", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution},
		{"REASON", 80, true, 0, false, func(r Row, _ time.Time) string { return r.Note }, byNote},
		{"TASK", 40, true, 110, false, func(r Row, _ time.Time) string { return r.Task }, byTask},
		{"TRIES", 5, false, 90, true, func(r Row, _ time.Time) string { return count(r.Count) }, byCount},
		{"WORKFLOW", 40, true, 150, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow},
		{"ID", 20, false, 130, false, func(r Row, _ time.Time) string { return r.ID }, byID},
	}
}

func eventColumns() []column {
	return []column{
		{"TIME", 19, false, 0, false, func(r Row, now time.Time) string { return moment(now, r.At) }, byTime},
		{"TYPE", 40, false, 0, false, func(r Row, _ time.Time) string { return r.Kind }, byKind},
		{"EXECUTION", 40, true, 0, false, func(r Row, _ time.Time) string { return r.Execution }, byExecution},
		{"TASK", 50, true, 0, false, func(r Row, _ time.Time) string { return r.Task }, byTask},
		{"DETAIL", 60, true, 100, false, func(r Row, _ time.Time) string { return r.Note }, byNote},
		{"WORKFLOW", 40, true, 130, false, func(r Row, _ time.Time) string { return r.Workflow }, byWorkflow},
		{"ID", 20, false, 150, false, func(r Row, _ time.Time) string { return r.ID }, byID},
	}
}

// lasted is how long something went on, once it has ended.
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
func byCount(a, b Row) int     { return cmp.Compare(b.Count, a.Count) }

// byLasting has those first that took the longest; those that go on come last.
func byLasting(a, b Row) int {
	return cmp.Compare(lastingOf(b), lastingOf(a))
}

func lastingOf(r Row) time.Duration {
	if r.Until.IsZero() {
		return -1
	}
	return r.Until.Sub(r.At)
}

// plural of the table's name.
func (t Table) title() string {
	return [...]string{"Executions", "Timers", "Dead letters", "Events"}[t]
}

// short is the name where there is no room.
func (t Table) short() string {
	return [...]string{"Exec", "Timers", "Dead", "Events"}[t]
}

// one is what a row of the table is.
func (t Table) one() string {
	return [...]string{"execution", "timer", "dead letter", "event"}[t]
}

// stated reports whether the rows of a table begin with a state.
func (t Table) stated() bool { return t == Executions || t == Timers }
