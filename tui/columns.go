package tui

import (
	"cmp"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// column is a column of a table.
type column struct {
	title string
	field string // its name in a filter; "": it cannot be filtered
	limit int    // maximum width in cells
	grows bool   // it takes the remaining width
	needs int    // minimum width of the screen that shows it
	right bool
	style canvas.Style
	text  func(r Row, now time.Time) string // nil: the field
	order func(a, b Row) int                // ascending order; nil: that of the field, if any
	down  bool                              // the order is descending by default
}

// tables describes the tables, in the order of their places.
//
//nolint:gochecknoglobals // a constant table
var tables = [tableCount]struct {
	title, short, one string             // its name, on a narrow screen, and of one row
	command, alias    string             // that opens it
	columns           []column           // the important ones first
	sorted            string             // title of the column by which the source sorts
	back              bool               // the source sorts in descending order
	stated            bool               // rows begin with a state
	total             func(Counts) int64 // rows; 0 if it is unknown
	actions           []keyBinding       // on rows
}{
	Executions: {
		title: "Executions", short: "Exec", one: "execution", command: "executions", alias: "ex",
		sorted: "AGE", stated: true,
		columns: []column{
			{title: "STATUS", field: "status", limit: 11},
			{title: "ID", field: "id", limit: 40, grows: true},
			{title: "WORKFLOW", field: "workflow", limit: 40, grows: true, style: canvas.Faint},
			{title: "NOW / ERROR", limit: 60, grows: true, text: func(r Row, now time.Time) string { return r.Activity.text(now) }},
			{title: "AGE", limit: 8, right: true, text: func(r Row, now time.Time) string { return since(now, r.At) }, order: byAge},
			{title: "TOOK", limit: 8, needs: 90, right: true, text: lasted, order: byLasting, down: true},
			{title: "EVENTS", limit: 7, needs: 90, right: true, text: func(r Row, _ time.Time) string { return history.Number(r.Count) }, order: byCount, down: true},
			{title: "PARENT", field: "execution", limit: 30, grows: true, needs: 130},
			{title: "CREATED", limit: 19, needs: 110, style: canvas.Faint, text: func(r Row, now time.Time) string { return moment(now, r.At) }, order: byTime},
		},
		total: func(c Counts) int64 { return c.Open + c.Completed + c.Faulted + c.Cancelled },
		actions: []keyBinding{
			{"c", Cancel, "cancel"},
			{"z", Suspend, "suspend"},
			{"u", Resume, "resume"},
			{"R", Retry, "retry"},
			{"w", Record, "write a recording"},
		},
	},
	Timers: {
		title: "Timers", short: "Timers", one: "timer", command: "timers", alias: "ti",
		sorted: "DUE", stated: true,
		columns: []column{
			{title: "DUE", limit: 13, text: func(r Row, now time.Time) string { return due(now, r) }, order: byTime},
			{title: "STATE", field: "status", limit: 11, needs: 100},
			{title: "KIND", field: "kind", limit: 16},
			{title: "EXECUTION", field: "execution", limit: 40, grows: true},
			{title: "TASK", field: "task", limit: 50, grows: true},
			{title: "AT", limit: 19, needs: 110, style: canvas.Faint, text: func(r Row, now time.Time) string { return moment(now, r.At) }, order: byTime},
			{title: "WORKFLOW", field: "workflow", limit: 40, grows: true, needs: 130, style: canvas.Faint},
			{title: "ID", field: "id", limit: 24, needs: 150},
		},
		total: func(c Counts) int64 {
			if c.Shared {
				return 0
			}
			return c.Timers
		},
		actions: []keyBinding{{"F", Fire, "fire"}, {"C", Cancel, "cancel timer"}, {"M", Reschedule, "move"}},
	},
	DeadLetters: {
		title: "Dead letters", short: "Dead", one: "dead letter", command: "dlq", alias: "dead",
		sorted: "AGE",
		columns: []column{
			{title: "AGE", limit: 8, right: true, text: func(r Row, now time.Time) string { return since(now, r.At) }, order: byAge},
			{title: "EVENT", field: "kind", limit: 18},
			{title: "EXECUTION", field: "execution", limit: 40, grows: true},
			{title: "REASON", field: "note", limit: 80, grows: true, style: canvas.Bad},
			{title: "TASK", field: "task", limit: 40, grows: true, needs: 110},
			{title: "ATTEMPTS", limit: 8, needs: 90, right: true, text: func(r Row, _ time.Time) string { return history.Number(r.Count) }, order: byCount, down: true},
			{title: "WORKFLOW", field: "workflow", limit: 40, grows: true, needs: 150, style: canvas.Faint},
			{title: "ID", field: "id", limit: 20, needs: 130},
		},
		total:   func(c Counts) int64 { return c.Dead },
		actions: []keyBinding{{"R", Replay, "replay"}, {"D", Drop, "drop"}},
	},
	Events: {
		title: "Events", short: "Events", one: "event", command: "events", alias: "ev",
		sorted: "TIME", back: true,
		columns: []column{
			{title: "TIME", limit: 19, text: func(r Row, now time.Time) string { return moment(now, r.At) }, order: byTime},
			{title: "TYPE", field: "kind", limit: 40},
			{title: "EXECUTION", field: "execution", limit: 40, grows: true},
			{title: "TASK", field: "task", limit: 50, grows: true},
			{title: "DETAIL", field: "note", limit: 60, grows: true, needs: 100},
			{title: "WORKFLOW", field: "workflow", limit: 40, grows: true, needs: 130, style: canvas.Faint},
			{title: "ID", field: "id", limit: 20, needs: 150},
		},
		total: func(Counts) int64 { return 0 },
	},
}

// cell returns the text of a row in the column.
func (c *column) cell(r Row, now time.Time) string {
	if c.text == nil {
		return r.named(c.field)
	}
	return c.text(r, now)
}

// styleOf returns the style of a row's cell.
func (c *column) styleOf(r Row, s sign) canvas.Style {
	switch {
	case c.field == "status":
		return s.style
	case c.title == "DUE" && r.State == Overdue:
		return canvas.Warn
	case c.title == "NOW / ERROR" && r.Activity != nil && r.Activity.Note != "":
		return canvas.Bad
	default:
		return c.style
	}
}

// sorts reports whether a table can be sorted by the column.
func (c *column) sorts() bool { return c.field != "" || c.order != nil }

// compare compares rows by the column.
func (c *column) compare(a, b Row) int {
	if c.order == nil {
		return strings.Compare(a.named(c.field), b.named(c.field))
	}
	return c.order(a, b)
}

// text describes what an execution is doing, what it waits for, or why it failed.
func (s *Activity) text(now time.Time) string {
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
		parts = append(parts, history.Number(more)+" more")
	}
	return strings.Join(parts, ", ")
}

// shortRun names a run by the name of its task.
func shortRun(run string) string {
	run, attempt, _ := strings.Cut(run, "@")
	ref, iteration, _ := strings.Cut(run, "#")
	return history.Run(history.TaskName(ref), iteration, attempt)
}

// lasted formats how long something took, if it has ended.
func lasted(r Row, _ time.Time) string {
	if r.Until.IsZero() {
		return ""
	}
	return history.Duration(r.Until.Sub(r.At))
}

func byTime(a, b Row) int  { return a.At.Compare(b.At) }
func byAge(a, b Row) int   { return b.At.Compare(a.At) }
func byCount(a, b Row) int { return cmp.Compare(a.Count, b.Count) }

// byLasting compares durations; one that has not ended is the shortest.
func byLasting(a, b Row) int { return cmp.Compare(a.Until.Sub(a.At), b.Until.Sub(b.At)) }
