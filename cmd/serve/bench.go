package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/bench"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// NewBenchCommand returns the command flunq bench.
func NewBenchCommand(sh *cli.Shell) *cobra.Command {
	b := &bencher{sh: sh, aof: cli.NewChoice("off", "everysec", "always")}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine against bare Redis commands",
		Long: `Measures the rates of the services and, beside each, the limit of this machine: the rate of
the bare commands, pipelined to the same Redis in the same run. The ratio is the rate as a
share of that limit; of times, sizes and costs it is the limit as a share of the figure.
Absolute figures differ between machines; ratios hardly do.

Without --redis-url it starts a redis-server on a free port, in a temporary folder. A Redis
given with --redis-url must be empty, unless --yes is given: the bench uses its own tenants,
bench-…, and removes what it has written. Other tenants' timers that come due meanwhile are
fired, as by any timer service.

The services have the settings of 'flunq serve'. They run in this process or, with
--processes, in processes of their own, tuned like 'flunq serve'. Ctrl-C prints the
results so far.

Scenarios:
` + scenarioLines(),
		Example: `  flunq bench
  flunq bench --only steps,latency --duration 10s
  flunq bench --aof everysec --processes 2 -o json > bench.json`,
		GroupID:           cli.GroupOperate,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	b.format = cli.OutputFlag(c, "table", "json")
	f := c.Flags()
	f.StringVar(&b.url, "redis-url", "", "use the Redis at `URL`: redis://host:port/db, redis-cluster://…, rediss://… or host:port (default: start one)")
	f.BoolVarP(&b.yes, "yes", "y", false, "accept a Redis that is not empty")
	f.Var(b.aof, "aof", "append-only file of the Redis that bench starts: off, everysec or always")
	f.StringSliceVar(&b.only, "only", nil, "measure only the scenarios in `LIST`, separated by commas")
	f.StringSliceVar(&b.kafka, "kafka", nil, "also fire scheduled events to the Kafka at `BROKERS`, in a topic of the bench's own")
	f.DurationVar(&b.duration, "duration", defaultDuration, "measure each for about `DURATION`")
	f.IntVar(&b.timers, "timers", defaultTimers, "use `N` pending timers in idle, and as many events in scheduler")
	f.IntVar(&b.processes, "processes", 0, "run the services in `N` separate processes")
	f.BoolVar(&b.quick, "quick", false, "use small numbers, to check that the bench works")
	f.StringVar(&b.profiles, "profile", "", "write a profile of each scenario to `FOLDER` (see go tool pprof)")
	f.BoolVar(&b.runServices, "run-services", false, "")
	_ = f.MarkHidden("run-services") // the flag is defined above
	cli.Offer(c, "aof", b.aof)
	cli.CompleteFlag(c, "only", cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) error { return b.run(c.Context()) }
	return c
}

const (
	defaultDuration = 3 * time.Second
	quickDuration   = 200 * time.Millisecond
	defaultTimers   = 1_000_000
	quickTimers     = 2000
)

// bencher is one run of flunq bench.
type bencher struct {
	sh          *cli.Shell
	format, aof *cli.Choice

	url, profiles           string
	only, kafka             []string
	duration                time.Duration
	timers, processes       int
	yes, quick, runServices bool
}

func scenarioLines() string {
	var b strings.Builder
	for _, sc := range bench.Scenarios() {
		fmt.Fprintf(&b, "    %-10s %s\n", sc.Name, sc.About)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func scenarioNames() (names []string) {
	for _, sc := range bench.Scenarios() {
		names = append(names, sc.Name)
	}
	return names
}

func (b *bencher) run(ctx context.Context) error {
	wire.Silence()
	services, err := b.services()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(b.sh.Err, nil))
	if b.runServices {
		b.sh.TuneForServing(ctx)
		return bench.RunServices(ctx, b.sh.In, b.sh.Out, services, log)
	}
	if err := b.check(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if b.url != "" {
		b.url = cli.WithPassword(b.sh, b.url)
	}
	url, stop, err := b.redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p := &benchProgress{sh: b.sh}
	report, err := bench.Run(ctx, bench.Options{
		URL: url, Own: b.url == "", Only: b.only, Duration: b.duration, Quick: b.quick, Timers: b.timers,
		Processes: b.processes, Engine: services, Command: []string{program, "bench", "--run-services"},
		Kafka: b.kafka, Profiles: b.profiles, Log: log, Progress: p.show,
	})
	p.end()
	return b.write(ctx, report, err)
}

// services returns the options of the engine from the settings.
func (b *bencher) services() (engine.Options, error) {
	set, err := cli.ReadSettings(b.sh)
	if err != nil {
		return engine.Options{}, err
	}
	opts := set.Engine(engine.Defaults())
	opts.Sweep = 0 // the sweep would leave a key behind
	opts.Version = cli.Version().Version
	opts.Retention = engine.DefaultRetention()
	return opts, nil
}

// check validates the flags and fills in the defaults.
func (b *bencher) check() error {
	if err := checkOnly(b.only, scenarioNames()); err != nil {
		return err
	}
	if b.quick && b.duration == defaultDuration {
		b.duration = quickDuration
	}
	if b.quick && b.timers == defaultTimers {
		b.timers = quickTimers
	}
	switch {
	case b.duration < 10*time.Millisecond || b.duration > time.Hour:
		return cli.Misusef("--duration %v: want 10ms to 1h", b.duration)
	case b.timers < 1 || b.timers > 100_000_000:
		return cli.Misusef("--timers %d: want 1 to 100000000", b.timers)
	case b.processes < 0 || b.processes > 64:
		return cli.Misusef("--processes %d: want 0 to 64", b.processes)
	case b.url != "" && b.aof.String() != "off":
		return cli.Misusef("--aof applies to the Redis that bench starts, not to --redis-url")
	}
	return nil
}

// redis returns the URL of the given Redis or of a redis-server that it starts.
func (b *bencher) redis(ctx context.Context) (url string, stop func(), err error) {
	if b.url != "" {
		return b.url, func() {}, b.empty(ctx)
	}
	fsync := b.aof.String()
	if fsync == "off" {
		fsync = ""
	}
	server, err := bench.Serve(ctx, fsync)
	if errors.Is(err, bench.ErrNoServer) {
		return "", nil, cli.Fail(cli.ExitUnreachable, err)
	}
	if err != nil {
		return "", nil, err
	}
	return server.URL, server.Close, nil
}

// empty returns an error if Redis contains keys and --yes is not given.
func (b *bencher) empty(ctx context.Context) error {
	rdb, err := cli.Dial(ctx, b.url)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	n, err := rdb.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count the keys: %w", err)
	}
	if n == 0 || b.yes {
		return nil
	}
	return cli.Misusef("%s is not empty: a bench would slow down its users\nname an empty database or use --yes; the bench removes everything that it writes", store.Redacted(b.url))
}

// write prints the results so far and returns an error if the bench did not finish.
func (b *bencher) write(ctx context.Context, report *bench.Report, err error) error {
	if report == nil {
		return err
	}
	if b.format.String() == "json" {
		err = errors.Join(cli.WriteJSON(b.sh.Out, report), err)
	} else {
		b.table(report)
	}
	if err != nil && ctx.Err() != nil {
		return cli.Fail(cli.ExitInterrupted, errors.New("interrupted: results so far"))
	}
	return err
}
