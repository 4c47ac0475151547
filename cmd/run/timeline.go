package run

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// timeline prints to stderr what happens: a line for each task that ends and for the start
// of each task that contains others.
type timeline struct {
	sh    *cli.Shell
	on    bool
	real  bool // times are real, not virtual
	color bool
	start time.Time
	defs  map[string]*dsl.Definition // by id
	seen  map[string]int             // printed iterations, by execution and reference
	shown map[string]bool            // runs that are printed, of tasks in iterations
	noted bool                       // the last line says that iterations are not shown

	retries map[string]int // scheduled retries, by execution and run of the try
}

// iterationsShown is how many iterations of a task are printed.
const iterationsShown = 10

// NewTimeline returns a timeline on standard error whose times count from start.
func NewTimeline(sh *cli.Shell, start time.Time) *timeline {
	return &timeline{
		sh: sh, on: !sh.Quiet, color: sh.ErrColor(), start: start,
		defs: map[string]*dsl.Definition{}, seen: map[string]int{}, shown: map[string]bool{}, retries: map[string]int{},
	}
}

// Add adds the definitions that may run.
func (tl *timeline) Add(def *dsl.Definition, more []*dsl.Definition) {
	for _, d := range append([]*dsl.Definition{def}, more...) {
		tl.defs[d.ID()] = d
	}
}

// Observe prints new events of histories.
func (tl *timeline) Observe(events []event.Event) {
	if !tl.on {
		return
	}
	for _, e := range events {
		switch e.Type {
		case event.ExecutionStarted:
			tl.line(e, "", "▶", cli.Bold, e.Workflow+" "+e.Execution)
		case event.TaskRequested:
			tl.requested(e)
		case event.TaskCompleted:
			tl.completed(e)
		case event.TimerScheduled:
			tl.scheduled(e)
		case event.EventReceived:
			tl.received(e)
		case event.ExecutionSuspended:
			tl.operated(e, "■", cli.Yellow, "suspended")
		case event.ExecutionResumed:
			tl.operated(e, "▶", cli.Bold, "resumed")
		case event.ExecutionRetried:
			tl.operated(e, "▶", cli.Bold, "retried")
		}
	}
}

// requested prints the start of a task that contains others.
func (tl *timeline) requested(e event.Event) {
	t := tl.task(e)
	if t == nil || !composite(t) || tl.hidden(e) {
		return
	}
	tl.line(e, e.Task, "┌", "", tl.label(e, t))
}

// completed prints the end of a task.
func (tl *timeline) completed(e event.Event) {
	t := tl.task(e)
	var c event.Completed
	if t == nil || json.Unmarshal(e.Data, &c) != nil || tl.hidden(e) {
		return
	}
	glyph, style, text := "✔", cli.Green, tl.label(e, t)
	if c.Call != nil {
		text = runOf(e, t.Name) + "  call " + c.Call.String()
	}
	switch {
	case c.Status == "skipped":
		glyph, style, text = "–", "", text+"  skipped"
	case c.Status == "cancelled":
		glyph, style, text = "⊘", cli.Yellow, text+"  cancelled"
	case c.Error != nil:
		glyph, style, text = "✘", cli.Red, text+"  "+c.Error.Error()
	case c.Then != "":
		text += "  → " + c.Then
	}
	if c.DurationMS > 0 {
		text += "  " + history.Duration(time.Duration(c.DurationMS)*time.Millisecond)
	}
	tl.line(e, e.Task, glyph, style, text)
}

// scheduled prints waits and retries, but not timeouts, most of which never fire.
func (tl *timeline) scheduled(e event.Event) {
	var t event.TimerChange
	if json.Unmarshal(e.Data, &t) != nil || t.Kind == event.TimeoutTimer {
		return
	}
	what := "wait for"
	if t.Kind == event.RetryTimer {
		if t.By == "" {
			tl.retries[e.Execution+" "+e.Task]++
		}
		what = fmt.Sprintf("attempt %d in", tl.retries[e.Execution+" "+e.Task]+1)
	}
	if tl.hidden(e) {
		return
	}
	tl.line(e, e.Task, "◔", cli.Yellow, fmt.Sprintf("%s  %s %s, until %s", runOf(e, t.TaskName), what,
		history.Between(e.Time, t.Due()), t.Due().Round(time.Millisecond).Format(time.RFC3339Nano)))
}

// received prints an event from outside.
func (tl *timeline) received(e event.Event) {
	var envelope struct {
		Type   string `json:"type"`
		Source string `json:"source"`
	}
	if json.Unmarshal(e.Data, &envelope) == nil {
		tl.line(e, "", "◆", "", "event "+envelope.Type+" from "+envelope.Source)
	}
}

// missed prints an event that no execution has taken.
func (tl *timeline) missed(m sim.Missed) {
	if tl.on {
		e := m.Event
		e.Time = m.At
		tl.line(e, "", "◇", cli.Yellow, fmt.Sprintf("event %s from %s  not taken: %s", m.Event.Type, m.Event.Source, m.Why))
	}
}

// operated prints an operator's command and its reason.
func (tl *timeline) operated(e event.Event, glyph, style, what string) {
	var said event.Ended
	if json.Unmarshal(e.Data, &said) == nil && said.Reason != "" {
		what += ": " + said.Reason
	}
	tl.line(e, "", glyph, style, e.Workflow+" "+e.Execution+"  "+what)
}

func (tl *timeline) task(e event.Event) *dsl.Task {
	def := tl.defs[e.Workflow]
	if def == nil {
		return nil
	}
	return def.Task(event.ParseRun(e.Task).Ref)
}

// hidden reports whether enough iterations of a task have been printed, and says so once. A run
// whose start is printed is printed to its end.
func (tl *timeline) hidden(e event.Event) bool {
	run := event.ParseRun(e.Task)
	key, ref := e.Execution+" "+e.Task, e.Execution+run.Ref
	if history.Index(run.Iteration) == "" || tl.shown[key] {
		return false
	}
	if tl.seen[ref] < iterationsShown {
		tl.seen[ref]++
		tl.shown[key] = true
		return false
	}
	if tl.seen[ref] == iterationsShown && !tl.noted {
		tl.line(e, e.Task, "…", "", "other iterations are not shown")
		tl.noted = true
	}
	tl.seen[ref] = iterationsShown + 1
	return true
}

// composite reports whether a task contains other tasks.
func composite(t *dsl.Task) bool {
	switch t.Kind {
	case dsl.Do, dsl.For, dsl.Fork, dsl.Try, dsl.Run:
		return true
	case dsl.Call:
		return t.Call.Function != nil
	case dsl.Listen:
		return t.Listen.Foreach != nil
	default:
		return false
	}
}

// label names a run of a task and describes the task.
func (tl *timeline) label(e event.Event, t *dsl.Task) string {
	return runOf(e, t.Name) + "  " + graph.Detail(t)
}

// runOf formats the run of an event's task, whose name is given.
func runOf(e event.Event, name string) string {
	run := event.ParseRun(e.Task)
	return history.Run(name, run.Iteration, run.Attempt)
}

// line prints one line: time, depth, glyph and text, truncated to the width of the
// terminal.
func (tl *timeline) line(e event.Event, task, glyph, style, text string) {
	tl.noted = false
	before := fmt.Sprintf("%12s  %s", "+"+history.Duration(e.Time.Sub(tl.start)), strings.Repeat("  ", depth(e.Execution, task)))
	text = cli.OneLine(strings.TrimSpace(text))
	if tl.sh.ASCII() {
		glyph, text = ASCIIGlyphs[glyph], graph.ASCII(text)
	}
	if tl.sh.ErrTerminal && tl.sh.Width > 0 {
		space := tl.sh.Width - runewidth.StringWidth(before+glyph) - 1
		text = runewidth.Truncate(text, max(space, 1), "~")
	}
	fmt.Fprintf(tl.sh.Err, "%s%s %s\n", before, cli.Paint(tl.color && style != "", style, glyph), text)
}

// depth returns the number of tasks and executions that contain a task. Inside a function,
// it counts from the call, which is part of the iteration.
func depth(execution, task string) int {
	run := event.ParseRun(task)
	around := strings.Count(execution, ".")
	if task == "" {
		return around
	}
	for _, ref := range append(strings.Split(run.Iteration, "./"), run.Ref) {
		parts := strings.Split(ref, "/")
		for i := 1; i < len(parts); i++ {
			switch parts[i-1] {
			case "do", "try", "branches":
				if _, err := strconv.Atoi(parts[i]); err == nil {
					around++
				}
			}
		}
	}
	if strings.HasPrefix(run.Ref, "/use/") {
		around++
	}
	return max(around-1, 0)
}

// ASCIIGlyphs are the glyphs for terminals without Unicode.
//
//nolint:gochecknoglobals // a constant table
var ASCIIGlyphs = map[string]string{
	"▶": ">", "┌": "+", "✔": "ok", "✘": "FAIL", "–": "-", "⊘": "x", "◔": "timer", "◆": "event", "◇": "event", "…": "...", "■": "=",
}

// end prints the summary.
func (tl *timeline) end(r *sim.Result, took time.Duration) {
	if !tl.on {
		return
	}
	style := cli.Green
	status := string(r.Status)
	if r.Status != decide.Completed {
		style = cli.Red
	}
	if r.Stop != "" && !r.Status.Ended() {
		status = "stopped while " + status
	}
	lasted := history.Duration(r.Elapsed) + " of virtual time in " + history.Duration(took)
	if tl.real {
		lasted = "in " + history.Duration(r.Elapsed)
	}
	fmt.Fprintf(tl.sh.Err, "%s  %s, %s, %s\n", cli.Paint(tl.color, style, status),
		history.Count(r.Tasks, "task"), history.Count(r.Events, "event"), lasted)
}

// happened prints events that Observe omits: timeouts and the end.
func (tl *timeline) happened(e event.Event) {
	switch e.Type {
	case event.TimerFired:
		var t event.Fired
		if decide.DecodeData(e, &t) == nil && t.Kind == event.TimeoutTimer {
			tl.line(e, e.Task, "◔", cli.Yellow, runOf(e, t.TaskName)+"  its timeout fires")
		}
	case event.WorkflowCompleted:
		tl.line(e, "", "✔", cli.Green, e.Workflow+" "+e.Execution+" completed")
	case event.WorkflowFailed:
		tl.line(e, "", "✘", cli.Red, e.Workflow+" "+e.Execution+" faulted")
	case event.WorkflowCancelled:
		tl.line(e, "", "⊘", cli.Yellow, e.Workflow+" "+e.Execution+" cancelled")
	default:
	}
}

// reached prints a call that reached its service.
func (tl *timeline) reached(r *sim.Reached) {
	text := fmt.Sprintf("%s %s reaches the service", r.Method, r.URL)
	style := ""
	if r.Times > 1 {
		text, style = fmt.Sprintf("%s, for the %s time", text, ordinal(r.Times)), cli.Yellow
	}
	tl.line(event.Event{Time: r.At, Execution: r.Execution, Task: r.Task}, r.Task, "▶", style, text)
}

// fault prints an injected fault.
func (tl *timeline) fault(s *sim.InjectedFault) {
	tl.line(event.Event{Time: s.At}, "", "!", cli.Red, faultText(s))
}
