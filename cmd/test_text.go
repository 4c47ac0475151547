package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
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
	if wrong := f.err; wrong != nil {
		fmt.Fprintf(b.sh.Out, "%s  %s  invalid\n", b.word(invalid), oneLine(f.name))
		b.explain(wrong)
		return nil
	}
	if len(f.cases) == 0 && b.only != "" {
		return nil
	}
	worst := f.worst()
	if worst == passed && b.sh.quiet {
		return nil
	}
	fmt.Fprintf(b.sh.Out, "%s  %s  %s\n", b.word(worst), oneLine(f.name), f.tally())
	for _, c := range f.cases {
		b.showCase(c)
	}
	return nil
}

// explain prints the mistakes of all files that one test file needs.
func (b *batch) explain(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			b.explain(one)
		}
		return
	}
	explainMistakes(b.sh, err)
}

// worst returns the outcome to print for the file.
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
		n := 0
		for _, c := range f.cases {
			if c.outcome == o {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if len(parts) == 0 {
		return "no tests"
	}
	return strings.Join(parts, ", ")
}

// word formats the outcome at the start of a line.
func (b *batch) word(o outcome) string {
	switch o {
	case passed:
		return paint(b.sh.outColor(), green, "ok  ")
	case updated:
		return paint(b.sh.outColor(), yellow, "new ")
	case skipped:
		return paint(b.sh.outColor(), yellow, "skip")
	default:
		return paint(b.sh.outColor(), red, "FAIL")
	}
}

func (b *batch) showCase(c *testCase) {
	if c.outcome == passed && !b.verbose || c.outcome == skipped && !b.verbose {
		return
	}
	glyph, style := "✔", green
	switch c.outcome {
	case failed, broken:
		glyph, style = "✘", red
	case skipped, updated:
		glyph, style = "–", yellow
	default:
	}
	if b.sh.ascii() {
		glyph = asciiGlyphs[glyph]
	}
	fmt.Fprintf(b.sh.Out, "  %s %s", paint(b.sh.outColor(), style, glyph), oneLine(c.Name))
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
		fmt.Fprintf(b.sh.Out, "      flunq itself failed: %s\n", printable(c.Redact(c.err.Error())))
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

func position(p spec.Place) string { return oneLine(fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)) }

// showDifference prints the expected and the actual value, with the lines of both files.
func (b *batch) showDifference(s *spec.Suite, d spec.Difference) {
	out, on := b.sh.Out, b.sh.outColor()
	fmt.Fprintf(out, "    %s\n", paint(on, bold, printable(d.Expect+d.Path)))
	if d.Why != "" {
		fmt.Fprintf(out, "      %s\n", printable(d.Why))
	}
	for _, line := range d.Lines {
		style := ""
		switch line.Mark {
		case '-':
			style = red
		case '+':
			style = green
		}
		text := strings.ReplaceAll(printable(line.Text), "\n", "\n        ")
		fmt.Fprintf(out, "      %s\n", paint(on && style != "", style, strings.TrimRight(string(line.Mark)+" "+text, " ")))
	}
	frame(out, s, d.At)
	if d.Source.Line > 0 {
		frame(out, s, d.Source)
	}
}

// frameWidth is the maximum width of a printed line.
const frameWidth = 100

// frame prints a position with its line.
func frame(w io.Writer, s *spec.Suite, at spec.Place) {
	text, _ := (document{text: s.Source(at.File)}).line(at.Line) // without one, the place says it
	text = printable(strings.TrimSpace(text))
	if runes := []rune(text); len(runes) > frameWidth {
		text = string(runes[:frameWidth]) + "…"
	}
	fmt.Fprintf(w, "        at %s | %s\n", position(at), text)
}

// iso formats a duration in ISO 8601.
func iso(d time.Duration) string {
	const day = 24 * time.Hour
	return dsl.Duration{Days: int64(d / day), Clock: d % day}.String()
}
