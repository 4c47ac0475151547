package cmd

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"flunq.io/flunq/sim/spec"
)

//go:embed test_coverage.html
var coveragePage string

// The data of the page: documents with their lines.
type (
	coverageDocument struct {
		File, ID     string
		Reached, All int
		Percent      float64
		Lines        []*coverageLine
		Missed       []*spec.Point
	}
	coverageLine struct {
		Number int
		Text   string
		State  string // hit, part, miss, or "" if nothing on it can be reached
		Hits   int
		Title  string
		inner  int  // the lines of the innermost point that colours it
		begins bool // a point begins on it
	}
)

// coverageHTML writes the documents, coloured by line, as one self-contained page.
func (b *batch) coverageHTML(w io.Writer, _ bool) error {
	page, err := template.New("coverage").Parse(coveragePage)
	if err != nil {
		panic("cmd: the page of the coverage: " + err.Error())
	}
	data := struct {
		Version      string
		Reached, All int
		Percent      float64
		Documents    []coverageDocument
	}{Version: version().Version}
	for _, r := range b.reached.Documents() {
		d := coverageOf(r)
		data.Reached, data.All = data.Reached+d.Reached, data.All+d.All
		data.Documents = append(data.Documents, d)
	}
	data.Percent = percent(data.Reached, data.All)
	return page.Execute(w, data)
}

func coverageOf(r *spec.Reach) coverageDocument {
	d := coverageDocument{File: r.Document.File, ID: r.Document.Definition.ID()}
	d.Reached, d.All = r.Reached()
	d.Percent = percent(d.Reached, d.All)
	for i, text := range strings.Split(strings.TrimSuffix(string(r.Document.Definition.Source), "\n"), "\n") {
		d.Lines = append(d.Lines, &coverageLine{Number: i + 1, Text: printable(strings.TrimRight(text, "\r"))})
	}
	for _, p := range r.Points {
		if p.Hits == 0 {
			d.Missed = append(d.Missed, p)
		}
		d.paint(p)
	}
	return d
}

// paint colours the lines of a point. A line on which points begin shows those; any other shows the
// smallest point that contains it.
func (d coverageDocument) paint(p *spec.Point) {
	last := max(p.Last, p.Line)
	size := last - p.Line
	for _, line := range d.Lines[min(p.Line-1, len(d.Lines)):min(last, len(d.Lines))] {
		begins := line.Number == p.Line
		switch {
		case line.State == "" || begins && !line.begins || !begins && !line.begins && size < line.inner:
			line.State, line.inner, line.Hits = reachOf(p), size, p.Hits
		case begins || !line.begins && size == line.inner:
			line.State, line.Hits = both(line.State, reachOf(p)), max(line.Hits, p.Hits)
		}
		line.begins = line.begins || begins
		if begins {
			word := "reached: "
			if p.Hits == 0 {
				word = "not reached: "
			}
			line.Title = strings.TrimPrefix(line.Title+"\n"+word+p.Name, "\n")
		}
	}
}

func reachOf(p *spec.Point) string {
	if p.Hits > 0 {
		return "hit"
	}
	return "miss"
}

func both(a, b string) string {
	if a == b {
		return a
	}
	return "part"
}
