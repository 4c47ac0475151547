package check

import (
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/spec"
)

// The results of tests in the JSON output.
type (
	testReport struct {
		Passed   int              `json:"passed"`
		Failed   int              `json:"failed"`
		Updated  int              `json:"updated"`
		Skipped  int              `json:"skipped"`
		Broken   int              `json:"broken"`
		Invalid  []invalidFile    `json:"invalid"`
		Virtual  string           `json:"virtual_time"`
		Tests    []testRow        `json:"tests"`
		Coverage []coverageReport `json:"coverage,omitempty"`
	}
	invalidFile struct {
		File     string       `json:"file"`
		Mistakes []mistakeRow `json:"mistakes"`
	}
	mistakeRow struct {
		File string `json:"file"`
		cli.Note
	}
	testRow struct {
		File        string          `json:"file"`
		Name        string          `json:"name"`
		Line        int             `json:"line"`
		Outcome     outcome         `json:"outcome"`
		Seed        *uint64         `json:"seed,omitempty"` // of the run that differs
		Elapsed     string          `json:"elapsed,omitempty"`
		TookMS      float64         `json:"took_ms"`
		Error       string          `json:"error,omitempty"`
		Differences []differenceRow `json:"differences,omitempty"`
	}
	differenceRow struct {
		Expect   string      `json:"expect"`
		Path     string      `json:"path,omitempty"`
		Why      string      `json:"why,omitempty"`
		Want     string      `json:"want,omitempty"`
		Got      string      `json:"got,omitempty"`
		Sent     string      `json:"sent,omitempty"` // all requests
		At       spec.Place  `json:"at"`
		Task     string      `json:"task,omitempty"`
		Workflow *spec.Place `json:"workflow,omitempty"`
	}
)

func (b *batch) report() testReport {
	r := testReport{
		Passed: b.count(passed), Failed: b.count(failed), Updated: b.count(updated), Skipped: b.count(skipped),
		Broken: b.count(broken), Virtual: dsl.ISO(b.virtual()),
	}
	for _, f := range b.files {
		if f.err != nil {
			r.Invalid = append(r.Invalid, invalidFile{f.name, mistakeRows(f.err)})
		}
		for _, c := range f.cases {
			r.Tests = append(r.Tests, c.row())
		}
	}
	if b.coverage.String() != "" {
		r.Coverage = b.coverageReports()
	}
	return r
}

// mistakeRows returns all mistakes of a file and of the files that it needs.
func mistakeRows(err error) []mistakeRow {
	rows := []mistakeRow{}
	for _, m := range cli.AllMistakes(err) {
		rows = append(rows, mistakeRow{m.File, cli.Note{Line: m.Line, Column: m.Column, Message: m.Message, Suggestion: m.Suggestion}})
	}
	return rows
}

func (c *testCase) row() testRow {
	r := testRow{
		File: c.Suite().File, Name: c.Name, Line: c.At.Line, Outcome: c.outcome,
		TookMS: float64(c.took.Round(time.Microsecond)) / float64(time.Millisecond),
	}
	if c.err != nil {
		r.Error = c.Redact(c.err.Error())
	}
	if c.verdict == nil {
		return r
	}
	r.Elapsed = dsl.ISO(c.verdict.Elapsed)
	if c.outcome != failed {
		return r
	}
	r.Seed = &c.verdict.Outcome.Seed
	for _, d := range c.verdict.Differences {
		row := differenceRow{Expect: d.Expect, Path: d.Path, Why: d.Why, Want: d.Want(), Got: d.Got(), Sent: d.Sent(), At: d.At, Task: d.Task}
		if d.Source.Line > 0 {
			row.Workflow = &d.Source
		}
		r.Differences = append(r.Differences, row)
	}
	return r
}

// showLines prints the results of a file, one JSON object per line.
func (b *batch) showLines(f *testFile) error {
	var rows []any
	if f.err != nil {
		rows = append(rows, map[string]any{"file": f.name, "outcome": invalid, "mistakes": mistakeRows(f.err)})
	}
	for _, c := range f.cases {
		rows = append(rows, c.row())
	}
	return cli.List[any]{}.Print(b.sh, b.format, rows)
}
