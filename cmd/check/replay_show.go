package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/tui"
)

// recordingFiles returns the files that arguments stand for: files and the recordings in
// folders.
func recordingFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		found, isFolder, err := cli.FilesOf(arg, func(path string) bool { return filepath.Ext(path) == ".jsonl" })
		if err != nil {
			return nil, err
		}
		if isFolder && len(found) == 0 {
			return nil, cli.Misusef("%s: no recordings (*.jsonl) in this folder", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}

// text prints the result for a file.
func (r *replaying) text(row replayRow) {
	switch {
	case row.err != nil:
		r.sh.Report(row.err)
	case !row.Agrees:
		r.head("differs", cli.Red, row)
		r.difference(row.Difference)
		r.migration(row.Migration)
		r.notes(row)
	case r.opts.At != nil:
		r.states(row)
	case r.sh.Quiet:
	default:
		r.head("ok", cli.Green, row)
		r.migration(row.Migration)
		r.notes(row)
	}
}

// head prints the first line for a file.
func (r *replaying) head(word, style string, row replayRow) {
	counts := []string{history.Count(row.Events, "event")}
	if row.Calls > 0 {
		counts = append(counts, history.Count(row.Calls, "call"))
	}
	if row.Arrivals > 0 {
		counts = append(counts, history.Count(row.Arrivals, "arrival"))
	}
	status := row.Status
	if !row.Agrees {
		status = "not as recorded"
	}
	fmt.Fprintf(r.sh.Out, "%s  %s  %s: %s\n", cli.Paint(r.sh.OutColor(), style, fmt.Sprintf("%-7s", word)), cli.Printable(row.File),
		cli.Printable(status), strings.Join(counts, ", "))
}

func (r *replaying) notes(row replayRow) {
	for _, note := range row.Notes {
		fmt.Fprintf(r.sh.Out, "         note: %s\n", cli.OneLine(note))
	}
}

// difference prints the first difference from both sides.
func (r *replaying) difference(d *recording.Difference) {
	out, on := r.sh.Out, r.sh.OutColor()
	now := "replayed"
	if r.source.Def != nil {
		now = "new"
	}
	fmt.Fprintf(out, "  %s\n", cli.OneLine(where(d)))
	fmt.Fprintf(out, "  recorded  %s\n", cli.OneLine(d.Recorded))
	fmt.Fprintf(out, "  %-8s  %s\n", now, cli.OneLine(d.Replayed))
	if d.Path != "" {
		fmt.Fprintf(out, "  differs   at %s: recorded %s, %s %s\n", cli.OneLine(d.Path), shown(d.RecordedValue), now, shown(d.ReplayedValue))
	}
	r.frame(d.RecordedAt, on)
	r.frame(d.ReplayedAt, on)
	if d.Hint != "" {
		fmt.Fprintf(out, "  %s\n", cli.OneLine(d.Hint))
	}
}

// where describes the position of a difference in the recording and its task.
func where(d *recording.Difference) string {
	text := "at the end"
	switch {
	case d.Event > 0:
		text = fmt.Sprintf("event %d (line %d)", d.Event, d.Line)
	case d.Line > 0:
		text = fmt.Sprintf("line %d", d.Line)
	}
	if d.Execution != "" {
		text += " of execution " + d.Execution
	}
	if d.Task == "" {
		return text
	}
	of := event.ParseRun(d.Run)
	return fmt.Sprintf("%s: task %s (%s)", text, history.Run(d.Name, of.Iteration, of.Attempt), d.Task)
}

// shown formats a value for a difference.
func shown(value []byte) string { return cli.OneLine(shortened(value, 80)) }

// shortened returns at most longest bytes of a value.
func shortened(value []byte, longest int) string {
	if value == nil {
		return "nothing"
	}
	return excerpt.Of(string(value), longest)
}

// place formats a position in a document.
func (r *replaying) place(at *recording.Place) string {
	text := fmt.Sprintf("%s:%d:%d", cmp.Or(at.Document, r.source.Name), at.Line, at.Column)
	if at.Recording != "" {
		text += " in " + at.Recording
	}
	return text
}

// frame prints a line of a document.
func (r *replaying) frame(at *recording.Place, on bool) {
	if at != nil {
		cli.PrintFrame(r.sh.Out, on, r.place(at), yaml.Pos{Line: at.Line, Column: at.Column}, at.Text)
	}
}

// end prints the summary.
func (r *replaying) end(took time.Duration) error {
	if r.format.String() == "json" {
		return cli.WriteJSON(r.sh.Out, r.rows)
	}
	if len(r.others) > 0 {
		r.sh.Hint("%s of other workflows skipped", history.Count(len(r.others), "recording"))
	}
	agreeing := r.files - r.differing - r.broken
	if r.format.String() == "text" && r.opts.At == nil {
		if r.source.Def != nil {
			r.impact(agreeing)
		} else if r.files > 1 {
			r.sum(agreeing)
		}
	}
	if r.files > 1 {
		r.sh.Hint("replayed in %s, %s a second", history.Duration(took), history.Count(int(float64(r.files)/took.Seconds()), "recording"))
	}
	return nil
}

// sum prints the counts for several files.
func (r *replaying) sum(agreeing int) {
	counts := []string{history.Number(agreeing) + " as recorded"}
	if r.differing > 0 {
		counts = append(counts, history.Number(r.differing)+" not")
	}
	if r.broken > 0 {
		counts = append(counts, history.Number(r.broken)+" unreadable")
	}
	fmt.Fprintf(r.sh.Out, "%s: %s\n", history.Count(r.files, "recording"), strings.Join(counts, ", "))
}

// impact prints what a changed document would change: for new executions, and for running
// ones, which keep their document unless they are migrated.
func (r *replaying) impact(agreeing int) {
	out, on, name := r.sh.Out, r.sh.OutColor(), cli.Printable(r.source.Name)
	readable := r.files - r.broken
	if agreeing == readable {
		far := ""
		if r.unfinished > 0 {
			far = ", the unfinished ones as far as they got"
		}
		fmt.Fprintf(out, "%s with %s: %s%s\n", cli.Paint(on, cli.Green, "new executions behave as recorded"), name, history.Count(readable, "recording"), far)
	} else {
		fmt.Fprintf(out, "%s with %s: %s of %s\n", cli.Paint(on, cli.Red, "new executions behave differently"), name,
			history.Number(readable-agreeing), history.Count(readable, "recording"))
	}
	if r.unfinished == 0 {
		return
	}
	how, style := "", cli.Green
	if r.migratable < r.unfinished {
		style = cli.Red
	}
	if r.migratable > 0 {
		how = " (flunq migrate)"
	}
	fmt.Fprintf(out, "running executions keep their document: %s of %s recorded %s%s\n", history.Number(r.migratable),
		history.Number(r.unfinished), cli.Paint(on, style, "may be migrated"), how)
}

// migration prints whether a running execution can be migrated to the changed document.
func (r *replaying) migration(m *recording.Migration) {
	switch {
	case m == nil:
	case m.MayBe:
		fmt.Fprintf(r.sh.Out, "         may be migrated to %s\n", cli.Printable(r.source.Name))
	default:
		fmt.Fprintf(r.sh.Out, "         cannot be migrated to %s: %s\n", cli.Printable(r.source.Name), cli.OneLine(m.Reason))
	}
}

// states prints the states of the executions of a recording at --at.
func (r *replaying) states(row replayRow) {
	first := row.States[0]
	fmt.Fprintf(r.sh.Out, "%s at %s, %s after the start, following event %d of %d (line %d)\n", cli.Printable(row.File),
		first.At.Format(time.RFC3339Nano), history.Duration(first.Elapsed), first.Event, row.Events, first.Line)
	for _, s := range row.States {
		r.state(s)
	}
}

// state prints one execution.
func (r *replaying) state(s recording.State) {
	fmt.Fprintf(r.sh.Out, "\n%s of %s: %s\n", cli.Printable(s.Execution), cli.Printable(s.Workflow), cli.Paint(r.sh.OutColor(), cli.Bold, s.Status))
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
			r.member("  ", "at", r.place(t.At))
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
func timerText(t recording.OpenTimer) string {
	kind := t.Kind
	if t.Key != "" {
		kind += " (" + t.Key + ")"
	}
	due := "due in " + history.Duration(t.DueIn)
	if t.DueIn < 0 { // the recording ends before
		due = "overdue by " + history.Duration(-t.DueIn)
	}
	return fmt.Sprintf("%s of %s, %s (%s)", kind, cmp.Or(history.Task(t.Task), "the workflow"), due, t.Due.Format(time.RFC3339Nano))
}

func (r *replaying) member(indent, name, value string) {
	fmt.Fprintf(r.sh.Out, "  %s%-10s %s\n", indent, cli.Printable(name), cli.OneLine(value))
}

// play replays one recording and plays it in the terminal UI until the user quits.
func (r *replaying) play(ctx context.Context, files []string) error {
	if len(files) != 1 {
		return cli.Misusef("--tui shows one recording, got %d", len(files))
	}
	if err := cli.CheckScreen(r.sh, "--tui"); err != nil {
		return err
	}
	at := r.opts.At
	r.opts.At = nil // verify the whole recording
	row := r.one(ctx, recording.NewReplayer(r.opts), files[0])
	if row.err == nil && at != nil && at.Event > row.Events {
		row.err = fmt.Errorf("%s: --at %d: the recording has %s", row.File, at.Event, history.Count(row.Events, "event"))
	}
	if row.err == nil {
		if err := r.screen(ctx, row, at); err != nil {
			return err
		}
	}
	return r.take(row)
}

// screen plays a replayed recording.
func (r *replaying) screen(ctx context.Context, row replayRow, at *recording.Moment) error {
	cfg, err := row.rec.Config(r.opts.Workflow)
	if err != nil {
		return err
	}
	opts := run.PlaybackOptions(cfg)
	opts.Place, opts.Still = "the recording "+row.File, "this is a recording: nothing can be changed"
	opts.Redact = run.DataRedactor(r.given)
	f := playback.New(opts)
	events, notes := row.rec.Histories(), row.Notes
	if d := row.Difference; d != nil {
		if d.Event > 0 {
			events = events[:d.Event]
		}
		notes = append([]string{"the replay differs: " + where(d), "recorded: " + d.Recorded, "replayed: " + d.Replayed}, notes...)
		f.Differs(d.Execution, fmt.Sprintf("the replay differs here: recorded: %s; replayed: %s", d.Recorded, d.Replayed))
	}
	f.Append(events)
	f.End(notes...)
	if at != nil {
		moment := at.Time
		if moment.IsZero() && at.Event == 0 {
			moment = at.After.From(cfg.Start)
		}
		f.At(at.Event, moment)
	}
	return tui.Run(ctx, f, run.PlaybackScreen(r.sh, "flunq replay "+row.File, row.Execution))
}
