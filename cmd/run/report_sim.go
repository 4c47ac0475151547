package run

import (
	"context"
	"fmt"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/sim/search"
)

// maxShown is the maximum number of runs in the report of a search.
const maxShown = 12

// writeReport writes the findings, if a report is wanted: each finding with its story and the
// run that shows it, or a run without faults if there is none.
func (s *searcher) writeReport(ctx context.Context, found []*searched) error {
	if s.report == "" || len(found) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	page := &report.Report{Verb: "sim", Command: found[0].redact(s.commandLine)}
	for _, got := range found {
		s.addFacts(page, got, len(found) > 1)
		for i, f := range got.Findings {
			s.addFinding(ctx, page, got, f, i)
		}
		s.addHints(page, got)
	}
	if len(page.Runs) == 0 {
		s.addPlain(ctx, page, found[0])
	}
	if len(page.Runs) == 1 {
		page.Runs[0].Name = ""
	}
	page.Verdict = s.pageVerdict(found)
	return s.page.Write(page)
}

// pageVerdict summarizes all searches.
func (s *searcher) pageVerdict(found []*searched) report.Verdict {
	failures, runs := 0, 0
	for _, got := range found {
		if text, _ := s.verdict(got); got.Stopped != "" || len(found) == 1 {
			return report.Verdict{Text: text, Rating: s.rating(got)}
		}
		failures += s.failures(got)
		runs += got.Runs()
	}
	if failures > 0 {
		return report.Verdict{Text: history.Count(failures, "failure") + " in " + history.Count(runs, "run"), Rating: report.Bad}
	}
	return report.Verdict{Text: "no failures in " + history.Count(runs, "run"), Rating: report.Good}
}

func (s *searcher) rating(got *searched) report.Rating {
	switch {
	case s.failures(got) > 0:
		return report.Bad
	case got.Stopped != "":
		return report.Careful
	default:
		return report.Good
	}
}

// addFacts adds the numbers of runs and faults, and the outcomes.
func (s *searcher) addFacts(page *report.Report, got *searched, several bool) {
	add := func(name, format string, args ...any) {
		if several {
			name = got.name + ": " + name
		}
		page.Facts = append(page.Facts, report.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	add("runs without faults", "%s of %s", history.Number(got.Plain), history.Number(got.PlainOf))
	if got.PossibleSingles > 0 {
		add("single faults", "%s of %s", history.Number(got.Singles), history.Number(got.PossibleSingles))
	}
	if got.SeedsOf > 0 {
		add("seeds", "%s of %s", history.Number(got.Seeds), history.Number(got.SeedsOf))
	}
	if n, faults := faultCounts(got.Faults, sim.Faults()); n > 0 {
		add("faults", "%s", faults)
	}
	add("distinct interleavings", "%s", history.Number(got.Orders))
	add("virtual time", "%s", ages(got.Seconds))
	for i, o := range got.Outcomes {
		name := "outcome without faults"
		if len(got.Outcomes) > 1 {
			name = fmt.Sprintf("outcome %d without faults", i+1)
		}
		add(name, "%s%s", strings.Join(append([]string{s.outcomeText(got, o)}, o.Distinct...), "; "), s.share(got, o))
	}
	if got.Stopped != "" {
		text, _ := s.verdict(got)
		page.Notes = append(page.Notes, cli.Printable(strings.TrimSpace(got.name+" The search was "+text+".")))
	}
}

// addFinding adds a finding and the runs that show it.
func (s *searcher) addFinding(ctx context.Context, page *report.Report, got *searched, f *search.Finding, index int) {
	out := &report.Finding{
		Heading: heading(f.Class), Rating: report.Careful, Rule: cli.Printable(got.redact(f.Rule)), Counts: s.countsOf(got, f),
		Meaning: s.meaning(f), Repeat: got.redact(s.repeat(got, f)),
	}
	if s.counts(f) {
		out.Rating = report.Bad
	}
	if f.Detail != "" && f.Orders == nil {
		out.Detail = cli.Printable(got.redact(f.Detail + more(f)))
	}
	for _, u := range f.Calls[:min(maxDiffering, len(f.Calls))] {
		out.Differ = append(out.Differ, report.Change{Path: cli.Printable(got.redact(short(u.String()))), Usual: "carried out " + times(u.Usual), Here: "carried out " + times(u.Here)})
	}
	for _, u := range f.Differ[:min(maxDiffering, len(f.Differ))] {
		out.Differ = append(out.Differ, report.Change{
			Path: cli.Printable(differPath(u.Path)), Usual: cli.Printable(got.redact(valueText(u.A))), Here: cli.Printable(got.redact(valueText(u.B))),
		})
	}
	name := strings.TrimSpace(fmt.Sprintf("%s finding %d", got.name, index+1))
	if f.Orders != nil {
		for i, side := range f.Orders.Sides {
			out.Sides = append(out.Sides, sideOf(got, f.Orders, i))
			order := name + ": " + []string{"the usual order", "the other order"}[i]
			s.addRun(ctx, page, got, shownRun{order, side.Scenario, f, out})
		}
	} else {
		for _, line := range abridged(s.story(got, f, false)) {
			out.Story = append(out.Story, report.Line{Text: strings.TrimSuffix(got.redact(line.text), "\n"), Fault: line.fault})
		}
		s.addRun(ctx, page, got, shownRun{name, f.Small, f, out})
	}
	page.Findings = append(page.Findings, out)
}

// countsOf describes in how many runs a finding occurred, and with which faults.
func (*searcher) countsOf(got *searched, f *search.Finding) string {
	if f.Companion != "" {
		return "In " + companionCount(got, f) + "."
	}
	text := frequency(got.Report, f)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func sideOf(got *searched, o *search.Orders, i int) report.Side {
	const limit = 40
	side, out := o.Sides[i], report.Side{Head: sideHead(o, i)}
	for _, step := range side.Steps[:min(limit, len(side.Steps))] {
		out.Steps = append(out.Steps, report.Step{
			At: "+" + history.Duration(step.At), Text: cli.Printable(got.redact(stepText(step.Task, step))), Marked: step.Marked,
		})
	}
	return out
}

// shownRun is a run to add to the report.
type shownRun struct {
	name     string
	scenario search.Scenario
	finding  *search.Finding // nil if the run shows no finding
	of       *report.Finding
}

// addRun repeats a scenario and adds its events to the report.
func (s *searcher) addRun(ctx context.Context, page *report.Report, got *searched, run shownRun) {
	if len(page.Runs) >= maxShown {
		return
	}
	printed := report.NewRecording(run.name)
	if err := recordInto(ctx, run.scenario.Config(got.search.Config), printed); err != nil {
		printed.Notes = append(printed.Notes, cli.Printable(got.redact("The run failed: "+err.Error())))
	}
	if run.finding != nil {
		for _, entry := range run.finding.Timeline {
			if entry.Fault != nil && len(run.scenario.Faults) > 0 {
				printed.Faults = append(printed.Faults, got.redact(faultText(entry.Fault)))
			}
		}
		run.of.Runs = append(run.of.Runs, len(page.Runs))
	}
	page.Runs = append(page.Runs, printed)
}

// recordInto records a run. It turns a panic into an error.
func recordInto(ctx context.Context, cfg sim.Config, printed *report.Recording) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	_, err = recording.Record(ctx, cfg, printed)
	return err
}

// addPlain adds a run without faults.
func (s *searcher) addPlain(ctx context.Context, page *report.Report, got *searched) {
	cfg := got.search.Config
	sc := search.Scenario{Seed: got.search.First, Processes: cfg.Processes, Executions: cfg.Executions}
	s.addRun(ctx, page, got, shownRun{name: "without faults", scenario: sc})
}

// addHints adds the hints.
func (s *searcher) addHints(page *report.Report, got *searched) {
	doc := s.document(got.search.Config.Definition)
	for _, text := range got.Unmocked {
		page.Hints = append(page.Hints, cli.Printable(got.redact("No mock answers "+text+": runs in which it is called were not evaluated (--mocks).")))
	}
	for _, h := range got.Hints {
		page.Hints = append(page.Hints, cli.Printable(got.redact(standing(doc, h.Task)+": "+h.Text)))
	}
}
