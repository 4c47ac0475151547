package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// openReport opens the report of --report, if it is given.
func (r *Runner) openReport() (*ReportFile, error) {
	page, err := OpenReport(r.Sh, r.report)
	if err == nil && r.report != "" {
		r.reported = report.NewRecording("")
	}
	return page, err
}

// writeReport writes the report, however the run ended.
func (r *Runner) writeReport(page *ReportFile, cfg sim.Config) error {
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
		_ = out.End(result.Status, result.Output, result.Error) // likewise
	}
}

// CommandOf returns the command line that repeats a run, without the flags that affect only
// output.
func CommandOf(c *cobra.Command, args []string) string {
	words := []string{c.CommandPath()}
	if example := c.Flags().Lookup("example"); example != nil && example.Changed {
		words = append(words, "--example")
		if example.Value.String() != listExamples {
			args = []string{example.Value.String()}
		}
	}
	words = append(words, cli.Quoted(args)...)
	c.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "example", "report", "record", "save", "output", "tui", "color", "quiet", "parallel":
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, one := range list.GetSlice() {
				words = append(words, "--"+f.Name, cli.Quote(one))
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
			words = append(words, "--"+f.Name+"="+cli.Quote(value))
			return
		}
		words = append(words, "--"+f.Name, cli.Quote(value))
	})
	return strings.Join(words, " ")
}

// ReportFile is a report in progress: a temporary file that replaces the destination when
// it is complete.
type ReportFile struct {
	sh   *cli.Shell
	name string   // as given
	path string   // the destination
	f    *os.File // nil if no report is wanted
}

// OpenReport creates a report file, so that a report that cannot be written is known before
// the work begins. The file does nothing if the name is empty.
func OpenReport(sh *cli.Shell, name string) (*ReportFile, error) {
	file := &ReportFile{sh: sh, name: name, path: name}
	switch name {
	case "":
		return file, nil
	case "-":
		return nil, cli.Misusef("--report -: want a file, because the output goes to stdout")
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		file.path = target
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(file.path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, cli.Misusef("--report %s: not a file that a report can be written to", name)
		}
		mode = info.Mode().Perm()
		probe, err := os.OpenFile(file.path, os.O_WRONLY, 0) // the file may be read-only even if its folder is not
		if err != nil {
			return nil, cli.Fail(cli.ExitMisuse, fmt.Errorf("--report %w", cli.WithoutVerb(name, err)))
		}
		_ = probe.Close() // nothing was written
	}
	beside := filepath.Join(filepath.Dir(file.path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(file.path), os.Getpid()))
	var err error
	if file.f, err = os.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode); err != nil {
		return nil, cli.Fail(cli.ExitMisuse, fmt.Errorf("--report %w", cli.WithoutVerb(name, err)))
	}
	return file, nil
}

// Write writes the report and renames it to its destination.
func (r *ReportFile) Write(page *report.Report) error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	page.Version = cli.Version().Version
	err := page.Write(f)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), r.path)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", errors.Join(cli.WithoutVerb(r.name, err), os.Remove(f.Name())))
	}
	r.sh.Hint("report written to %s", cli.Printable(r.name))
	return nil
}

// Discard removes the temporary file if the report was not written.
func (r *ReportFile) Discard() {
	if r != nil && r.f != nil {
		_ = r.f.Close()           // its content is not needed
		_ = os.Remove(r.f.Name()) // likewise
		r.f = nil
	}
}
