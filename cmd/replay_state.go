package cmd

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// states prints the state of a recording's executions at --at.
func (r *replaying) states(row replayRow) {
	first := row.States[0]
	fmt.Fprintf(r.sh.Out, "%s at %s, %s after the start, behind event %d of %d (line %d)\n", printable(row.File),
		first.At.Format(time.RFC3339Nano), history.Duration(first.Elapsed), first.Event, row.Events, first.Line)
	for _, s := range row.States {
		r.state(s)
	}
}

// state prints one execution.
func (r *replaying) state(s sim.State) {
	fmt.Fprintf(r.sh.Out, "\n%s of %s: %s\n", printable(s.Execution), printable(s.Workflow), paint(r.sh.outColor(), bold, s.Status))
	r.member("", "context", string(s.Context))
	if s.Output != nil {
		r.member("", "output", string(s.Output))
	}
	if s.Error != nil {
		r.member("", "error", s.Error.Error())
	}
	for _, t := range s.Tasks {
		r.member("", "task", fmt.Sprintf("%s (%s), for %s", history.Task(t.Task), t.Type, history.Duration(s.At.Sub(t.Since))))
		if t.At != nil {
			name := t.At.Document
			if name == "" {
				name = r.source.name
			}
			r.member("  ", "at", fmt.Sprintf("%s:%d:%d", name, t.At.Line, t.At.Column))
		}
		r.member("  ", "input", string(t.Input))
		for _, name := range slices.Sorted(maps.Keys(t.Variables)) {
			r.member("  ", "$"+name, string(t.Variables[name]))
		}
		if t.Context != nil {
			r.member("  ", "context", string(t.Context))
		}
	}
	for _, t := range s.Timers {
		r.member("", "timer", timerText(t))
	}
	for _, what := range s.WaitsFor {
		r.member("", "waits for", what)
	}
}

// timerText describes a pending timer in one line.
func timerText(t sim.OpenTimer) string {
	of := "the workflow"
	if t.Task != "" {
		of = history.Task(t.Task)
	}
	kind := t.Kind
	if t.Key != "" {
		kind += " (" + t.Key + ")"
	}
	return fmt.Sprintf("%s of %s, due in %s (%s)", kind, of, history.Duration(t.DueIn), t.Due.Format(time.RFC3339Nano))
}

func (r *replaying) member(indent, name, value string) {
	fmt.Fprintf(r.sh.Out, "  %s%-10s %s\n", indent, printable(name), oneLine(value))
}
