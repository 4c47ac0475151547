package run

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// NewSimCommand returns the command flunq sim.
func NewSimCommand(sh *cli.Shell) *cobra.Command {
	s := &searcher{sh: sh, simulation: Runner{Sh: sh, tenant: cli.DefaultTenant, maxSteps: simSteps}}
	c := &cobra.Command{
		Use:   "sim [FILE]",
		Short: "Inject faults and search for runs that fail",
		Long: `Runs a workflow many times and injects faults: first without any, then with each single
fault at each command that a service sends, then once for each seed with random faults.
Every run uses the real engine, in several processes that share the work, and checks
its invariants afterwards: nothing lost, nothing done twice, no timer early, no gap in
a history. (With --faults none and a sequential document, most runs have one process.
Otherwise one seed in eight, and one single fault in sixteen, runs the workflow in two
tenants concurrently, so at least twice.) One seed in eight has the rules of a Redis
Cluster, where a script may only use the keys of one tenant.

Runs are compared by their outcome: status, output, error, the calls that were carried
out (those that change something; repeats with the same Idempotency-Key count once) and
what mocks keep at the end. A difference between runs without faults is a race. So is an
update that is lost after a delay. The workflow also fails if a call is carried out
twice with different keys, if a call whose response was lost is never compensated, or if an
execution waits forever. Anything else that depends on a delay or a lost response is a
note. Ids, and values derived from the start time of a run, are not compared.

Each finding is reduced to the faults it needs and shown as a story, or as two runs side
by side, with a suggested change and the command that repeats it. No call is really
made: sim needs a mock for each. FILE.mocks.yaml and FILE.input.json beside the document
are used as in 'flunq run'.

--expect is a jq expression that must be true of every execution. Its input is the
output; it can use $status, $error, $input, $requests (the calls that were carried out,
each with method, url, body, status, task, execution and key) and $kept (what mocks
keep in the end, by URL). Several executions (--executions) share what a mock keeps if
it declares keep: {scope: shared, state: {…}}.

Faults: crash (a process dies and restarts), drop (a request to Redis or its reply is
lost), dup (an event is delivered twice), delay (a process pauses), stop (a process is
asked to stop: it finishes what it has begun and releases the rest; another process
starts later), outage (Redis is unavailable for a while), clock (Redis' clock jumps
ahead), http (the response to a call is lost). One seed in eight adds more: operators
suspend, resume, cancel and retry, a message crashes its processes until it becomes a
dead letter, or calls outlast leases; --expect, --once and the hints do not apply there.

Exit code 4: a failure was found. --allow-races and --allow-waiting turn races and
executions that wait forever into notes. Exit code 7: the workflow does not end even
without faults.`,
		Example: `  flunq sim order.yaml
  flunq sim order.yaml --once 'POST https://pay.test/*'
  flunq sim order.yaml --input '{"n": 3}' --expect '.total == 6' --seeds 1:10000
  flunq sim order.yaml --executions 3 \
    --expect '$kept["https://shop.example/stock"].n >= 0'
  flunq sim order.yaml \
    --expect '[$requests[] | select(.url | test("/charges"))] | length == 1'
  flunq sim order.yaml --faults none       # races only
  flunq sim order.yaml --plan plan.json    # repeat a failure
  flunq sim --scheduler --seeds 10000      # the distributed scheduler
  flunq sim --bridge                       # the bridge to Kafka`,
		GroupID: cli.GroupDevelop,
		Args:    s.arguments,
	}
	s.format = cli.OutputFlag(c, "text", "json")
	s.simulationFlags(c)
	f := c.Flags()
	f.StringVar(&s.seeds, "seeds", "1000", "try the seeds `FROM:TO`, or this many")
	f.StringVar(&s.faults, "faults", "all", "inject only `KINDS` of faults: "+strings.Join(faultWords(), ", ")+"; all or none")
	cli.CompleteFlag(c, "faults", cobra.FixedCompletions(append(faultWords(), "all", "none"), cobra.ShellCompDirectiveNoFileComp))
	f.IntVar(&s.executions, "executions", 1, "start the workflow `N` times concurrently")
	f.IntVar(&s.processes, "processes", 2, "simulate `N` processes")
	f.Uint64Var(&s.rate, "rate", 200, "inject one fault of each kind in `N` commands")
	f.IntVar(&s.singles, "singles", 0, "try at most `N` single faults (default 5000)")
	f.DurationVar(&s.duration, "duration", 0, "stop after `DURATION` of real time, as in 30s")
	f.IntVar(&s.parallel, "parallel", 0, "run `N` simulations in parallel (default: one for each core)")
	f.StringArrayVar(&s.expect, "expect", nil, "require `JQ` to be true of every execution; it sees $status, $error, $input, $requests, $kept (repeatable)")
	f.StringArrayVar(&s.once, "once", nil, "require that `CALL`, a method and a URL with *, reaches its service at most once per execution (repeatable)")
	f.StringVar(&s.test, "test", "", "use the tests in `FILE`: search with the input and mocks of each, expect its status, output, error and events")
	f.StringVar(&s.plan, "plan", "", "run only the plan in `FILE`, or given as JSON")
	f.StringVar(&s.save, "save", "", "write the plans of failures and notes to `DIR`")
	f.Var(cli.WrittenFile{Name: &s.record}, "record", "record the first failure to `FILE`")
	f.Var(cli.WrittenFile{Name: &s.report}, "report", "write an HTML report of the findings, with timelines, to `FILE`")
	f.BoolVar(&s.scheduler, "scheduler", false, "search the distributed scheduler instead of a workflow")
	f.BoolVar(&s.bridge, "bridge", false, "search the bridge to Kafka instead of a workflow")
	f.BoolVar(&s.failFast, "fail-fast", false, "stop at the first failure")
	f.BoolVar(&s.allowRaces, "allow-races", false, "report races of the workflow as notes")
	f.BoolVar(&s.allowWaiting, "allow-waiting", false, "report executions that wait forever as notes")
	for _, flag := range []string{"seeds", "faults", "rate", "singles", "duration", "executions", "processes", "parallel", "fail-fast"} {
		cli.Exclude(c, "plan", flag)
	}
	for _, flag := range []string{"rate", "singles"} {
		cli.Exclude(c, "faults=none", flag)
	}
	for _, flag := range []string{"input", "mocks", "secrets", "start"} {
		cli.Exclude(c, "test", flag)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.LimitMemory(c.Context())
		if s.scheduler || s.bridge {
			return s.runScheduler(c)
		}
		return s.run(c, args)
	}
	return c
}

// simSteps is the maximum number of tasks that each execution of a run may start.
const simSteps = 20_000

// searcher is one run of the command.
type searcher struct {
	sh         *cli.Shell
	format     *cli.Choice
	simulation Runner // for the flags and files that it shares with run

	seeds, faults, test, plan, save, record string
	expect, once                            []string
	made                                    []func() bool // for each of once: whether there was such a call
	executions, processes                   int
	singles, parallel                       int
	rate                                    uint64
	duration                                time.Duration
	failFast, allowRaces, allowWaiting      bool
	scheduler, bridge                       bool

	repeatLine string // the command line without a plan, which repeat appends

	report, commandLine string // the command line, for the report
	page                ReportFile
}

// simulationFlags adds the flags that it shares with flunq run.
func (s *searcher) simulationFlags(c *cobra.Command) {
	r, f := &s.simulation, c.Flags()
	f.StringVarP(&r.Input, "input", "i", "", "start it with `INPUT`: JSON, @FILE, - for stdin, or none")
	f.StringVar(&r.Mocks, "mocks", "", "answer calls and send events as `FILE` says")
	f.StringVar(&r.Secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.StringArrayVar(&r.With, "with", nil, "add the workflow in `FILE` that this one runs (repeatable)")
	f.StringVar(&r.start, "start", "", "start the virtual clock at `TIME` (RFC 3339, default 2026-01-01T00:00:00Z)")
	f.StringVar(&r.maxTime, "max-time", "", "stop a run after `DURATION` of virtual time (30d, 12h, P1M)")
	f.StringVar(&r.example, "example", "", "search the example `NAME`; without a name, list them")
	offerExamples(c)
}

func (s *searcher) arguments(c *cobra.Command, args []string) error {
	if s.scheduler || s.bridge {
		return cli.NoArguments(c, args)
	}
	return s.simulation.arguments(c, args)
}

// subject is a simulation to search.
type subject struct {
	name   string // of the test; "" without --test
	search search.Search
}

func (s *searcher) run(c *cobra.Command, args []string) error {
	if s.simulation.example == listExamples {
		s.simulation.format = s.format
		return s.simulation.list()
	}
	ctx := c.Context()
	s.repeatLine, s.commandLine = repeatCommand(c, args), CommandOf(c, args)
	base, err := s.base(ctx, args)
	if err != nil {
		return err
	}
	subjects, err := s.subjects(ctx, base)
	if err != nil {
		return err
	}
	if s.page, err = OpenReport(s.sh, s.report); err != nil {
		return err
	}
	return s.all(ctx, subjects)
}

// base returns the search that the flags describe.
func (s *searcher) base(ctx context.Context, args []string) (search.Search, error) {
	base := search.Search{Rate: s.rate, Singles: s.singles, Parallel: s.parallel, FailFast: s.failFast, Allowed: s.allowed()}
	if err := s.numbers(); err != nil {
		return base, err
	}
	var err error
	if base.First, base.Last, err = s.seedRange(); err != nil {
		return base, err
	}
	if base.Kinds, err = faultKinds(s.faults); err != nil {
		return base, err
	}
	if s.simulation.example == "" && len(args) == 0 {
		return base, cli.Misusef("sim: no file given")
	}
	s.simulation.later = s.test != ""
	cfg, err := s.simulation.config(ctx, args)
	if err != nil {
		return base, err
	}
	cfg.Seed, cfg.Transport, cfg.ID = 0, httpcall.NewTransport(httpcall.AnyNetwork), ""
	cfg.Processes, cfg.Executions = s.processes, s.executions
	cfg.MaxTasks = simSteps * s.executions
	base.Config = cfg
	base.Checks, err = s.checks(cfg)
	return base, err
}

func (s *searcher) numbers() error {
	for _, n := range []struct {
		flag       string
		got, limit int
	}{{"executions", s.executions, 10_000}, {"processes", s.processes, 64}} {
		if n.got < 1 || n.got > n.limit {
			return cli.Misusef("--%s is %d, want 1 to %d", n.flag, n.got, n.limit)
		}
	}
	switch {
	case s.rate < 1:
		return cli.Misusef("--rate is 0, want 1 or more")
	case s.parallel < 0 || s.singles < 0 || s.duration < 0:
		return cli.Misusef("--parallel, --singles and --duration cannot be negative")
	default:
		return nil
	}
}

// endless is a number of seeds that no search completes.
const endless = math.MaxInt32

func (s *searcher) seedRange() (first, last uint64, err error) {
	bad := cli.Misusef("--seeds %q: want FROM:TO such as 1:10000, or a number of seeds", s.seeds)
	from, to, ranged := strings.Cut(s.seeds, ":")
	if !ranged {
		from, to = "1", from
	}
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	if errors.Join(err1, err2) != nil || last < first || last-first > endless {
		return 0, 0, bad
	}
	return first, last, nil
}

// faultGroups returns the kinds of faults that each word of --faults selects.
func faultGroups() map[string][]sim.FaultKind {
	return map[string][]sim.FaultKind{
		"crash": {sim.CrashBefore, sim.CrashAfter}, "drop": {sim.DropRequest, sim.DropReply}, "dup": {sim.Duplicate},
		"delay": {sim.Delay}, "stop": {sim.StopRequested}, "outage": {sim.Outage}, "clock": {sim.Clock}, "http": {sim.CallLost},
		"all": sim.Faults(), "none": {},
	}
}

func faultWords() []string {
	return []string{"crash", "drop", "dup", "delay", "stop", "outage", "http", "clock"}
}

func faultKinds(list string) ([]sim.FaultKind, error) {
	var out []sim.FaultKind
	for word := range strings.SplitSeq(list, ",") {
		kinds, ok := faultGroups()[strings.TrimSpace(word)]
		if !ok {
			words := append(faultWords(), "all", "none")
			return nil, cli.Misusef("--faults %q: want %s%s", word, cli.OneOf(words), cli.DidYouMean(word, words, ""))
		}
		out = append(out, kinds...)
	}
	return out, nil
}

// document returns the document of a definition.
func (s *searcher) document(def *dsl.Definition) cli.Document {
	if s.simulation.source.Def == def {
		return s.simulation.source
	}
	return cli.Document{Name: def.ID(), Text: def.Source, Def: def}
}
