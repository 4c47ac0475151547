package check

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/spec"
)

// NewTestCommand returns the command flunq test.
func NewTestCommand(sh *cli.Shell) *cobra.Command {
	t := &tester{sh: sh, coverage: cli.NewChoice("", "text", "html"), annotations: cli.NewChoice("auto", "github", "none"), read: readForTest, loaded: func(*testFile) {}}
	c := &cobra.Command{
		Use:   "test [PATH…]",
		Short: "Run the tests of workflows",
		Long: `Runs test files. Each case runs its workflow in the simulator, on a virtual clock and
without a network, and compares the result with what is expected.

PATH is a test file, or a folder, which is searched for *.test.yaml files (default:
the current folder). A test file is kept beside its workflow:

  workflow: order.yaml            # the default, by the test file's name
  mocks: order.mocks.yaml         # or inline; also input, secrets, seed, start:
  tests:                          # for all cases or in one
    - name: a declined card is retried the next day
      input: {order: 7}           # or "@FILE"
      mocks: {http: [{respond: [{status: 402}, {status: 200}]}]}
      expect:
        status: completed         # faulted, cancelled, waiting
        output: {paid: true}      # or part of it; "${ .sum > 3 }" must be true
        elapsed: P1D              # or "<= PT36H"
        tasks: [charge, wait, charge]
        requests: [{method: POST, url: "*/charge", times: 2}]

Further keys: error, events, with, seeds, until, network. A call that no mock answers
fails the case. Exit code: 0 if all cases pass, 4 if one fails, 5 if a test file or a
document is invalid, 2 if there are no tests.`,
		Example: `  flunq test
  flunq test workflows --run 'declined' -v
  flunq test --junit report.xml --coverage=html
  flunq test --update               # write actual results into the expectations`,
		GroupID: cli.GroupDevelop,
	}
	t.format = cli.OutputFlag(c, "text", "json", "jsonl")
	f := c.Flags()
	f.StringVar(&t.only, "run", "", "run only cases whose name matches `PATTERN`, a regular expression")
	f.IntVar(&t.parallel, "parallel", runtime.GOMAXPROCS(0), "run `N` cases in parallel")
	f.BoolVar(&t.failFast, "fail-fast", false, "stop at the first case that fails")
	f.BoolVarP(&t.verbose, "verbose", "v", false, "show every case with its timeline")
	f.BoolVar(&t.update, "update", false, "write the actual results into the expectations")
	f.BoolVar(&t.watch, "watch", false, "rerun the affected cases when a file changes, until interrupted")
	f.Var(cli.WrittenFile{Name: &t.junit}, "junit", "write a JUnit report to `FILE`")
	f.Var(t.annotations, "annotations", "annotate failures for CI: auto (where GITHUB_ACTIONS is true), github or none")
	cli.Offer(c, "annotations", t.annotations)
	f.Var(t.coverage, "coverage", "report what no case covers: text or html")
	f.Lookup("coverage").NoOptDefVal = "text"
	cli.Offer(c, "coverage", t.coverage)
	f.Var(cli.WrittenFile{Name: &t.coverageFile}, "coverage-file", "write the coverage to `FILE` (default: stdout for text, coverage.html for html)")
	cli.Require(c, "coverage-file", "coverage")
	cli.Exclude(c, "verbose", "output=json")
	cli.Exclude(c, "verbose", "output=jsonl")
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.LimitMemory(c.Context())
		return t.command(c.Context(), args)
	}
	return c
}

// tester is one run of the command.
type tester struct {
	sh                            *cli.Shell
	format, coverage, annotations *cli.Choice
	only, junit, coverageFile     string
	parallel                      int
	failFast, verbose             bool
	update, watch                 bool

	pattern *regexp.Regexp
	read    func(file string) ([]byte, error) // reads a file that a test needs
	loaded  func(*testFile)                   // called after a test file was read
}

func (t *tester) command(ctx context.Context, args []string) error {
	args = t.coverageWord(args)
	var err error
	if t.pattern, err = regexp.Compile(t.only); err != nil {
		return cli.Misusef("--run %q is not a regular expression: %v", t.only, err)
	}
	switch {
	case t.parallel < 1:
		return cli.Misusef("--parallel %d: want 1 or more", t.parallel)
	case t.watch && t.update:
		return cli.Misusef("--watch and --update exclude each other: each update would trigger a run")
	case t.coverage.String() == "text" && t.coverageFile == "" && t.format.String() == "jsonl":
		return cli.Misusef("--coverage and -o jsonl exclude each other: want -o json, or --coverage-file")
	case t.watch:
		return t.follow(ctx, args)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	b, err := t.batch(ctx, files)
	if err != nil {
		return err
	}
	return b.verdict()
}

// coverageWord handles "--coverage html", which pflag passes as a bare flag and an
// argument. It sets the flag and returns the remaining arguments.
func (t *tester) coverageWord(args []string) []string {
	if t.coverage.String() != "text" || len(args) == 0 || !slices.Contains(t.coverage.Words[1:], args[0]) {
		return args
	}
	if _, err := os.Stat(args[0]); err == nil {
		return args
	}
	t.coverage.Value = args[0]
	return args[1:]
}

// batch runs the cases of some test files and prints the results.
func (t *tester) batch(ctx context.Context, files []string) (*batch, error) {
	b := &batch{tester: t, began: time.Now(), reached: spec.NewCoverage()}
	b.base = sim.Config{Version: cli.Version().Version, Transport: httpcall.NewTransport(httpcall.AnyNetwork)}
	b.load(files)
	if err := b.run(ctx); err != nil {
		return b, err
	}
	for _, write := range []func() error{b.summarize, b.writeJUnit, b.writeCoverage} {
		if err := write(); err != nil {
			return b, err
		}
	}
	b.annotate()
	return b, nil
}

// verdict returns the error for the exit code.
func (b *batch) verdict() error {
	switch {
	case b.unread:
		return cli.Reported(cli.ExitMisuse)
	case b.count(invalid) > 0:
		return cli.Reported(cli.ExitInvalid)
	case b.count(broken) > 0:
		return cli.Reported(cli.ExitFailed)
	case b.count(failed) > 0:
		return cli.Reported(cli.ExitUnexpected)
	case b.count(passed)+b.count(updated) == 0 && b.only != "":
		return cli.Misusef("no test matches --run %q", b.only)
	case b.count(passed)+b.count(updated) == 0:
		return cli.Misusef("no tests in %s", history.Count(len(b.files), "file"))
	default:
		return nil
	}
}

// summarize prints the summary in the chosen format.
func (b *batch) summarize() error {
	switch {
	case b.format.String() == "json":
		return cli.WriteJSON(b.sh.Out, b.report())
	case b.format.String() == "jsonl", b.sh.Quiet && b.count(failed)+b.count(broken)+b.count(invalid) == 0:
		return nil
	}
	text := ""
	for _, o := range outcomes() {
		switch n := b.count(o); {
		case n == 0:
		case o == invalid:
			text += ", " + history.Count(n, "invalid file")
		default:
			text += fmt.Sprintf(", %s %s", history.Number(n), o)
		}
	}
	text = cmp.Or(text, ", no tests were run")
	style := cli.Green
	if b.count(failed)+b.count(broken)+b.count(invalid) > 0 {
		style = cli.Red
	}
	took := ""
	if b.sh.Terminal { // otherwise equal runs print equal bytes
		took = " in " + history.Duration(time.Since(b.began))
	}
	fmt.Fprintf(b.sh.Out, "%s in %s; %s of virtual time%s\n", cli.Paint(b.sh.OutColor(), style, text[2:]),
		history.Count(len(b.files), "file"), history.Duration(b.virtual()), took)
	return nil
}
