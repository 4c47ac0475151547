package cmd

import (
	"fmt"
	"io"
	"os"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/spec"
)

// coverageReport is the coverage of one document, in the JSON output.
type coverageReport struct {
	File    string        `json:"file"`
	Reached int           `json:"reached"`
	All     int           `json:"all"`
	Percent float64       `json:"percent"`
	Points  []*spec.Point `json:"points"`
}

func (b *batch) coverageReports() []coverageReport {
	reports := []coverageReport{}
	for _, r := range b.reached.Documents() {
		reached, all := r.Reached()
		reports = append(reports, coverageReport{r.Document.File, reached, all, percent(reached, all), r.Points})
	}
	return reports
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 100
	}
	// Truncated, not rounded: 100 means everything.
	return float64(part*1000/whole) / 10
}

// writeCoverage writes the coverage: text with the results, HTML to a file.
func (b *batch) writeCoverage() error {
	kind, file := b.coverage.String(), b.coverageFile
	if kind == "" || kind == "text" && file == "" && b.format.String() != "text" {
		return nil // the JSON report contains it
	}
	write := b.coverageText
	if kind == "html" {
		write = b.coverageHTML
		if file == "" {
			file = "coverage.html"
		}
	}
	if file == "" {
		return write(b.sh.Out, b.sh.outColor())
	}
	f, err := os.Create(file)
	if err != nil {
		return fail(exitMisuse, withoutVerb(file, err))
	}
	err = write(f, false)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write the coverage: %w", withoutVerb(file, err))
	}
	b.sh.hint("coverage written to %s", printable(file))
	return nil
}

// coverageText lists what no case reaches.
func (b *batch) coverageText(w io.Writer, color bool) error {
	var reached, all int
	for _, r := range b.reached.Documents() {
		hit, points := r.Reached()
		reached, all = reached+hit, all+points
		style := green
		if hit < points {
			style = yellow
		}
		fmt.Fprintf(w, "%s  %s  %s of %s\n", paint(color, style, fmt.Sprintf("%5.1f %%", percent(hit, points))),
			printable(r.Document.File), history.Number(hit), history.Number(points))
		for _, p := range r.Points {
			if p.Hits == 0 {
				fmt.Fprintf(w, "         %s:%d:%d  %s\n", oneLine(r.Document.File), p.Line, p.Col, oneLine(p.Name))
			}
		}
	}
	if all == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%5.1f %%  in all, %s of %s\n", percent(reached, all), history.Number(reached), history.Number(all))
	return err
}
