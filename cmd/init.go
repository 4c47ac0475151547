package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/workflows"
)

// pattern is an example that flunq init copies.
type pattern struct{ name, example, about string }

// patterns returns the examples that flunq init offers, simplest first.
func patterns() []pattern {
	return []pattern{
		{"hello", "hello", "call a service, wait a day, decide"},
		{"retry", "webhook", "repeat a call until it succeeds, or give up"},
		{"polling", "poll", "ask for a result less and less often"},
		{"loop", "import", "handle each item of a list, even if others fail"},
		{"parallel", "fan-out", "call three services in parallel and join the responses"},
		{"events", "checkout", "wait for two events in any order, or time out"},
		{"approval", "approval", "wait days for a person, then ask someone else"},
		{"saga", "order-saga", "undo the earlier steps when a later one fails"},
	}
}

// starter is one run of flunq init.
type starter struct {
	sh    *cli.Shell
	from  string
	force bool
}

func newInitCommand(sh *cli.Shell) *cobra.Command {
	s := &starter{sh: sh}
	c := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Write a first workflow, with mocks, input and tests",
		Long: `Writes NAME.yaml, NAME.mocks.yaml, NAME.input.json and NAME.test.yaml. They are ready to run:
change them step by step. Without NAME the files are named after the pattern. NAME may
contain a folder, which is created. No file is overwritten without --force.

` + patternList(),
		Example: `  flunq init
  flunq init refund --from saga
  flunq init workflows/signup --from approval`,
		GroupID: cli.GroupDevelop,
		Args:    cli.AtMostOne("name"),
	}
	c.Flags().StringVar(&s.from, "from", "hello", "begin with `PATTERN`: "+cli.OneOf(patternNames()))
	c.Flags().BoolVar(&s.force, "force", false, "overwrite files that exist")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok && bare.GetFlag().Name == "from" {
			return cli.Misusef("--from needs a pattern\n%s", patternList())
		}
		return cli.FlagMisuse(c, err)
	})
	cli.Offer(c, "from", cli.NewChoice(patternNames()...))
	c.RunE = func(_ *cobra.Command, args []string) error { return s.run(strings.Join(args, "")) }
	return c
}

func patternNames() []string {
	var names []string
	for _, p := range patterns() {
		names = append(names, p.name)
	}
	return names
}

// patternList describes each pattern on a line.
func patternList() string {
	var out strings.Builder
	out.WriteString("The patterns:")
	for _, p := range patterns() {
		fmt.Fprintf(&out, "\n  %-9s %s", p.name, p.about)
	}
	return out.String()
}

func (s *starter) run(given string) error {
	at := slices.Index(patternNames(), s.from)
	if at < 0 {
		return cli.Misusef("there is no pattern %q%s\n%s", s.from, cli.DidYouMean(s.from, patternNames(), ""), patternList())
	}
	folder, name := filepath.Split(strings.TrimSuffix(given, ".yaml"))
	name = cmp.Or(name, s.from)
	if !dsl.IsName(name) {
		return cli.Misusef("init: no workflow can be named %q: want 1 to 63 letters, digits and hyphens, with no hyphen first or last", name)
	}
	e, err := workflows.Load(patterns()[at].example)
	if err != nil {
		return err
	}
	files := starterFiles(e, name)
	if err := s.check(folder, files); err != nil {
		return err
	}
	if err := write(folder, files); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Fprintln(s.sh.Out, cli.Printable(folder+f.name))
	}
	base := cli.Quote(folder + name)
	s.sh.Hint("\nnext:")
	for _, line := range [][2]string{
		{"run " + base + ".yaml", "run it with its mocks and its input"},
		{"test " + base + ".test.yaml", "run its tests"},
		{"sim " + base + ".yaml", "inject faults and search for failures"},
		{"help dsl", "learn the language"},
	} {
		s.sh.Hint("  %-*s  # %s", len("flunq test .test.yaml")+len(base), "flunq "+line[0], line[1])
	}
	return nil
}

// starterFile is a file that flunq init writes.
type starterFile struct {
	name string
	text []byte
}

// starterFiles returns the files of an example under another name. The output that the
// example's test reads from a file is part of the test.
func starterFiles(e workflows.Example, name string) []starterFile {
	renamed := func(text []byte, pairs ...string) []byte {
		return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
	}
	var output []string
	for line := range strings.Lines(string(e.Output)) {
		output = append(output, strings.TrimSpace(line))
	}
	return []starterFile{
		{name + ".yaml", renamed(e.Document, "\n  name: "+e.Name+"\n", "\n  name: "+name+"\n", "flunq run workflows/"+e.Name, "flunq run "+name)},
		{name + ".mocks.yaml", e.Mocks},
		{name + ".input.json", e.Input},
		{name + ".test.yaml", renamed(e.Test, `"@`+e.Name+`.output.json"`, strings.Join(output, " "), e.Name+".yaml", name+".yaml",
			e.Name+".mocks.yaml", name+".mocks.yaml", e.Name+".input.json", name+".input.json")},
	}
}

// check refuses to overwrite files without --force.
func (s *starter) check(folder string, files []starterFile) error {
	var there []string
	for _, f := range files {
		if _, err := os.Lstat(folder + f.name); err == nil {
			there = append(there, folder+f.name)
		}
	}
	if len(there) == 0 || s.force {
		return nil
	}
	verb := "exists"
	if len(there) > 1 {
		verb = "exist"
	}
	return cli.Misusef("%s %s, so nothing was written (--force overwrites)", strings.Join(there, ", "), verb)
}

func write(folder string, files []starterFile) error {
	if folder != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil { // sources, which a container or a colleague reads
			return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(folder, err))
		}
	}
	for _, f := range files {
		if err := os.WriteFile(folder+f.name, f.text, 0o644); err != nil {
			return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(folder+f.name, err))
		}
	}
	return nil
}
