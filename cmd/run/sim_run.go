package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/explore"
	"flunq.io/flunq/sim/search"
)

// all searches all subjects and prints the results. It returns an error if there are
// failures.
func (s *searcher) all(ctx context.Context, subjects []subject) error {
	var found []*searched
	for _, one := range subjects {
		got, err := s.one(ctx, one)
		if err != nil {
			return err
		}
		found = append(found, got)
		if ctx.Err() != nil {
			break
		}
	}
	if err := s.writeReport(ctx, found); err != nil {
		return err
	}
	if s.format.String() == "json" {
		if err := s.writeJSON(found); err != nil {
			return err
		}
	} else {
		for _, got := range found {
			s.write(got)
		}
	}
	if ctx.Err() != nil {
		return cli.Fail(cli.ExitInterrupted, errors.New("interrupted: results so far"))
	}
	for i, call := range s.once {
		if !s.made[i]() {
			s.sh.Hint("--once '%s': no run made such a call", cli.Printable(call))
		}
	}
	if slices.ContainsFunc(found, func(got *searched) bool { return s.failures(got) > 0 }) {
		return cli.Reported(cli.ExitUnexpected)
	}
	return nil
}

// searched is a finished search.
type searched struct {
	subject
	*search.Report

	saved  map[*search.Finding]string // the plan files of findings
	redact func(string) string        // redacts secrets
}

// counts reports whether a finding is a failure.
func (s *searcher) counts(f *search.Finding) bool {
	return (&search.Search{Allowed: s.allowed()}).Fails(f)
}

// allowed returns the classes of findings that --allow-… turns into notes.
func (s *searcher) allowed() []search.Class {
	var out []search.Class
	if s.allowRaces {
		out = append(out, search.Race)
	}
	if s.allowWaiting {
		out = append(out, search.Hang)
	}
	return out
}

// one searches one subject.
func (s *searcher) one(ctx context.Context, subject subject) (*searched, error) {
	began := time.Now()
	if s.duration > 0 {
		subject.search.More = func() bool { return time.Since(began) < s.duration }
	}
	p := &searchProgress{sh: s.sh, began: began, name: subject.name, executions: s.executions}
	subject.search.Progress = p.show
	report, err := s.search(ctx, &subject.search)
	if err != nil {
		report = nil // an error is printed instead of counts
	}
	p.end(report)
	switch {
	case errors.Is(err, search.ErrUnmocked):
		return nil, cli.Fail(cli.ExitMisuse, fmt.Errorf("%w\na search makes no real calls: add a response for each to http in --mocks, such as {match: {method: POST, url: \"https://…\"}, respond: {status: 200}}", err))
	case errors.Is(err, search.ErrUnending):
		return nil, cli.Fail(cli.ExitLimit, err)
	case err != nil:
		return nil, err
	}
	got := &searched{subject: subject, Report: report, saved: map[*search.Finding]string{}, redact: store.NewSealer(subject.search.Config.Secrets).Redact}
	return got, s.keep(ctx, got)
}

func (s *searcher) search(ctx context.Context, base *search.Search) (*search.Report, error) {
	if s.plan == "" {
		return base.Run(ctx)
	}
	sc, err := s.scenario(ctx)
	if err != nil {
		return nil, err
	}
	report, err := base.Repeat(ctx, sc)
	if err == nil && sc.Companion == "" {
		s.hintMissing(sc.Faults, report.Faults)
	}
	return report, err
}

// keep writes the files of --save and --record.
func (s *searcher) keep(ctx context.Context, got *searched) error {
	ctx = context.WithoutCancel(ctx)
	for i, f := range got.Findings {
		if s.record != "" && i == 0 {
			if _, err := recordTo(ctx, s.record, f.Small.Config(got.search.Config)); err != nil {
				return err
			}
		}
		if s.save == "" {
			continue
		}
		if err := os.MkdirAll(s.save, 0o750); err != nil {
			return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(s.save, err))
		}
		file := filepath.Join(s.save, fmt.Sprintf("%s-%d.plan.json", got.search.Config.Definition.Document.Name, i+1))
		text, err := json.MarshalIndent(f.Small, "", "  ")
		if err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(file, err))
		}
		got.saved[f] = file
	}
	return nil
}

// repeat returns the command that repeats a finding.
func (s *searcher) repeat(got *searched, f *search.Finding) string {
	if file := got.saved[f]; file != "" {
		return s.repeatLine + " --plan " + cli.Quote(file)
	}
	text, err := json.Marshal(f.Small)
	if err != nil {
		return s.repeatLine
	}
	return s.repeatLine + " --plan " + cli.Quote(string(text))
}

// searchProgress prints the progress of a search to stderr.
type searchProgress struct {
	sh    *cli.Shell
	began time.Time
	name  string
	last  time.Time
	runs  int

	executions int // of each run
}

// progressEvery is the interval of progress lines if stderr is no terminal.
const progressEvery = 10 * time.Second

func (p *searchProgress) show(state explore.Progress) {
	p.runs++
	every := progressEvery
	if p.sh.ErrTerminal {
		every = cli.RedrawEvery
	}
	if p.last.IsZero() {
		p.last = p.began
	}
	now := time.Now()
	if p.sh.Quiet || now.Sub(p.last) < every {
		return
	}
	p.last = now
	text := fmt.Sprintf("%s: %s of %s, %s runs/s; %s, %s, %s", state.Phase, history.Number(state.Runs), history.Number(state.Of),
		history.Number(int(float64(p.runs)/now.Sub(p.began).Seconds())), history.Count(state.Faults, "fault"),
		history.Count(state.Orders, "distinct interleaving"), history.Count(state.Findings, "finding"))
	if p.name != "" {
		text = cli.Printable(p.name) + ": " + text
	}
	if p.sh.ErrTerminal {
		fmt.Fprintf(p.sh.Err, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.sh.Err, text)
}

func (p *searchProgress) end(r *search.Report) {
	if p.sh.Quiet {
		return
	}
	if p.sh.ErrTerminal {
		fmt.Fprint(p.sh.Err, "\r\x1b[K")
	}
	if r == nil {
		return
	}
	took := time.Since(p.began)
	rate := float64(r.Seeds+r.Plain+r.Singles) / took.Seconds()
	text := fmt.Sprintf("%s and %s in %s: %s runs/s", history.Count(r.Seeds, "seed"), history.Count(r.Plain+r.Singles, "other run"), history.Duration(took), history.Number(int(rate)))
	if p.executions > 1 {
		text += fmt.Sprintf(", %s executions/s", history.Number(int(rate*float64(p.executions))))
	}
	fmt.Fprintln(p.sh.Err, text)
}
