package cmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
)

// openReport prepares the report, if one is wanted.
func (r *runner) openReport() (*reportFile, error) {
	page, err := openReport(r.sh, r.report)
	if err == nil && r.report != "" {
		r.printed = report.NewRecording("")
	}
	return page, err
}

// writeReport writes a report of the run, however it ended.
func (r *runner) writeReport(page *reportFile, cfg sim.Config) error {
	if r.printed == nil || r.printed.Empty() {
		return nil
	}
	return page.write(&report.Report{
		Verb: "run", Command: hiding(cfg.Secrets)(r.commandLine), Verdict: r.printed.Ended(), Runs: []*report.Recording{r.printed},
	})
}

// exported adds the events of a run on a real Redis to the report.
func (r *runner) exported(cfg *sim.Config) func(*sim.Result) {
	if r.printed == nil {
		return func(*sim.Result) {}
	}
	out := sim.NewExport(r.printed, sim.Exported{
		Version: cfg.Version, Definition: cfg.Definition, With: cfg.With, Input: cfg.Input, ID: cfg.ID, Tenant: cfg.Tenant, Start: cfg.Start, Secrets: cfg.Secrets,
	})
	observe := cfg.Observe
	cfg.Observe = func(events []event.Event) {
		_ = out.Add(events) // a report in memory accepts everything
		observe(events)
	}
	return func(result *sim.Result) {
		_ = out.End(result.Status, result.Output, result.Error) // likewise
	}
}

// commandOf returns the command line that repeats the run, without the flags that name outputs.
func commandOf(c *cobra.Command, args []string) string {
	words := []string{c.CommandPath()}
	if example := c.Flags().Lookup("example"); example != nil && example.Changed {
		words = append(words, "--example")
		if example.Value.String() != listExamples {
			args = []string{example.Value.String()}
		}
	}
	words = append(words, quoted(args)...)
	c.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "example", "report", "record", "save", "output", "tui", "color", "quiet", "parallel":
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, one := range list.GetSlice() {
				words = append(words, "--"+f.Name, quote(one))
			}
			return
		}
		value := f.Value.String()
		switch {
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
			return
		case f.Name == "redis-url":
			value = store.Redacted(value)
		case f.NoOptDefVal != "":
			words = append(words, "--"+f.Name+"="+quote(value))
			return
		}
		words = append(words, "--"+f.Name, quote(value))
	})
	return strings.Join(words, " ")
}
