package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/recording"
)

// writeReport writes the report, however the run ended.
func (r *Runner) writeReport(page ReportFile, cfg sim.Config) error {
	if r.reported == nil || r.reported.Empty() {
		return nil
	}
	return page.Write(&report.Report{
		Verb: "run", Command: store.NewSealer(cfg.Secrets).Redact(r.commandLine), Verdict: r.reported.Ended(), Runs: []*report.Recording{r.reported},
	})
}

// exported makes a run on a real Redis add its events to the report. The caller passes the
// result to the returned function.
func (r *Runner) exported(cfg *sim.Config) func(*sim.Result) {
	if r.reported == nil {
		return func(*sim.Result) {}
	}
	out := recording.NewExport(r.reported, recording.Exported{
		Version: cfg.Version, Definition: cfg.Definition, With: cfg.With, Input: cfg.Input, ID: cfg.ID, Tenant: cfg.Tenant, Start: cfg.Start, Secrets: cfg.Secrets,
	})
	observe := cfg.Observe
	cfg.Observe = func(events []event.Event) {
		_ = out.Add(events) // a report in memory accepts everything
		observe(events)
	}
	return func(result *sim.Result) {
		_ = out.End(result.Status, result.Output, result.Error) // so does its end
	}
}

// CommandOf returns the command line that repeats a run, without the flags that affect only
// output.
func CommandOf(c *cobra.Command, args []string) string {
	return commandLine(c, args, func(flag string) bool {
		return !slices.Contains([]string{"report", "record", "save", "output", "tui", "color", "quiet", "parallel"}, flag)
	})
}

// commandLine returns the command line of a command, with some of its flags.
func commandLine(c *cobra.Command, args []string, with func(flag string) bool) string {
	words := []string{c.CommandPath()}
	if example := c.Flags().Lookup("example"); example != nil && example.Changed {
		words = append(words, "--example")
		if example.Value.String() != listExamples {
			args = []string{example.Value.String()}
		}
	}
	words = append(words, cli.Quoted(args)...)
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "example" || !with(f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			words = append(words, "--"+f.Name)
			switch {
			case f.Value.Type() == "bool":
			case f.Name == "redis-url":
				words = append(words, cli.Quote(store.Redacted(value)))
			case f.NoOptDefVal != "":
				words[len(words)-1] += "=" + cli.Quote(value)
			default:
				words = append(words, cli.Quote(value))
			}
		}
	})
	return strings.Join(words, " ")
}

// ReportFile is the destination of a report. It does nothing if the name is empty.
type ReportFile struct {
	sh   *cli.Shell
	name string
}

// OpenReport returns the file with a name. It returns an error if the file cannot be written, so the
// user knows before the work begins.
func OpenReport(sh *cli.Shell, name string) (ReportFile, error) {
	file := ReportFile{sh, name}
	if name == "" {
		return file, nil
	}
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return file, cli.Misusef("--report %s: not a file that a report can be written to", name)
	}
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return file, cli.Fail(cli.ExitMisuse, fmt.Errorf("--report %w", cli.WithoutVerb(name, err)))
	}
	_ = f.Close() // nothing was written
	if isNew {
		_ = os.Remove(name) // until there is a report
	}
	return file, nil
}

// Write writes the report.
func (r ReportFile) Write(page *report.Report) error {
	if r.name == "" {
		return nil
	}
	page.Version = cli.Version().Version
	var text bytes.Buffer
	err := page.Write(&text)
	if err == nil {
		err = os.WriteFile(r.name, text.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", cli.WithoutVerb(r.name, err))
	}
	r.sh.Hint("report written to %s", cli.Printable(r.name))
	return nil
}
