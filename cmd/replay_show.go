package cmd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// recordingFiles returns the files that arguments stand for: the files themselves, or the
// recordings below a folder.
func recordingFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case arg == "-":
			files = append(files, arg)
		case err != nil:
			return nil, fail(exitMisuse, withoutVerb(arg, err))
		case !info.IsDir():
			files = append(files, arg)
		default:
			found, err := recordingsIn(arg)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
	}
	return files, nil
}

func recordingsIn(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".jsonl":
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fail(exitMisuse, fmt.Errorf("look for recordings: %w", err))
	}
	if len(files) == 0 {
		return nil, misusef("%s: no recordings (*.jsonl) in this folder", folder)
	}
	return files, nil
}

// line writes a row as JSON.
func (r *replaying) line(row replayRow) error {
	_, err := fmt.Fprintf(r.sh.Out, "%s\n", event.Encode(withEmptyLists(row)))
	return err
}

// text prints the result for a file.
func (r *replaying) text(row replayRow) {
	switch {
	case row.err != nil:
		r.sh.report(row.err)
	case !row.Agrees:
		r.head("differs", red, row)
		r.difference(row.Difference)
		r.migration(row.Migration)
		r.notes(row)
	case r.opts.At != nil:
		r.states(row)
	case r.sh.quiet:
	default:
		r.head("ok", green, row)
		r.migration(row.Migration)
		r.notes(row)
	}
}

// head prints the first line for a file.
func (r *replaying) head(word, style string, row replayRow) {
	said := []string{history.Count(row.Events, "event")}
	if row.Calls > 0 {
		said = append(said, history.Count(row.Calls, "call"))
	}
	if row.Arrivals > 0 {
		said = append(said, history.Count(row.Arrivals, "arrival"))
	}
	status := row.Status
	if !row.Agrees {
		status = "not as recorded"
	}
	padded := word + strings.Repeat(" ", len("differs")-len(word))
	fmt.Fprintf(r.sh.Out, "%s  %s  %s: %s\n", paint(r.sh.outColor(), style, padded), printable(row.File),
		printable(status), strings.Join(said, ", "))
}

func (r *replaying) notes(row replayRow) {
	for _, note := range row.Notes {
		fmt.Fprintf(r.sh.Out, "         note: %s\n", oneLine(note))
	}
}

// difference explains the first difference from both sides.
func (r *replaying) difference(d *sim.Difference) {
	out, on := r.sh.Out, r.sh.outColor()
	now := "replayed"
	if r.source.def != nil {
		now = "new"
	}
	fmt.Fprintf(out, "  %s\n", oneLine(where(d)))
	fmt.Fprintf(out, "  recorded  %s\n", oneLine(d.Recorded))
	fmt.Fprintf(out, "  %-8s  %s\n", now, oneLine(d.Replayed))
	if d.Path != "" {
		fmt.Fprintf(out, "  differs   at %s: recorded %s, %s %s\n", oneLine(d.Path), shown(d.RecordedValue), now, shown(d.ReplayedValue))
	}
	r.frame(d.RecordedAt, on)
	if d.ReplayedAt != nil {
		r.frame(d.ReplayedAt, on)
	}
	if d.Hint != "" {
		fmt.Fprintf(out, "  %s\n", oneLine(d.Hint))
	}
}

// where returns the position of a difference in the recording, and its task.
func where(d *sim.Difference) string {
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
	run := event.ParseRun(d.Run)
	return fmt.Sprintf("%s: task %s (%s)", text, history.Run(d.Name, run.Iteration, run.Attempt), d.Task)
}

// shown formats a value for a difference.
func shown(value []byte) string {
	const longest = 80
	switch {
	case value == nil:
		return "nothing"
	case len(value) > longest:
		return oneLine(strings.ToValidUTF8(string(value[:longest]), "") + "…")
	default:
		return oneLine(string(value))
	}
}

// frame prints a line of a document.
func (r *replaying) frame(at *sim.Place, on bool) {
	if at == nil {
		return
	}
	name := at.Document
	if name == "" {
		name = r.source.name
	}
	fmt.Fprintf(r.sh.Out, "  at %s:%d:%d\n", printable(name), at.Line, at.Column)
	fmt.Fprintf(r.sh.Out, "%6d | %s\n", at.Line, printable(at.Text))
	fmt.Fprintf(r.sh.Out, "       | %s%s\n", strings.Repeat(" ", max(at.Column-1, 0)), paint(on, red, "^"))
}

// end prints the summary.
func (r *replaying) end(took time.Duration) error {
	if r.format.String() == "json" {
		if r.rows == nil {
			r.rows = []replayRow{}
		}
		return writeJSON(r.sh.Out, r.rows)
	}
	if len(r.others) > 0 {
		r.sh.hint("%s of other workflows left out", history.Count(len(r.others), "recording"))
	}
	agreeing := r.files - r.differing - r.broken
	if r.format.String() == "text" && r.opts.At == nil {
		if r.source.def != nil {
			r.answer(agreeing)
		} else if r.files > 1 {
			r.sum(agreeing)
		}
	}
	if r.files > 1 {
		r.sh.hint("replayed in %s, %s a second", history.Duration(took), history.Number(int(float64(r.files)/took.Seconds())))
	}
	return nil
}

// sum prints the counts for several files.
func (r *replaying) sum(agreeing int) {
	said := []string{history.Number(agreeing) + " as recorded"}
	if r.differing > 0 {
		said = append(said, history.Number(r.differing)+" not")
	}
	if r.broken > 0 {
		said = append(said, history.Number(r.broken)+" unreadable")
	}
	fmt.Fprintf(r.sh.Out, "%s: %s\n", history.Count(r.files, "recording"), strings.Join(said, ", "))
}

// answer tells what a changed document would change: for new executions, and for running ones,
// which keep their document unless they are migrated.
func (r *replaying) answer(agreeing int) {
	out, on, name := r.sh.Out, r.sh.outColor(), printable(r.source.name)
	readable := r.files - r.broken
	if agreeing == readable {
		far := ""
		if r.unfinished > 0 {
			far = ", as far as those got that have not ended"
		}
		fmt.Fprintf(out, "%s with %s: %s%s\n", paint(on, green, "new executions behave as recorded"), name, history.Count(readable, "recording"), far)
	} else {
		fmt.Fprintf(out, "%s with %s: %s of %s\n", paint(on, red, "new executions behave differently"), name,
			history.Number(readable-agreeing), history.Count(readable, "recording"))
	}
	if r.unfinished == 0 {
		return
	}
	how, style := "", green
	if r.migratable < r.unfinished {
		style = red
	}
	if r.migratable > 0 {
		how = " (flunq migrate)"
	}
	fmt.Fprintf(out, "running executions keep their document: %s of %s recorded %s%s\n", history.Number(r.migratable),
		history.Number(r.unfinished), paint(on, style, "may be migrated"), how)
}

// migration tells whether a running execution can be migrated to the changed document.
func (r *replaying) migration(m *sim.Migration) {
	switch {
	case m == nil:
	case m.MayBe:
		fmt.Fprintf(r.sh.Out, "         may be migrated to %s\n", printable(r.source.name))
	default:
		fmt.Fprintf(r.sh.Out, "         cannot be migrated to %s: %s\n", printable(r.source.name), oneLine(m.Reason))
	}
}
