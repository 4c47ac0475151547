package check

import (
	"encoding/xml"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/spec"
)

// The elements of the JUnit format.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string           `xml:"name,attr"`
		Tests      int              `xml:"tests,attr"`
		Failures   int              `xml:"failures,attr"`
		Errors     int              `xml:"errors,attr"`
		Skipped    int              `xml:"skipped,attr"`
		Time       string           `xml:"time,attr"`
		File       string           `xml:"file,attr"`
		Properties *junitProperties `xml:"properties"`
		Cases      []junitCase      `xml:"testcase"`
	}
	junitCase struct {
		Name       string           `xml:"name,attr"`
		Class      string           `xml:"classname,attr"`
		Time       string           `xml:"time,attr"`
		File       string           `xml:"file,attr"`
		Line       int              `xml:"line,attr,omitempty"`
		Properties *junitProperties `xml:"properties"`
		Failure    *junitProblem    `xml:"failure"`
		Error      *junitProblem    `xml:"error"`
		Skipped    *struct{}        `xml:"skipped"`
	}
	junitProperties struct {
		List []junitProperty `xml:"property"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",cdata"`
	}
)

// writeJUnit writes the report of --junit.
func (b *batch) writeJUnit() error {
	if b.junit == "" {
		return nil
	}
	all := junitSuites{Name: "flunq"}
	var sum time.Duration
	for _, f := range b.files {
		s, took := f.junit()
		sum += took
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	all.Time = seconds(sum)
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	if err := os.WriteFile(b.junit, append([]byte(xml.Header), append(text, '\n')...), 0o644); err != nil {
		return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(b.junit, err))
	}
	return nil
}

// inXML replaces characters that XML forbids, even in CDATA.
func inXML(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\ufffe' || r == '\uffff' || r < ' ' && r != '\n' && r != '\t' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) }

// junit returns the results of a test file and the real time it took.
func (f *testFile) junit() (junitSuite, time.Duration) {
	s := junitSuite{Name: f.name, File: f.name, Tests: len(f.cases)}
	if f.err != nil {
		s.Tests, s.Errors, s.Time = 1, 1, seconds(0)
		problem := &junitProblem{Message: "the test file cannot be run", Type: "invalid", Text: inXML(f.err.Error())}
		s.Cases = []junitCase{{Name: f.name, Class: f.name, File: f.name, Time: s.Time, Error: problem}}
		return s, 0
	}
	var took, virtual time.Duration
	for _, c := range f.cases {
		took, virtual = took+c.took, virtual+c.virtual()
		one := c.junit(f.name)
		switch {
		case one.Failure != nil:
			s.Failures++
		case one.Error != nil:
			s.Errors++
		case one.Skipped != nil:
			s.Skipped++
		}
		s.Cases = append(s.Cases, one)
	}
	s.Time = seconds(took)
	s.Properties = &junitProperties{[]junitProperty{{"virtual_time", dsl.ISO(virtual)}, {"workflow", f.suite.Workflow.File}}}
	return s, took
}

func (c *testCase) junit(file string) junitCase {
	out := junitCase{Name: c.Name, Class: file, Time: seconds(c.took), File: file, Line: c.At.Line}
	switch c.outcome {
	case failed:
		differences := c.verdict.Differences
		var text strings.Builder
		for _, d := range differences {
			fmt.Fprintf(&text, "%s\n", plainDifference(d))
		}
		out.Failure = &junitProblem{Message: headlineOf(differences), Type: differences[0].Expect, Text: inXML(text.String())}
	case broken:
		out.Error = &junitProblem{Message: "flunq itself failed", Type: "flunq", Text: inXML(c.Redact(c.err.Error()))}
	case skipped:
		out.Skipped = &struct{}{}
	default:
	}
	if c.verdict != nil {
		out.Properties = &junitProperties{[]junitProperty{{"virtual_time", dsl.ISO(c.verdict.Elapsed)}}}
	}
	return out
}

// headlineOf summarizes differences in one line.
func headlineOf(differences []spec.Difference) string {
	var names []string
	for _, d := range differences {
		names = append(names, d.Expect+d.Path)
	}
	return "not as expected: " + strings.Join(names, ", ")
}

// plainDifference formats a difference without colours.
func plainDifference(d spec.Difference) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s (%s)\n", d.Expect+d.Path, position(d.At))
	if d.Why != "" {
		fmt.Fprintf(&out, "  %s\n", cli.Printable(d.Why))
	}
	for _, line := range d.Lines {
		fmt.Fprintf(&out, "  %c %s\n", line.Mark, cli.Printable(line.Text))
	}
	if d.Source.Line > 0 {
		fmt.Fprintf(&out, "  at %s %s\n", position(d.Source), cli.Printable(d.Task))
	}
	return out.String()
}
