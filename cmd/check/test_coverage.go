package check

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/spec"
)

// coverageReport is the coverage of one document in the JSON output.
type coverageReport struct {
	File    string        `json:"file"`
	Reached int           `json:"reached"`
	All     int           `json:"all"`
	Percent float64       `json:"percent"`
	Points  []*spec.Point `json:"points"`
}

func (b *batch) coverageReports() (reports []coverageReport) {
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
	// Truncated, not rounded: only full coverage is 100.
	return float64(part*1000/whole) / 10
}

// writeCoverage writes the coverage: text after the results, HTML to a file.
func (b *batch) writeCoverage() error {
	kind, file := b.coverage.String(), b.coverageFile
	if kind == "" || kind == "text" && file == "" && b.format.String() != "text" {
		return nil // the JSON report contains it
	}
	write := b.coverageText
	if kind == "html" {
		write = b.coverageHTML
		file = cmp.Or(file, "coverage.html")
	}
	if file == "" {
		return write(b.sh.Out, b.sh.OutColor())
	}
	f, err := os.Create(file)
	if err != nil {
		return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(file, err))
	}
	if err := errors.Join(write(f, false), f.Close()); err != nil {
		return fmt.Errorf("write the coverage: %w", cli.WithoutVerb(file, err))
	}
	b.sh.Hint("coverage written to %s", cli.Printable(file))
	return nil
}

// coverageText lists the points that no case reaches.
func (b *batch) coverageText(w io.Writer, color bool) error {
	var reached, all int
	for _, r := range b.reached.Documents() {
		hit, points := r.Reached()
		reached, all = reached+hit, all+points
		style := cli.Green
		if hit < points {
			style = cli.Yellow
		}
		fmt.Fprintf(w, "%s  %s  %s of %s\n", cli.Paint(color, style, fmt.Sprintf("%5.1f %%", percent(hit, points))),
			cli.Printable(r.Document.File), history.Number(hit), history.Number(points))
		for _, p := range r.Points {
			if p.Hits == 0 {
				fmt.Fprintf(w, "         %s:%d:%d  %s\n", cli.OneLine(r.Document.File), p.Line, p.Col, cli.OneLine(p.Name))
			}
		}
	}
	if all == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%5.1f %%  in all, %s of %s\n", percent(reached, all), history.Number(reached), history.Number(all))
	return err
}

//go:embed test_coverage.css
var coverageStyle string

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
		State  string // hit, part or miss; "": no point is on the line
		Hits   int
		Title  string
		inner  int  // number of lines of the innermost point that colours the line
		begins bool // a point begins on the line
	}
)

// coverageHTML writes the documents as one self-contained page with coloured lines.
func (b *batch) coverageHTML(w io.Writer, _ bool) error {
	var reached, all int
	var rows, documents g.Group
	for i, r := range b.reached.Documents() {
		d := coverageOf(r)
		reached, all = reached+d.Reached, all+d.All
		id := "d" + strconv.Itoa(i)
		rows, documents = append(rows, d.row(id)), append(documents, d.source(id))
	}
	total := percent(reached, all)
	page := h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Textf("Coverage: %.1f %%", total)),
			h.StyleEl(g.Raw(coverageStyle)),
		),
		h.Body(
			h.H1(g.Textf("Coverage: %.1f %%, %d of %d", total, reached, all)),
			h.P(h.Class("key"),
				h.Span(h.Class("hit"), g.Text("reached")), h.Span(h.Class("part"), g.Text("reached in part")), h.Span(h.Class("miss"), g.Text("not reached")),
				g.Text(" The number beside a line is how many times it was reached; point at a line for details.")),
			h.Table(h.Class("all"),
				h.Tr(h.Th(g.Text("document")), h.Th(g.Text("workflow")), h.Th(), h.Th(g.Text("reached"))),
				rows),
			documents,
			h.P(h.Class("version"), g.Text("flunq "+cli.Version().Version)),
		),
	))
	out := bufio.NewWriter(w)
	return errors.Join(page.Render(out), out.Flush())
}

// row returns a row of the table of documents.
func (d coverageDocument) row(id string) g.Node {
	return h.Tr(
		h.Td(h.A(h.Href("#"+id), g.Text(d.File))),
		h.Td(g.Text(d.ID)),
		h.Td(h.Span(h.Class("bar"), h.I(h.Style(fmt.Sprintf("width: %.1f%%", d.Percent))))),
		h.Td(h.Class("n"), g.Textf("%.1f %% (%d of %d)", d.Percent, d.Reached, d.All)),
	)
}

// source returns the document with coloured lines.
func (d coverageDocument) source(id string) g.Node {
	return g.Group{
		h.H2(h.ID(id), g.Text(d.File)),
		g.If(len(d.Missed) > 0, g.Group{
			h.P(g.Text("Not reached by any case:")),
			h.Ul(g.Map(d.Missed, func(p *spec.Point) g.Node {
				return h.Li(h.A(h.Href(fmt.Sprintf("#%sl%d", id, p.Line)), g.Textf("line %d", p.Line)), g.Text(": "+p.Name))
			})),
		}),
		h.Pre(h.Code(g.Map(d.Lines, func(line *coverageLine) g.Node {
			hits := ""
			if line.State != "" {
				hits = strconv.Itoa(line.Hits) + "×"
			}
			return h.Span(h.Class("l "+line.State), h.ID(fmt.Sprintf("%sl%d", id, line.Number)), g.If(line.Title != "", h.Title(line.Title)),
				h.B(g.Text(strconv.Itoa(line.Number))), h.U(g.Text(hits)), g.Text(line.Text+"\n"))
		}))),
	}
}

func coverageOf(r *spec.DocumentCoverage) coverageDocument {
	d := coverageDocument{File: r.Document.File, ID: r.Document.Definition.ID()}
	d.Reached, d.All = r.Reached()
	d.Percent = percent(d.Reached, d.All)
	for i, text := range strings.Split(strings.TrimSuffix(string(r.Document.Definition.Source), "\n"), "\n") {
		d.Lines = append(d.Lines, &coverageLine{Number: i + 1, Text: cli.Printable(strings.TrimRight(text, "\r"))})
	}
	for _, p := range r.Points {
		if p.Hits == 0 {
			d.Missed = append(d.Missed, p)
		}
		d.paint(p)
	}
	return d
}

// paint colours the lines of a point. A line where points begin shows these points; any
// other line shows the smallest point that contains it.
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
