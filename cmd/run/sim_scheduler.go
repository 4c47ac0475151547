package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/scheduling"
	"flunq.io/flunq/sim/search"
)

// part returns what is searched instead of a workflow: scheduler or bridge.
func (s *searcher) part() string {
	if s.bridge {
		return "bridge"
	}
	return "scheduler"
}

// runScheduler searches for runs in which the distributed scheduler, or the bridge, breaks a promise.
func (s *searcher) runScheduler(c *cobra.Command) error {
	allowed := []string{"scheduler", "bridge", "seeds", "singles", "duration", "parallel", "plan", "fail-fast", "output"}
	var wrong []string
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "help" && !slices.Contains(allowed, f.Name) && c.InheritedFlags().Lookup(f.Name) == nil {
			wrong = append(wrong, "--"+f.Name)
		}
	})
	if s.scheduler && s.bridge {
		wrong = append(wrong, "--scheduler")
	}
	if len(wrong) > 0 {
		return cli.Misusef("--%s runs no workflow: %s cannot be used with it", s.part(), strings.Join(wrong, ", "))
	}
	if err := s.numbers(); err != nil {
		return err
	}
	ctx, began := c.Context(), time.Now()
	p := &searchProgress{sh: s.sh, began: began}
	look := scheduling.Search{Bridge: s.bridge, Singles: s.singles, Parallel: s.parallel, FailFast: s.failFast, Progress: p.show}
	if s.duration > 0 {
		look.More = func() bool { return time.Since(began) < s.duration }
	}
	var err error
	if look.First, look.Last, err = s.seedRange(); err != nil {
		return err
	}
	report, err := s.lookAtScheduler(ctx, &look)
	p.end(&search.Report{Plain: report.Plain, Singles: report.Singles, Seeds: report.Seeds})
	if err != nil && ctx.Err() == nil {
		return err
	}
	if s.format.String() == "json" {
		err = cli.WriteJSON(s.sh.Out, schedulerAsJSON(report))
	} else {
		s.writeScheduler(s.sh.Out, report)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case ctx.Err() != nil:
		return cli.Fail(cli.ExitInterrupted, errors.New("interrupted: results so far"))
	case len(report.Findings) > 0:
		return cli.Reported(cli.ExitUnexpected)
	default:
		return nil
	}
}

// lookAtScheduler searches, or repeats the plan of --plan.
func (s *searcher) lookAtScheduler(ctx context.Context, look *scheduling.Search) (*scheduling.Report, error) {
	if s.plan == "" {
		return look.Run(ctx)
	}
	text, err := s.planText(ctx)
	if err != nil {
		return &scheduling.Report{}, err
	}
	plan, err := scheduling.ParsePlan(text)
	if err != nil {
		return &scheduling.Report{}, cli.Fail(cli.ExitMisuse, err)
	}
	plan.Bridge = s.bridge
	report, err := look.Repeat(ctx, plan)
	if err == nil {
		s.hintMissing(plan.Faults, report.Faults)
	}
	return report, err
}

// writeScheduler prints a search and its findings.
func (s *searcher) writeScheduler(w io.Writer, r *scheduling.Report) {
	runs := r.Plain + r.Singles + r.Seeds
	text, style := "no failures in "+history.Count(runs, "run"), cli.Green
	if n := len(r.Findings); n > 0 {
		text, style = history.Count(n, "failure")+" in "+history.Count(runs, "run"), cli.Red
	} else if r.Stopped {
		style = cli.Yellow
	}
	if r.Stopped {
		text = fmt.Sprintf("stopped before the end, after %s of %s: %s", history.Number(runs), history.Number(r.PlainOf+r.SinglesOf+r.SeedsOf), text)
	}
	fmt.Fprintf(w, "%s: %s\n", s.part(), cli.Paint(s.sh.OutColor(), style, text))
	fmt.Fprintf(w, "  %s without faults, %s, %s with faults\n",
		history.Count(r.Plain, "run"), history.Count(r.Singles, "single fault"), history.Count(r.Seeds, "seed"))
	if n, faults := faultCounts(r.Faults, scheduling.Faults()); n > 0 {
		fmt.Fprintf(w, "  %s: %s\n", history.Count(n, "fault"), faults)
	}
	fmt.Fprintf(w, "  %s, %s published, %s of virtual time\n",
		history.Count(r.Calls, "call"), history.Count(r.Published, "event"), ages(int64(r.Elapsed/time.Second)))
	for i, f := range r.Findings {
		fmt.Fprintln(w)
		s.writeBroken(w, i+1, f)
	}
}

// writeBroken prints a finding with its story.
func (s *searcher) writeBroken(w io.Writer, n int, f *scheduling.Finding) {
	on := s.sh.OutColor()
	fmt.Fprintf(w, "%d. %s: %s\n", n, cli.Paint(on, cli.Red, "broken promise"), f.Rule)
	fmt.Fprintf(w, "   in %s%s\n", history.Count(f.Runs, "run"), reduced(f.Seen.Seed, len(f.Seen.Faults), len(f.Small.Faults)))
	if t := f.Trial; t != nil {
		g := t.Setting
		fmt.Fprintf(w, "   what happened, with %s, %s and leases of %s:\n",
			history.Count(g.Processes, "process"), history.Count(g.Partitions, "partition"), history.Duration(g.Lease))
		for _, line := range schedulerStory(t, f.Execution, on) {
			fmt.Fprint(w, "   "+line.text)
		}
		fmt.Fprintf(w, "   %s\n", cli.Paint(on, cli.Red, s.sh.Glyph("✘", "FAIL")+" "+cli.Printable(named(t, f.Execution)+f.Detail)))
	}
	fmt.Fprintf(w, "   repeat with: %s\n", repeatScheduler(f))
}

// named returns the name of an event with a colon; "" for none.
func named(t *scheduling.Trial, id string) string {
	if name := t.Names[id]; name != "" {
		return name + ": "
	}
	return ""
}

// schedulerStory returns the lines that concern an event, including the faults and what the
// processes do.
func schedulerStory(t *scheduling.Trial, id string, on bool) []storyLine {
	var lines []storyLine
	for _, l := range t.Story {
		if !l.Fault && len(l.Events) > 0 && id != "" && !slices.Contains(l.Events, id) {
			continue
		}
		text, about := l.Text, []string{}
		for _, one := range l.Events {
			if name := t.Names[one]; name != "" && !strings.Contains(l.Who, name) {
				about = append(about, name)
			}
		}
		if len(about) > 0 {
			text += " (" + strings.Join(about, ", ") + ")"
		}
		if l.Fault {
			text = cli.Paint(on, cli.Red, "! "+text)
		}
		lines = append(lines, storyLine{fmt.Sprintf("%s  %s: %s\n", l.At.UTC().Format("15:04:05.000"), cli.Printable(l.Who), text), l.Fault})
	}
	return abridged(lines)
}

// repeatScheduler is the command that repeats a finding.
func repeatScheduler(f *scheduling.Finding) string {
	command := "flunq sim --scheduler"
	if f.Small.Bridge {
		command = "flunq sim --bridge"
	}
	text, err := json.Marshal(f.Small)
	if err != nil {
		return command
	}
	return command + " --plan " + cli.Quote(string(text))
}

// schedulerJSON is the result of a search in the JSON output.
type schedulerJSON struct {
	Plain     int            `json:"plain"`
	Singles   int            `json:"singles"`
	Seeds     int            `json:"seeds"`
	Faults    map[string]int `json:"faults"`
	Calls     int            `json:"calls"`
	Published int            `json:"published"`
	Trace     string         `json:"trace"`
	Stopped   bool           `json:"stopped,omitempty"`
	Findings  []brokenJSON   `json:"findings"`
}

type brokenJSON struct {
	Rule   string          `json:"rule"`
	Detail string          `json:"detail"`
	Event  string          `json:"event,omitempty"`
	Runs   int             `json:"runs"`
	Plan   scheduling.Plan `json:"plan"`
	Repeat string          `json:"again"`
}

func schedulerAsJSON(r *scheduling.Report) schedulerJSON {
	out := schedulerJSON{
		Plain: r.Plain, Singles: r.Singles, Seeds: r.Seeds, Faults: map[string]int{}, Calls: r.Calls, Published: r.Published,
		Trace: fmt.Sprintf("%016x", r.Trace), Stopped: r.Stopped,
	}
	for kind, n := range r.Faults {
		out.Faults[string(kind)] = n
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, brokenJSON{f.Rule, f.Detail, f.Execution, f.Runs, f.Small, repeatScheduler(f)})
	}
	return out
}
