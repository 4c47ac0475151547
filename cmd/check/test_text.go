package check

import (
	"fmt"
	"io"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/spec"
)

// show prints the results of one test file.
func (b *batch) show(f *testFile) error {
	switch b.format.String() {
	case "json":
		return nil
	case "jsonl":
		return b.showLines(f)
	}
	if mistakes := f.err; mistakes != nil {
		fmt.Fprintf(b.sh.Out, "%s  %s  invalid\n", b.word(invalid), cli.OneLine(f.name))
		cli.ExplainMistakes(b.sh, mistakes)
		return nil
	}
	if len(f.cases) == 0 && b.only != "" {
		return nil
	}
	worst := f.worst()
	if worst == passed && b.sh.Quiet {
		return nil
	}
	fmt.Fprintf(b.sh.Out, "%s  %s  %s\n", b.word(worst), cli.OneLine(f.name), f.tally())
	for _, c := range f.cases {
		b.showCase(c)
	}
	return nil
}

// worst returns the outcome to print for a file.
func (f *testFile) worst() outcome {
	worst := passed
	for _, c := range f.cases {
		switch {
		case c.outcome == failed || c.outcome == broken:
			return failed
		case c.outcome != passed:
			worst = c.outcome
		}
	}
	return worst
}

func (f *testFile) tally() string {
	var parts []string
	for _, o := range outcomes() {
		if n := f.count(o); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if len(parts) == 0 {
		return "no tests"
	}
	return strings.Join(parts, ", ")
}

// word formats an outcome for the start of a line.
func (b *batch) word(o outcome) string {
	switch o {
	case passed:
		return cli.Paint(b.sh.OutColor(), cli.Green, "ok  ")
	case updated:
		return cli.Paint(b.sh.OutColor(), cli.Yellow, "new ")
	case skipped:
		return cli.Paint(b.sh.OutColor(), cli.Yellow, "skip")
	default:
		return cli.Paint(b.sh.OutColor(), cli.Red, "FAIL")
	}
}

func (b *batch) showCase(c *testCase) {
	if c.outcome == passed && !b.verbose || c.outcome == skipped && !b.verbose {
		return
	}
	glyph, style := "✔", cli.Green
	switch c.outcome {
	case failed, broken:
		glyph, style = "✘", cli.Red
	case skipped, updated:
		glyph, style = "–", cli.Yellow
	default:
	}
	if b.sh.ASCII() {
		glyph = run.ASCIIGlyphs[glyph]
	}
	fmt.Fprintf(b.sh.Out, "  %s %s", cli.Paint(b.sh.OutColor(), style, glyph), cli.OneLine(c.Name))
	if c.verdict != nil {
		fmt.Fprintf(b.sh.Out, "  %s", history.Duration(c.verdict.Elapsed))
	}
	if c.outcome != passed {
		fmt.Fprintf(b.sh.Out, "  %s", position(c.At))
	}
	fmt.Fprintln(b.sh.Out)
	for line := range strings.Lines(string(c.timeline)) {
		fmt.Fprintf(b.sh.Out, "%*s%s", indentOfTimeline, "", line)
	}
	switch c.outcome {
	case broken:
		fmt.Fprintf(b.sh.Out, "      flunq itself failed: %s\n", cli.Printable(c.Redact(c.err.Error())))
	case failed:
		if len(c.Seeds) > 1 {
			fmt.Fprintf(b.sh.Out, "      with seed %d\n", c.verdict.Outcome.Seed)
		}
		for _, d := range c.verdict.Differences {
			b.showDifference(c.Suite(), d)
		}
	default:
	}
}

func position(p spec.Place) string {
	return cli.OneLine(fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col))
}

// showDifference prints the expected and the actual value and the lines of both files.
func (b *batch) showDifference(s *spec.Suite, d spec.Difference) {
	out, on := b.sh.Out, b.sh.OutColor()
	fmt.Fprintf(out, "    %s\n", cli.Paint(on, cli.Bold, cli.Printable(d.Expect+d.Path)))
	if d.Why != "" {
		fmt.Fprintf(out, "      %s\n", cli.Printable(d.Why))
	}
	for _, line := range d.Lines {
		style := ""
		switch line.Mark {
		case '-':
			style = cli.Red
		case '+':
			style = cli.Green
		}
		text := strings.ReplaceAll(cli.Printable(line.Text), "\n", "\n        ")
		fmt.Fprintf(out, "      %s\n", cli.Paint(on && style != "", style, strings.TrimRight(string(line.Mark)+" "+text, " ")))
	}
	frame(out, s, d.At)
	if d.Source.Line > 0 {
		frame(out, s, d.Source)
	}
}

// frameWidth is the maximum width of a printed line.
const frameWidth = 100

// frame prints a position and its line.
func frame(w io.Writer, s *spec.Suite, at spec.Place) {
	text, _ := (cli.Document{Text: s.Source(at.File)}).Line(at.Line) // an unknown line stays empty
	text = cli.Printable(strings.TrimSpace(text))
	if runes := []rune(text); len(runes) > frameWidth {
		text = string(runes[:frameWidth]) + "…"
	}
	fmt.Fprintf(w, "        at %s | %s\n", position(at), text)
}
