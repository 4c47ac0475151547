package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/bench"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

func newBenchCommand(sh *shell) *cobra.Command {
	b := &bencher{sh: sh, aof: newChoice("off", "everysec", "always")}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine, and what Redis alone can do",
		Long: `Measures what the services do in a second, and beside each figure the limit of this
machine: what the same Redis does in the same run when it is sent the bare commands in
pipelines. The ratio is the part of the limit that is reached; 1 is all of it. Absolute
figures differ from one machine to the next, ratios hardly do.

Without --redis-url a redis-server is started on a free port, in a temporary folder. A
Redis that is given has to be empty; with --yes one that is not is taken as well: the
bench works in tenants of its own, bench-…, and removes what it has written. Timers of
others that come due meanwhile are fired, as by any timer service.

The services run in this process, or with --processes in others, with the settings of
'flunq serve'. Ctrl-C prints what is known so far.

Scenarios:
` + scenarioLines(),
		Example: `  flunq bench
  flunq bench --only steps,latency --duration 10s
  flunq bench --aof everysec --processes 2 -o json > bench.json`,
		GroupID:           groupOperate,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	b.format = outputFlag(c, "table", "json")
	f := c.Flags()
	f.StringVar(&b.url, "redis-url", "", "use the Redis at `URL`: redis://host:port/db, rediss://… or host:port (default: start one)")
	f.BoolVarP(&b.yes, "yes", "y", false, "accept a Redis that is not empty")
	f.Var(b.aof, "aof", "append-only file of a Redis of the bench's own: off, everysec or always")
	f.StringSliceVar(&b.only, "only", nil, "measure only the scenarios in `LIST`, separated by commas")
	f.DurationVar(&b.duration, "duration", usualDuration, "how long each measurement takes, about")
	f.IntVar(&b.timers, "timers", 1_000_000, "use `N` pending timers in the scenario idle")
	f.IntVar(&b.processes, "processes", 0, "run the services in `N` processes of their own")
	f.BoolVar(&b.quick, "quick", false, "use small numbers, to check that everything works")
	f.StringVar(&b.profiles, "profile", "", "write a profile of each scenario to `FOLDER` (see go tool pprof)")
	f.BoolVar(&b.runServices, "crew", false, "")
	_ = f.MarkHidden("crew") // the flag is there
	offerScenarios(c)
	c.RunE = func(c *cobra.Command, _ []string) error { sh.swift(); return b.run(c.Context()) }
	return c
}

const (
	usualDuration = 3 * time.Second
	quickDuration = 200 * time.Millisecond
	quickTimers   = 2000
)

// bencher is one run of flunq bench.
type bencher struct {
	sh          *shell
	format, aof *choice

	url, profiles           string
	only                    []string
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

func offerScenarios(c *cobra.Command) {
	if err := c.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was not defined before: our mistake
	}
}

func (b *bencher) run(ctx context.Context) error {
	silence()
	services, err := b.services()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(b.sh.Err, nil))
	if b.runServices {
		return bench.RunServices(ctx, b.sh.In, b.sh.Out, services, log)
	}
	if err := b.check(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	url, stop, err := b.redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p := &benchProgress{sh: b.sh}
	report, err := bench.Run(ctx, bench.Options{
		URL: url, Own: b.url == "", Only: b.only, Duration: b.duration, Quick: b.quick, Timers: b.timers,
		Processes: b.processes, Engine: services, Command: []string{program, "bench", "--crew"},
		Profiles: b.profiles, Log: log, Progress: p.show,
	})
	p.end()
	return b.write(ctx, report, err)
}

// services are the options of the engine, as the settings say.
func (b *bencher) services() (engine.Options, error) {
	file, err := readConfig(b.sh)
	if err != nil {
		return engine.Options{}, err
	}
	set, _, err := loadSettings(b.sh, file)
	if err != nil {
		return engine.Options{}, err
	}
	opts := set.engine(engine.Defaults())
	opts.Sweep = 0 // it would leave a key
	opts.Version = version().Version
	opts.Retention = engine.DefaultRetention()
	return opts, nil
}

// check says what is wrong with the flags, and fills in what they leave open.
func (b *bencher) check() error {
	names := scenarioNames()
	for _, name := range b.only {
		if !slices.Contains(names, name) {
			return misusef("--only %q: want a list of %s%s", name, oneOf(names), didYouMean(name, names, ""))
		}
	}
	if b.quick && b.duration == usualDuration {
		b.duration = quickDuration
	}
	if b.quick {
		b.timers = min(b.timers, quickTimers)
	}
	switch {
	case b.duration < 10*time.Millisecond || b.duration > time.Hour:
		return misusef("--duration %v: want 10ms to 1h", b.duration)
	case b.timers < 1 || b.timers > 100_000_000:
		return misusef("--timers %d: want 1 to 100000000", b.timers)
	case b.processes < 0 || b.processes > 64:
		return misusef("--processes %d: want 0 to 64", b.processes)
	case b.url != "" && b.aof.String() != "off":
		return misusef("--aof is for a Redis of the bench's own, not for that of --redis-url")
	}
	return nil
}

// redis is where to measure: what was named, or one of the bench's own.
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
		return "", nil, fail(exitUnreachable, err)
	}
	if err != nil {
		return "", nil, err
	}
	return server.URL, server.Close, nil
}

// empty refuses a Redis in which something stands, unless that is wanted.
func (b *bencher) empty(ctx context.Context) error {
	rdb, err := store.Dial(ctx, b.url)
	if errors.Is(err, store.ErrUnreachable) {
		return fail(exitUnreachable, err)
	}
	if err != nil {
		return fail(exitMisuse, err)
	}
	defer func() { _ = rdb.Close() }()
	empty, err := bench.Empty(ctx, rdb)
	if err != nil || empty || b.yes {
		return err
	}
	return misusef("%s is not empty: a bench would slow down whoever uses it\nname an empty database, or say --yes: all that the bench writes is removed in the end", store.Redacted(b.url))
}

// write prints what is known, and says how it ended.
func (b *bencher) write(ctx context.Context, report *bench.Report, err error) error {
	if report == nil {
		return err
	}
	if b.format.String() == "json" {
		if report.Results == nil {
			report.Results = []bench.Result{}
		}
		err = errors.Join(writeJSON(b.sh.Out, report), err)
	} else {
		b.table(report)
	}
	if err != nil && ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted: what was known so far"))
	}
	return err
}
