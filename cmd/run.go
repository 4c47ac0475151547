package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/workflows"
)

func newRunCommand(sh *shell) *cobra.Command {
	r := &runner{sh: sh}
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a workflow to its end",
		Long: `Runs a workflow document (CNCF Serverless Workflow DSL 1.0, now the Open Workflow
Specification) through the whole engine, and prints its output.

Without --redis-url the engine runs inside this process, on an in-memory Redis and
a virtual clock: a wait of 30 days takes milliseconds, and the same document, input
and seed give the same bytes. Calls really go out unless --mocks answers them, take
the time they take, and carry idempotency keys of their own in each run.

The output goes to stdout and nothing else does; the timeline goes to stderr (-q: not
at all). FILE is YAML or JSON, "-" is stdin. Here and in all that flunq shows, charge[2]
attempt 3 is the third attempt at task charge in the turn of a loop whose $index is 2; in
nested loops and tries the outer one comes first (charge[0.2] attempt 1.3). The turns of a
loop made with then are counted likewise, from the second one on.

--tui shows the run on the whole terminal instead, as a film that begins to play: space
pauses (--paused: it begins so), n and p go to the next event and the one before, t and T to the timers, + and -
change the speed, [ and ] scrub. Where nothing happens for long, that is passed over. The
output is printed when the screen is left (q); a run that goes on until then is stopped.`,
		Example: `  flunq run order.yaml --input '{"order": 7}'
  flunq run order.yaml --input @order.json --mocks order.mocks.yaml -o json
  flunq run --example                  # lists what can be tried without a file
  flunq run --example reminder         # 30 days in milliseconds
  flunq run --example checkout --tui   # watch it
  flunq run order.yaml --redis-url redis://127.0.0.1:6379`,
		GroupID: groupOperate,
		Args:    r.arguments,
	}
	r.format = outputFlag(c, "pretty", "json", "yaml")
	f := c.Flags()
	f.StringVarP(&r.input, "input", "i", "", "the workflow's input: JSON, @FILE, or - for stdin")
	f.StringVar(&r.mocks, "mocks", "", "answer calls and send events as `FILE` says, instead of real services")
	f.StringVar(&r.secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.StringArrayVar(&r.with, "with", nil, "add the workflow in `FILE`, which this one runs (repeatable)")
	f.Uint64Var(&r.seed, "seed", 1, "derive the order of concurrent events from this `NUMBER`")
	f.StringVar(&r.start, "start", "", "start the virtual clock at `TIME` (RFC 3339), or now (default 2026-01-01T00:00:00Z)")
	f.StringVar(&r.id, "id", "", "id of the execution (default: derived from the seed, or random with --redis-url)")
	f.StringVar(&r.record, "record", "", "write the recording to `FILE`")
	f.StringVar(&r.report, "report", "", "write an HTML report to `FILE`: timeline, graph, data")
	f.BoolVar(&r.tui, "tui", false, "show the run on the whole terminal, where its time can be moved back and forth")
	f.BoolVar(&r.paused, "paused", false, "with --tui: begin at the first moment and stay there until space is pressed")
	f.BoolVar(&r.realTime, "real-time", false, "use the machine's clock")
	f.StringVar(&r.speed, "speed", "", "let virtual time pass `N` times as fast as real time, as in 60x")
	f.StringVar(&r.maxTime, "max-time", "", "stop when more virtual time than this `DURATION` has passed (P30D, 12h)")
	f.IntVar(&r.maxSteps, "max-steps", 200_000, "stop when more than `N` tasks were started (0: 1,000,000, where the workflow faults)")
	f.StringVar(&r.redis, "redis-url", "", "run on the Redis at this `URL` instead")
	f.StringVar(&r.tenant, "tenant", defaultTenant, "run it for the tenant of this `NAME`")
	f.StringVar(&r.example, "example", "", "run the example of this `NAME`, with its mocks and input; without a name, list them")
	f.Lookup("example").NoOptDefVal = listExamples
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.limitSimulationMemory(c.Context())
		r.commandLine = commandOf(c, args)
		return r.run(c.Context(), args)
	}
	return c
}

// defaultTenant is whom a workflow runs for.
const defaultTenant = "default"

// listExamples is the value of --example without a name.
const listExamples = "?"

// runner is one run of the command.
type runner struct {
	sh     *shell
	format *choice

	input, mocks, secrets, start, id, record string
	report, commandLine                      string // again: the command line
	speed, maxTime, redis, tenant, example   string
	with                                     []string
	seed                                     uint64
	maxSteps                                 int
	realTime, tui, paused                    bool

	source  document
	names   map[*dsl.Definition]string // of the files that the documents were read from
	later   bool                       // the secrets come later, from tests
	printed *report.Recording          // nil: nobody wants a report
	left    string                     // what becomes of an execution on a real Redis that has not ended
}

// document is a workflow document that was read, and where from.
type document struct {
	name string
	text []byte
	def  *dsl.Definition
}

func (r *runner) arguments(c *cobra.Command, args []string) error {
	if c.Flags().Changed("example") {
		// "--example reminder" reaches us as a bare flag and an argument.
		if r.example == listExamples && len(args) == 1 {
			r.example = args[0]
			return nil
		}
		return noArguments(c, args)
	}
	return oneArgument("file")(c, args)
}

func (r *runner) run(ctx context.Context, args []string) error {
	if r.example == listExamples {
		return r.list()
	}
	cfg, err := r.config(ctx, args)
	if err != nil {
		return err
	}
	page, err := r.openReport()
	if err != nil {
		return err
	}
	defer page.discard()
	line := newTimeline(r.sh, cfg.Start)
	line.add(cfg.Definition, cfg.With)
	line.on, line.real = line.on && !r.tui, r.redis != "" || r.realTime
	cfg.Observe, cfg.Missed = line.observe, line.missed
	began := time.Now()
	result, err := r.simulateOrRun(ctx, cfg)
	if err := errors.Join(err, r.writeReport(page, cfg)); err != nil {
		return err
	}
	line.end(result, time.Since(began))
	return r.finish(result)
}

// simulateOrRun runs the workflow here, or on a real Redis.
func (r *runner) simulateOrRun(ctx context.Context, cfg sim.Config) (*sim.Result, error) {
	if r.redis != "" {
		return r.onRedis(ctx, cfg)
	}
	if r.tui {
		return r.filmed(ctx, cfg)
	}
	if r.record == "" && r.printed == nil {
		return sim.Run(ctx, cfg)
	}
	return r.recorded(ctx, cfg)
}

// config reads everything that the flags name.
func (r *runner) config(ctx context.Context, args []string) (sim.Config, error) {
	cfg := sim.Config{
		Seed: r.seed, ID: r.id, Tenant: r.tenant, Version: version().Version, MaxTasks: r.maxSteps,
		Transport: executor.NewTransport(localLimits()),
	}
	documents := func(ctx context.Context, cfg *sim.Config) error { return r.readDocuments(ctx, cfg, args[0]) }
	if r.example != "" {
		documents = r.readExample
	}
	for _, read := range []func(context.Context, *sim.Config) error{
		r.checkNames, r.checkScreen, documents, r.readInput, r.readMocks, r.readSecrets, r.checkSecrets, r.readTimes,
	} {
		if err := read(ctx, &cfg); err != nil {
			return cfg, err
		}
	}
	if (cfg.Mocks == nil || cfg.Onward) && slices.ContainsFunc(append(cfg.With, cfg.Definition), calls) {
		// A service that is really called must not take the charge of one run for that of another.
		cfg.Nonce = rand.Text()
	}
	return cfg, nil
}

// calls reports whether a workflow calls anything.
func calls(def *dsl.Definition) bool {
	for _, t := range def.Tasks() {
		if t.Kind == dsl.Call {
			return true
		}
	}
	return false
}

// localLimits let calls reach the services on this machine and in its network,
// as a developer expects of a local run.
func localLimits() executor.Limits {
	limits := executor.DefaultLimits()
	limits.AllowPrivate, limits.AllowLoopback = true, true
	return limits
}

// listFor lists the examples for programs.
func (r *runner) listFor(format string) error {
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
	return writeValue(r.sh.Out, format, rows)
}

// list shows the examples.
func (r *runner) list() error {
	if format := r.format.String(); format == "json" || format == "yaml" {
		return r.listFor(format)
	}
	for _, name := range workflows.Names() {
		e, err := workflows.Load(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.sh.Out, "%-16s %s\n", name, strings.TrimSpace(e.Summary))
	}
	return nil
}
