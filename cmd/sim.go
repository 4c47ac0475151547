package cmd

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

func newSimCommand(sh *shell) *cobra.Command {
	s := &searcher{sh: sh, simulation: runner{sh: sh, tenant: defaultTenant, maxSteps: simSteps}}
	c := &cobra.Command{
		Use:   "sim FILE",
		Short: "Search for runs in which something breaks",
		Long: `Runs a workflow many times while things go wrong: first without faults, then with
every single fault at every command that a service sends, then once for each seed with
random faults. The real engine runs each time, on processes that share the work, and
its promises are checked after every run: nothing lost, nothing done twice, no timer
early, every history gap-free. (With --faults none, and a document that does one thing
after the other, most runs have one process. Otherwise one seed of eight, and one single
fault of sixteen, runs the workflow in two tenants side by side, so at least twice.)

Runs are compared by their outcome: status, output, error, the calls that were carried
out (those that change something; repeated ones with the same Idempotency-Key count
once) and what mocks keep in the end. A difference between runs without faults is a
race. So is an update that is lost after a delay. A call that is carried out twice with
different keys, a call whose answer was lost and that is never taken back, and an
execution that waits for ever are failures of the workflow, too. What else depends on
a delay or a lost answer is a note. Ids, and what follows from the time at which a run
starts, are no difference.

Each finding is reduced to as few faults as it needs, and shown as a story or as two
runs side by side, with what to change and the command that repeats it. Calls are
answered by --mocks alone: without a mock for each call there is no search.

--expect is a jq expression that must be true of every execution. Its input is the
output; it can use $status, $error, $input, $requests (the calls that were carried out,
each with method, url, body, status, task, execution and key) and $kept (what mocks
keep in the end, by URL). Several executions (--executions) share what a mock keeps if
it says keep: {scope: shared, state: {…}}.

Faults: crash (a process dies and is started again), drop (a request to Redis or its
reply is lost), dup (an event comes twice), delay (a process stands still), stop (a
process is told to stop: it ends what it has begun, hands back the rest, and another
one comes after a while), outage (Redis is gone for a while), clock (its clock jumps
ahead), http (the answer of a call is lost). In one seed of eight there is more: operators
suspend, resume, cancel and retry, processes die of some message until it is given up,
or calls take longer than leases; --expect, --once and the hints are not about these.

Exit code 4: a failure was found. --allow-races and --allow-waiting make races and
executions that wait for ever notes. Exit code 7: the workflow does not end even without
faults.`,
		Example: `  flunq sim order.yaml --mocks order.mocks.yaml
  flunq sim order.yaml --mocks order.mocks.yaml --once 'POST https://pay.test/*'
  flunq sim order.yaml --input '{"n": 3}' --expect '.total == 6' --seeds 1:10000
  flunq sim order.yaml --mocks order.mocks.yaml --executions 3 \
    --expect '$kept["https://shop.example/stock"].n >= 0'
  flunq sim order.yaml --mocks order.mocks.yaml \
    --expect '[$requests[] | select(.url | test("/charges"))] | length == 1'
  flunq sim order.yaml --faults none       # races only
  flunq sim order.yaml --plan plan.json    # a failure again`,
		GroupID: groupDevelop,
		Args:    s.arguments,
	}
	s.format = outputFlag(c, "text", "json")
	s.simulationFlags(c)
	f := c.Flags()
	f.StringVar(&s.seeds, "seeds", "1000", "try the seeds `FROM:TO`, or this many")
	f.StringVar(&s.faults, "faults", "all", "inject these `KINDS` of faults: "+strings.Join(faultWords(), ", ")+"; all or none")
	f.IntVar(&s.executions, "executions", 1, "start the workflow `N` times at once")
	f.IntVar(&s.processes, "processes", 2, "let `N` processes share the work")
	f.Uint64Var(&s.rate, "rate", 200, "one fault of each kind in `N` commands")
	f.IntVar(&s.singles, "singles", 0, "try at most `N` single faults (default 5000)")
	f.DurationVar(&s.duration, "duration", 0, "stop after this much real time, as in 30s")
	f.IntVar(&s.parallel, "parallel", 0, "run `N` simulations at once (default: one for each core)")
	f.StringArrayVar(&s.expect, "expect", nil, "require `JQ` to be true of every execution; it sees $status, $error, $input, $requests, $kept (repeatable)")
	f.StringArrayVar(&s.once, "once", nil, "require that `CALL`, a method and a URL with *, reaches its service at most once per execution (repeatable)")
	f.StringVar(&s.test, "test", "", "use the tests in `FILE`: search with the input and mocks of each, expect its status, output, error and events")
	f.StringVar(&s.plan, "plan", "", "run only the plan in `FILE`, or this JSON")
	f.StringVar(&s.save, "save", "", "write the plans of failures to `DIR`")
	f.StringVar(&s.record, "record", "", "record the first failure to `FILE`")
	f.StringVar(&s.report, "report", "", "write an HTML report of what was found to `FILE`, with timelines")
	f.BoolVar(&s.failFast, "fail-fast", false, "stop at the first failure")
	f.BoolVar(&s.allowRaces, "allow-races", false, "report races of the workflow as notes")
	f.BoolVar(&s.allowWaiting, "allow-waiting", false, "report executions that wait for ever as notes")
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.limitSimulationMemory(c.Context())
		return s.run(c, args)
	}
	return c
}

// simSteps is how many tasks each execution of a run may start.
const simSteps = 20_000

// searcher is one run of the command.
type searcher struct {
	sh         *shell
	format     *choice
	simulation runner // that what the flags name is read for

	seeds, faults, test, plan, save, record string
	expect, once                            []string
	executions, processes                   int
	singles, parallel                       int
	rate                                    uint64
	duration                                time.Duration
	failFast, allowRaces, allowWaiting      bool

	commandLine string // the command line that a plan is put behind

	report, whole string // whole: the command line
	page          *reportFile
}

// simulationFlags are those that flunq run has, too.
func (s *searcher) simulationFlags(c *cobra.Command) {
	r, f := &s.simulation, c.Flags()
	f.StringVarP(&r.input, "input", "i", "", "the workflow's input: JSON, @FILE, or - for stdin")
	f.StringVar(&r.mocks, "mocks", "", "answer calls and send events as `FILE` says")
	f.StringVar(&r.secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.StringArrayVar(&r.with, "with", nil, "add the workflow in `FILE`, which this one runs (repeatable)")
	f.StringVar(&r.start, "start", "", "start the virtual clock at `TIME` (RFC 3339, default 2026-01-01T00:00:00Z)")
	f.StringVar(&r.maxTime, "max-time", "", "stop a run when more virtual time than this `DURATION` has passed (P30D, 12h)")
	f.StringVar(&r.example, "example", "", "search the example of this `NAME`; without a name, list them")
	f.Lookup("example").NoOptDefVal = listExamples
}

func (s *searcher) arguments(c *cobra.Command, args []string) error {
	return s.simulation.arguments(c, args)
}

// subject is one world to search, and what it is called.
type subject struct {
	name   string // of the test case; "" where there is none
	search search.Search
}

func (s *searcher) run(c *cobra.Command, args []string) error {
	if s.simulation.example == listExamples {
		s.simulation.format = s.format
		return s.simulation.list()
	}
	ctx := c.Context()
	s.commandLine, s.whole = repeatCommand(c, args), commandOf(c, args)
	base, err := s.base(ctx, args)
	if err != nil {
		return err
	}
	subjects, err := s.subjects(ctx, base)
	if err != nil {
		return err
	}
	if s.page, err = openReport(s.sh, s.report); err != nil {
		return err
	}
	defer s.page.discard()
	return s.all(ctx, subjects)
}

// base is the search that the flags describe.
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
		return base, misusef("sim: no file given")
	}
	s.simulation.later = s.test != ""
	cfg, err := s.simulation.config(ctx, args)
	if err != nil {
		return base, err
	}
	cfg.Seed, cfg.Transport, cfg.ID = 0, executor.NewTransport(localLimits()), ""
	cfg.Processes, cfg.Executions = s.processes, s.executions
	cfg.MaxTasks = simSteps * s.executions
	base.Config = cfg
	if base.Checks, err = s.checks(cfg); err == nil {
		base.Checks = append(base.Checks, s.known(cfg)...)
	}
	return base, err
}

func (s *searcher) numbers() error {
	for _, n := range []struct {
		flag      string
		got, most int
	}{{"executions", s.executions, 10_000}, {"processes", s.processes, 64}} {
		if n.got < 1 || n.got > n.most {
			return misusef("--%s is %d, want 1 to %d", n.flag, n.got, n.most)
		}
	}
	switch {
	case s.rate < 1:
		return misusef("--rate is 0, want 1 or more")
	case s.parallel < 0 || s.singles < 0 || s.duration < 0:
		return misusef("--parallel, --singles and --duration cannot be negative")
	default:
		return nil
	}
}

// endless is more seeds than anybody waits for.
const endless = math.MaxInt32

func (s *searcher) seedRange() (first, last uint64, err error) {
	bad := misusef("--seeds %q: want FROM:TO such as 1:10000, or how many", s.seeds)
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

// faultGroups are the words of --faults, and the kinds that each stands for.
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
			return nil, misusef("--faults %q: want %s%s", word, oneOf(words), didYouMean(word, words, ""))
		}
		out = append(out, kinds...)
	}
	return out, nil
}

// document is what was searched, for people.
func (s *searcher) document(def *dsl.Definition) document {
	if s.simulation.source.def == def {
		return s.simulation.source
	}
	return document{name: def.ID(), text: def.Source, def: def}
}
