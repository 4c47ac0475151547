// Package run contains the commands run and sim, which run a document once or under
// thousands of seeds.
//
// A document on its way from flunq run to the commit that starts its execution:
//
//	cmd/run/run.go                  Runner.run            parses the document, runs it and prints the result
//	                                Runner.config         reads the files that the flags name
//	                                Runner.readDocuments  reads the document, or the example
//	cmd/cli/document.go             LoadDocument          reads the file
//	                                ParseDocument         prints the mistakes
//	engine/dsl/parse.go             Parse                 parses the document into a Definition
//	sim/simulation.go               Run                   assembles an engine on a Redis in memory, and gives its services turns
//	                                simulation.launch     registers the Definition and starts an execution
//	engine/start.go                 Engine.Start          names the workflow
//	                                StartExecution        makes an ExecutionStarted
//	engine/store/execution.go       Store.Start           calls start.lua
//	engine/store/scripts/start.lua                        appends it to the stream of the workers
//
// The documentation of package engine continues with the worker that reads the event. With --redis-url,
// Runner.onRedis is in place of sim.Run: it does the same on a real Redis, where Engine.Run loops over
// the services.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/dsl"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/workflows"
)

// NewRunCommand returns the command flunq run.
func NewRunCommand(sh *cli.Shell) *cobra.Command {
	r := &Runner{Sh: sh}
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a workflow to its end",
		Long: `Runs a workflow document (CNCF Serverless Workflow DSL 1.0, now the Open Workflow
Specification) in a complete engine and prints its output.

Without --redis-url the engine runs inside this process, on miniredis and a virtual
clock: a wait of 30 days takes milliseconds, and the same document, input and seed give
the same bytes. Unless --mocks answers them, calls are really made, take real time, and
carry new idempotency keys in each run.

If FILE.mocks.yaml and FILE.input.json are beside FILE.yaml, they are the mocks and the
input. A flag replaces them; --mocks none and --input none leave them out.

--record-mocks FILE makes the calls that no mock answers, and writes the mocks of this run
and those calls to FILE: URL, status, headers, body and latency. Requests' headers, cookies
and tokens are left out; secrets in URLs become *, and *** elsewhere.

Only the output goes to stdout; the timeline goes to stderr (-q: none). FILE is YAML or
JSON, "-" is stdin. In all output, charge[2] attempt 3 is the third attempt at task charge
in the iteration of a loop whose $index is 2. In nested loops and tries the outer one
comes first (charge[0.2] attempt 1.3). Repetitions by a backward "then" are numbered in
the same way, starting with the second one.

--break TASK and --step stop before a task, show its input and context, and take commands
from stdin: step, continue, print EXPR (jq), break TASK, quit. No virtual time passes
meanwhile, and the task's call has not been made.

--tui plays the run in the terminal UI: space pauses (--paused: begin paused), n and p go
to the next and previous event, t and T to the timers, + and - change the speed, [ and ]
scrub. N steps to the next task, B sets or clears a breakpoint (--break), and > goes to
the next one; these stop the playback, while the run continues. Long idle periods are
skipped. q leaves the screen, stops a run that has not ended, and prints the output.`,
		Example: `  flunq run order.yaml --input '{"order": 7}'
  flunq run order.yaml --input @other.json --mocks none -o json
  flunq run order.yaml --record-mocks order.mocks.yaml
  flunq run --example                  # list the examples
  flunq run --example reminder         # 30 days in milliseconds
  flunq run --example checkout --tui   # watch it
  flunq run order.yaml --break charge  # stop before the task charge
  flunq run order.yaml --redis-url redis://127.0.0.1:6379`,
		GroupID: cli.GroupOperate,
		Args:    r.arguments,
	}
	r.format = cli.OutputFlag(c, "pretty", "json", "yaml")
	f := c.Flags()
	f.StringVarP(&r.Input, "input", "i", "", "start it with `INPUT`: JSON, @FILE, - for stdin, or none")
	f.StringVar(&r.Mocks, "mocks", "", "answer calls and send events as `FILE` says, instead of real services (none: call these)")
	f.StringVar(&r.Secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.StringArrayVar(&r.With, "with", nil, "add the workflow in `FILE` that this one runs (repeatable)")
	f.Uint64Var(&r.seed, "seed", 1, "derive the order of concurrent events from `NUMBER`")
	f.StringVar(&r.start, "start", "", "start the virtual clock at `TIME` (RFC 3339), or now (default 2026-01-01T00:00:00Z)")
	f.StringVar(&r.id, "id", "", "give the execution the `ID` (default: derived from the seed, or random with --redis-url)")
	f.Var(cli.WrittenFile{Name: &r.record}, "record", "write the recording to `FILE`")
	f.Var(cli.WrittenFile{Name: &r.recordMocks}, "record-mocks", "write mocks that repeat the responses of the real services to `FILE`")
	f.Var(cli.WrittenFile{Name: &r.report}, "report", "write an HTML report to `FILE`: timeline, graph, data")
	f.BoolVar(&r.tui, "tui", false, "play the run in the terminal UI, back and forth")
	f.BoolVar(&r.paused, "paused", false, "with --tui: begin paused, until space is pressed")
	f.StringArrayVar(&r.breaks, "break", nil, "stop before the task `TASK`, a name or a reference, and take commands (repeatable)")
	cli.CompleteFlag(c, "break", completeBreak)
	f.BoolVar(&r.step, "step", false, "stop before every task, and take commands")
	f.BoolVar(&r.realTime, "real-time", false, "use the clock of this machine")
	f.StringVar(&r.speed, "speed", "", "run the virtual clock `N` times as fast as real time, as in 60x")
	f.StringVar(&r.maxTime, "max-time", "", "stop after `DURATION` of virtual time (30d, 12h, P1M)")
	f.IntVar(&r.maxSteps, "max-steps", 200_000, "stop once more than `N` tasks have started (0: 1,000,000, where the workflow faults)")
	f.StringVar(&r.redis, "redis-url", "", "run on the Redis at `URL` instead")
	f.StringVar(&r.tenant, "tenant", cli.DefaultTenant, "run it for the tenant `NAME`")
	f.StringVar(&r.example, "example", "", "run the example `NAME`, with its mocks and input; without a name, list them")
	offerExamples(c)
	cli.Exclude(c, "real-time", "speed")
	cli.Require(c, "paused", "tui")
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.LimitMemory(c.Context())
		r.commandLine = CommandOf(c, args)
		return r.run(c.Context(), args)
	}
	return c
}

// listExamples is the value of --example without a name.
const listExamples = "?"

// offerExamples makes the name of --example optional, and the shell complete it. A name after a
// space is an argument to pflag.
func offerExamples(c *cobra.Command) {
	c.Flags().Lookup("example").NoOptDefVal = listExamples
	names := cobra.FixedCompletions(workflows.Names(), cobra.ShellCompDirectiveNoFileComp)
	cli.CompleteFlag(c, "example", names)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if c.Flags().Changed("example") && len(args) == 0 {
			return names(c, args, word)
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// Runner is one run of the command.
type Runner struct {
	Sh     *cli.Shell
	format *cli.Choice

	Input, Mocks, Secrets, start, id, record string
	report, commandLine                      string // the command line, for the report
	speed, maxTime, redis, tenant, example   string
	With                                     []string
	seed                                     uint64
	maxSteps                                 int
	realTime, tui, paused, step              bool
	breaks                                   []string

	file      string // that holds the document; "" for an example
	source    cli.Document
	documents []cli.Document    // source and those of --with
	later     bool              // tests provide the secrets, mocks and input later
	reported  *report.Recording // nil if no report is wanted

	recordMocks string
	mocksText   []byte         // of the mocks of this run
	recorder    *mock.Recorder // nil without --record-mocks

	left string // what happens to an execution on a real Redis that has not ended
}

func (r *Runner) arguments(c *cobra.Command, args []string) error {
	if c.Flags().Changed("example") {
		// pflag passes "--example reminder" as a bare flag and an argument.
		if r.example == listExamples && len(args) > 0 {
			r.example, args = args[0], args[1:]
		}
		if r.example == "" {
			return cli.Misusef("--example: the name is empty ('flunq run --example' lists the examples)")
		}
		return cli.NoArguments(c, args)
	}
	return cli.OneArgument("file")(c, args)
}

func (r *Runner) run(ctx context.Context, args []string) error {
	if r.example == listExamples {
		return r.list()
	}
	cfg, err := r.config(ctx, args)
	if err != nil {
		return err
	}
	page, err := OpenReport(r.Sh, r.report)
	if err != nil {
		return err
	}
	if r.report != "" {
		r.reported = report.NewRecording("")
	}
	line := NewTimeline(r.Sh, cfg.Start)
	line.Add(cfg.Definition, cfg.With)
	line.on, line.real = line.on && !r.tui, r.redis != "" || r.realTime
	cfg.Observe, cfg.Missed = line.Observe, line.missed
	debugged, end, err := r.debug(ctx, &cfg)
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	var result *sim.Result
	switch {
	case r.redis != "":
		result, err = r.onRedis(debugged, cfg)
	case r.tui:
		result, err = r.played(debugged, cfg)
	case r.reported != nil:
		result, err = recordTo(debugged, r.record, cfg, r.reported)
	case r.record != "":
		result, err = recordTo(debugged, r.record, cfg)
	default:
		result, err = sim.Run(debugged, cfg)
	}
	if err := errors.Join(err, r.writeReport(page, cfg)); err != nil {
		return err
	}
	line.end(result, time.Since(began))
	unwritten := r.writeMocks()
	if unwritten != nil { // the result is printed all the same
		r.Sh.Report(unwritten)
		unwritten = cli.Reported(cli.ExitCode(unwritten))
	}
	if err := r.finish(result); err != nil {
		return err
	}
	return unwritten
}

// config reads the files that the flags name.
func (r *Runner) config(ctx context.Context, args []string) (sim.Config, error) {
	cfg := sim.Config{
		Seed: r.seed, ID: r.id, Tenant: r.tenant, Version: cli.Version().Version, MaxTasks: r.maxSteps,
		Transport: httpcall.NewTransport(httpcall.AnyNetwork),
	}
	if r.example == "" {
		r.file = args[0]
	}
	for _, read := range []func(context.Context, *sim.Config) error{
		r.checkNames, r.checkScreen, r.checkDebug, r.readDocuments, r.ReadInput, r.ReadMocks, r.ReadSecrets, r.CheckSecrets, r.readTimes,
		r.prepareMocks,
	} {
		if err := read(ctx, &cfg); err != nil {
			return cfg, err
		}
	}
	if (cfg.Mocks == nil || cfg.Onward) && slices.ContainsFunc(append(cfg.With, cfg.Definition), calls) {
		// A real service must not mistake a request of this run for a repetition of another run's.
		cfg.Nonce = rand.Text()
	}
	return cfg, nil
}

// readDocuments reads and parses the document to run, or the example, and the documents of --with.
func (r *Runner) readDocuments(ctx context.Context, cfg *sim.Config) error {
	if r.example != "" {
		return r.readExample(ctx, cfg)
	}
	var err error
	if r.source, err = cli.LoadDocument(ctx, r.Sh, r.file); err != nil {
		return err
	}
	r.documents, cfg.Definition = append(r.documents, r.source), r.source.Def
	r.useFilesBeside(r.file)
	return r.ReadWith(ctx, cfg)
}

// calls reports whether a workflow contains calls.
func calls(def *dsl.Definition) bool {
	return sim.HasTask(def, func(t *dsl.Task) bool { return t.Kind == dsl.Call })
}

// list prints the examples.
func (r *Runner) list() error {
	type row struct {
		Name    string `json:"name"`
		Summary string `json:"summary"`
	}
	var rows []row
	for _, name := range workflows.Names() {
		e, err := workflows.Load(name)
		if err != nil {
			return err
		}
		rows = append(rows, row{name, strings.TrimSpace(e.Summary)})
	}
	return cli.Show(r.Sh, r.format, rows, func() {
		for _, row := range rows {
			fmt.Fprintf(r.Sh.Out, "%-16s %s\n", row.Name, row.Summary)
		}
	})
}

// completeBreak completes the tasks of the document that the command names.
func completeBreak(_ *cobra.Command, files []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(files) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	text, _ := os.ReadFile(files[0]) // a file that cannot be read has no tasks
	return cli.StoredDocument(files[0], string(text)).CompletionWords(), cobra.ShellCompDirectiveNoFileComp
}
