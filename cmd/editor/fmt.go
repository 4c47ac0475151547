package editor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/replace"
)

// NewFormatCommand returns the command flunq fmt.
func NewFormatCommand(sh *cli.Shell) *cobra.Command {
	f := &formatting{sh: sh}
	c := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Format workflows, mocks and tests",
		Long: `Writes files in the standard layout: indented by two spaces, one space after a
colon and a dash, no trailing spaces, no two blank lines in a row, LF at the end
of each line. Comments, quotes and brackets do not change, no line is split or
joined, and the meaning stays the same, which is checked before a file is
written.

FILE is a file in YAML, "-" for stdin to stdout, or a folder with workflows,
mocks and tests. The names of changed files are printed. Exit code: 0, 4 if
--check finds files to change, 5 if a file is not YAML.`,
		Example: `  flunq fmt order.yaml
  flunq fmt --check --diff workflows/`,
		GroupID: cli.GroupDevelop,
		Args:    cli.SomeArguments("file"),
	}
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; exit code 4 if a file would change")
	c.Flags().BoolVarP(&f.diff, "diff", "d", false, "change nothing; print what would change")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c.Context(), args) }
	return c
}

// formatting is one run of the command.
type formatting struct {
	sh          *cli.Shell
	check, diff bool

	changed int
	failed  error // of the files that could not be formatted, the last
}

func (f *formatting) run(ctx context.Context, args []string) error {
	for _, arg := range args {
		files, err := formattable(arg)
		if err != nil {
			f.fail(err)
		}
		for _, file := range files {
			if err := f.file(ctx, file); err != nil {
				f.fail(err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	switch {
	case f.failed != nil:
		return cli.Reported(cli.ExitCode(f.failed))
	case f.check && f.changed > 0:
		return cli.Reported(cli.ExitUnexpected)
	default:
		return nil
	}
}

// fail reports a file that cannot be formatted. The others are still formatted.
func (f *formatting) fail(err error) {
	f.failed = err
	cli.ExplainMistakes(f.sh, err)
}

// formattable returns the files that an argument stands for: the file itself, or the
// workflows, mocks and tests in a folder.
func formattable(arg string) ([]string, error) {
	files, err := cli.DocumentFiles(arg)
	if info, statErr := os.Stat(arg); statErr != nil || !info.IsDir() {
		return files, err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Ext(file) == ".json" })
	others, walkErr := cli.FilesIn(arg, func(file string) bool {
		info, err := os.Lstat(file)
		return err == nil && info.Mode().IsRegular() && kindOf(file) != "workflow"
	})
	if walkErr != nil {
		return nil, cli.Fail(cli.ExitMisuse, walkErr)
	}
	if files = append(files, others...); len(files) == 0 {
		return nil, err
	}
	slices.Sort(files)
	return files, nil
}

// kindOf returns the kind of a file, judging by its name; each kind has a schema.
func kindOf(file string) string {
	if ext := filepath.Ext(file); ext == ".yaml" || ext == ".yml" {
		switch filepath.Ext(strings.TrimSuffix(file, ext)) {
		case ".mocks":
			return "mocks"
		case ".test":
			return "test"
		}
	}
	return "workflow"
}

func (f *formatting) file(ctx context.Context, file string) error {
	name := cli.DisplayName(file)
	text, err := cli.ReadDocument(ctx, f.sh, file)
	if err != nil {
		return err
	}
	formatted, err := Format(name, text)
	if err != nil {
		return err
	}
	same := string(text) == string(formatted)
	if !same {
		f.changed++
	}
	switch {
	case f.diff:
		shown := cli.Printable(name)
		unified := diff.Diff(shown, text, shown, formatted)
		_, unified, _ = bytes.Cut(unified, []byte("\n")) // the command that made it
		fmt.Fprint(f.sh.Out, string(unified))
	case file == "-" && !f.check:
		fmt.Fprint(f.sh.Out, string(formatted))
	case same:
	case f.check:
		fmt.Fprintln(f.sh.Out, cli.Printable(name))
	default:
		if err := replace.File(file, formatted); err != nil {
			return cli.Fail(cli.ExitFailed, cli.WithoutVerb(file, err))
		}
		fmt.Fprintln(f.sh.Out, cli.Printable(name))
	}
	return nil
}
