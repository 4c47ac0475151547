package check

import (
	"fmt"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/recording"
)

// replayReport collects the content of a report: the result for each file, and the first
// recordings that differ or, if none differs, the first recording.
type replayReport struct {
	files []report.File
	runs  []*report.Recording
	first *report.Recording
}

// Limits of a report about many recordings.
const (
	maxReplayed = 6
	maxFiles    = 2000
)

// add adds the result for a file.
func (rr *replayReport) add(r *replaying, row replayRow) {
	if r.report == "" {
		return
	}
	redact := store.NewSealer(r.given).Redact
	file := report.File{Name: row.File}
	switch {
	case row.Verdict == nil:
		file.Verdict, file.Text = report.Verdict{Text: "unreadable", Rating: report.Bad}, redact(row.Error)
	case row.Agrees:
		file.Verdict = report.Verdict{Text: "as recorded", Rating: report.Good}
		file.Text = fmt.Sprintf("%s: %s", row.Status, history.Count(row.Events, "event"))
	default:
		file.Verdict, file.Text = report.Verdict{Text: "differs", Rating: report.Bad}, redact(where(row.Difference))
	}
	if len(rr.files) < maxFiles {
		rr.files = append(rr.files, file)
	}
	if row.Verdict == nil || row.Agrees && rr.first != nil || len(rr.runs) >= maxReplayed {
		return
	}
	printed := report.NewRecording(row.File)
	printed.Notes = redacted(redact, row.Notes)
	_, _ = printed.Write(row.src) // a report in memory accepts everything
	if row.Agrees {
		rr.first = printed
		return
	}
	printed.Difference = r.printed(row.Difference, printed, redact)
	rr.runs = append(rr.runs, printed)
}

func redacted(redact func(string) string, texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, redact(text))
	}
	return out
}

// printed converts a difference for the report.
func (r *replaying) printed(d *recording.Difference, recorded *report.Recording, redact func(string) string) *report.Difference {
	out := &report.Difference{
		Where: redact(where(d)), Recorded: redact(d.Recorded), Replayed: redact(d.Replayed), Now: "replayed", Path: redact(d.Path), Hint: d.Hint,
		RecordedValue: redact(valueOf(d.RecordedValue)), ReplayedValue: redact(valueOf(d.ReplayedValue)),
		Event: d.Event, Execution: d.Execution, Run: d.Run,
	}
	if r.source.Def != nil {
		out.Now = "with " + r.source.Name
	}
	for _, at := range []*recording.Place{d.RecordedAt, d.ReplayedAt} {
		if at == nil {
			continue
		}
		out.Frames = append(out.Frames, report.Frame{
			Place: cli.Printable(r.place(at)), Column: at.Column,
			Lines: []report.FrameLine{{Number: at.Line, Text: cli.Printable(redact(at.Text))}},
		})
	}
	if len(out.Frames) == 2 && r.source.Def != nil {
		if before := recorded.Definition(d.RecordedAt.Document); before != nil {
			report.Compare(&out.Frames[0], &out.Frames[1], before, r.source.Def)
		}
	}
	return out
}

// valueOf returns a value of a difference, shortened for reading.
func valueOf(value []byte) string { return cli.Printable(shortened(value, 4000)) }

// writeReport writes the report of --report, if it is given.
func (r *replaying) writeReport() error {
	if r.report == "" {
		return nil
	}
	p := &r.shown
	page := &report.Report{Verb: "replay", Command: store.NewSealer(r.given).Redact(r.commandLine), Runs: p.runs, Files: p.files}
	if len(page.Runs) == 0 && p.first != nil {
		page.Runs = []*report.Recording{p.first}
	}
	agreeing := r.files - r.differing - r.broken
	page.Verdict = report.Verdict{Text: "as recorded", Rating: report.Good}
	switch {
	case r.differing > 0:
		page.Verdict = report.Verdict{Text: "differs", Rating: report.Bad}
	case r.broken > 0:
		page.Verdict = report.Verdict{Text: "unreadable", Rating: report.Bad}
	}
	if r.files > 1 && (r.differing > 0 || r.broken > 0) {
		page.Verdict.Text = fmt.Sprintf("%s of %s as recorded", history.Number(agreeing), history.Number(r.files))
	}
	if r.files == 1 && r.broken == 0 {
		page.Files = nil
		page.Runs[0].Name = ""
	}
	if r.source.Def != nil {
		page.Facts = append(page.Facts, report.Fact{Name: "compared with", Value: r.source.Name})
	}
	if r.differing > len(p.runs) {
		page.Notes = append(page.Notes, fmt.Sprintf("Timelines of %d of the %s recordings that differ.", len(p.runs), history.Number(r.differing)))
	}
	if r.files > maxFiles {
		page.Notes = append(page.Notes, history.Count(r.files-maxFiles, "recording")+" omitted from the list.")
	}
	return r.page.Write(page)
}
