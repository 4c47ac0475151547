package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// developer is one run of flunq dev.
type developer struct {
	sh    *cli.Shell
	clock *cli.Choice

	port                                                 int
	mocks, secrets, tenant, start, data, http, log, keep string
	clockGiven                                           bool
	scheduler                                            bool
	grpc                                                 string

	set   cli.Settings
	redis *dev.Redis
	rdb   wire.Redis
	state cli.DevState

	before cli.DevState // of the last flunq dev
	known  bool         // that one still runs

	scheduling *scheduling // nil: none
}

// devPort is the default port of flunq dev.
const devPort = 6380

// NewDevCommand returns the command flunq dev.
func NewDevCommand(sh *cli.Shell) *cobra.Command {
	d := &developer{sh: sh, clock: cli.NewChoice("real", "virtual")}
	c := &cobra.Command{
		Use:   "dev [FOLDER]",
		Short: "Run an engine for development, with its own Redis",
		Long: `Runs a whole engine in this process: miniredis on a loopback port, and the worker,
executor and timer services. Other commands find it without configuration. The workflow
documents of FOLDER (or a single one) are registered, and reregistered when they change. Calls
are really made, even to this machine and its network, unless --mocks answers them. For a
single document FILE.yaml it is FILE.mocks.yaml, if that exists.

With --clock virtual the clock runs at real speed until 'flunq clock advance 3d' moves it
three days ahead. It stops at every timer on the way, so nothing is skipped.

--data FILE keeps the data across restarts: it is saved every few seconds and at the end.
Ctrl-C stops the engine.

With --scheduler it also publishes events at the times that programs ask for over gRPC, on
127.0.0.1:50051. They follow the clock: an event that is due in 15 days is published by
'flunq clock advance 15d'.`,
		Example: `  flunq dev workflows/
  flunq dev workflows/ --clock virtual --start 2026-01-01T00:00:00Z
  flunq dev order.yaml --data dev.json --port 0
  flunq dev workflows/ --scheduler --clock virtual`,
		GroupID: cli.GroupOperate,
		Args:    cli.AtMostOne("folder"),
	}
	f := c.Flags()
	f.IntVar(&d.port, "port", devPort, "listen for Redis clients on `PORT` of 127.0.0.1; 0: any free port")
	f.StringVar(&d.mocks, "mocks", "", "answer calls as `FILE` says, instead of real services (none: call these)")
	f.StringVar(&d.secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.StringVar(&d.tenant, "tenant", cli.DefaultTenant, "register the documents for the tenant `NAME`")
	f.Var(d.clock, "clock", "real, or virtual (can be advanced)")
	f.StringVar(&d.start, "start", "", "start a virtual clock at `TIME` (RFC 3339; default: now)")
	f.Var(cli.WrittenFile{Name: &d.data}, "data", "keep all data in `FILE` across restarts")
	f.StringVar(&d.http, "http", "", "serve health checks and metrics on `ADDRESS` (default: none)")
	f.StringVar(&d.keep, "keep-finished", "", "remove executions `DURATION` after their end: 30d, 12h; 0: never (KEEP_FINISHED)")
	f.StringVar(&d.log, "log-level", "", "log the services at `LEVEL`: debug, info, warn or error (LOG_LEVEL)")
	f.BoolVar(&d.scheduler, "scheduler", false, "also run the event scheduler")
	f.StringVar(&d.grpc, "grpc", "", "answer gRPC calls of the scheduler on `ADDRESS` (SCHEDULER_GRPC)")
	cli.Offer(c, "clock", d.clock)
	cli.Require(c, "grpc", "scheduler")
	cli.Require(c, "start", "clock=virtual")
	cli.Offer(c, "log-level", logLevels())
	c.RunE = func(c *cobra.Command, args []string) error {
		d.clockGiven = c.Flags().Changed("clock")
		return d.run(c.Context(), args)
	}
	return c
}

func (d *developer) run(ctx context.Context, args []string) error {
	wire.Silence()
	opts, log, err := d.options(ctx)
	if err != nil {
		return err
	}
	docs := &documents{sh: d.sh, tenant: d.tenant, secrets: opts.Secrets, from: d.secrets}
	if len(args) == 1 {
		docs.folder = args[0]
		if mocks := cli.MocksBeside(docs.folder); d.mocks == "" && mocks != "" {
			d.mocks = mocks
			d.sh.Hint("using %s", cli.Printable(mocks))
		}
		if _, err := os.Stat(docs.folder); err != nil {
			return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(docs.folder, err))
		}
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.redis.Close()
	if opts.Transport, err = d.transport(ctx); err != nil {
		return err
	}
	if d.rdb, err = store.Dial(ctx, d.redis.URL()); err != nil {
		return err
	}
	defer func() { _ = d.rdb.Close() }()
	docs.store = store.New(d.rdb, store.Options{Secrets: opts.Secrets})
	if err := d.schedule(ctx, opts.Process, log); err != nil {
		return err
	}
	return d.live(ctx, opts, log, docs)
}

// schedule prepares the scheduler, if it is requested. It keeps everything in the Redis of this
// process, regardless of the settings.
func (d *developer) schedule(ctx context.Context, process string, log *slog.Logger) error {
	if !d.scheduler {
		return nil
	}
	set := d.set.Scheduler
	set.Records, set.Feed, set.Sink = cli.InRedis, cli.NoFeed, cli.InRedis
	if err := setBy("--grpc", d.grpc, cli.Address(&set.Address)); err != nil {
		return err
	}
	d.scheduling = &scheduling{set: set, process: process, tenant: d.tenant, log: log, dev: d.redis}
	return d.scheduling.bind(ctx)
}

// options returns the options of the engine, without its transport.
func (d *developer) options(ctx context.Context) (opts engine.Options, log *slog.Logger, err error) {
	if err := store.CheckTenant(d.tenant); err != nil {
		return opts, nil, cli.Fail(cli.ExitMisuse, fmt.Errorf("--tenant: %w", err))
	}
	if d.set, err = cli.ReadSettings(d.sh); err != nil {
		return opts, nil, err
	}
	if err := setBy("--log-level", d.log, cli.Level(&d.set.LogLevel)); err != nil {
		return opts, nil, err
	}
	if d.sh.Quiet {
		d.set.LogLevel = max(d.set.LogLevel, slog.LevelWarn)
	}
	opts = d.set.Engine(engine.Defaults())
	opts.Process, opts.Version = cli.ProcessName(), cli.Version().Version
	opts.Command, opts.Embedded = "dev", true
	opts.Tenants, opts.Discover = []string{d.tenant}, true
	if err := setBy("--keep-finished", d.keep, cli.Keeping(&d.set.KeepFinished)); err != nil {
		return opts, nil, err
	}
	opts.Retention = d.set.Retention()
	for _, r := range []*engine.Reading{&opts.Worker, &opts.Executor, &opts.Timer} {
		r.Block = min(r.Block, stopsWithin) // stopping waits for blocked reads
	}
	opts.Secrets, err = cli.ReadSecrets(ctx, d.sh, d.secrets)
	return opts, d.shortLog(), err
}

// stopsWithin is how long a blocked read may delay stopping.
const stopsWithin = 250 * time.Millisecond

// shortLog returns a log for an interactive terminal: its times have no date.
func (d *developer) shortLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(d.sh.Err, &slog.HandlerOptions{
		Level: d.set.LogLevel,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.String(slog.TimeKey, a.Value.Time().Format("15:04:05.000"))
			}
			return a
		},
	}))
}

// open starts the Redis.
func (d *developer) open(ctx context.Context) error {
	opts := dev.Options{Port: d.port, Data: d.data, Groups: []string{d.set.Worker.Group, d.set.Executor.Group, d.set.Timer.Group}}
	if d.port < 0 || d.port > 65535 {
		return cli.Misusef("--port %d: want 0 to 65535", d.port)
	}
	if d.clockGiven || d.start != "" {
		opts.Mode = dev.Mode(d.clock.String())
	}
	if d.start != "" && d.start != "now" {
		start, err := time.Parse(time.RFC3339Nano, d.start)
		if err != nil {
			return cli.Misusef("--start %q: want a time such as 2026-01-01T00:00:00Z, or now", d.start)
		}
		if err := dev.CheckTime(start); err != nil {
			return cli.Misusef("--start %q: %w", d.start, err)
		}
		opts.Start = start
	}
	before, known := cli.ReadDevState(d.sh)
	known = known && before.Answers(ctx)
	d.before, d.known = before, known
	var err error
	d.redis, err = dev.Open(ctx, opts)
	switch {
	case errors.Is(err, dev.ErrTaken) && known && before.URL == "redis://127.0.0.1:"+strconv.Itoa(d.port):
		return cli.Misusef("flunq dev (pid %d) is already running on %s: stop it or choose another --port (0: any)", before.PID, before.URL)
	case errors.Is(err, dev.ErrTaken):
		return cli.Misusef("--port %d: %v; choose another (0: any)", d.port, err)
	case err != nil:
		return cli.Fail(cli.ExitMisuse, err)
	}
	return nil
}

// transport returns the transport of calls: real or mocked.
func (d *developer) transport(ctx context.Context) (http.RoundTripper, error) {
	if d.mocks == "" || d.mocks == cli.None {
		return httpcall.Outward(httpcall.NewTransport(httpcall.AnyNetwork)), nil
	}
	mocks, err := cli.ReadMocks(ctx, d.sh, d.mocks)
	if err != nil {
		return nil, err
	}
	if len(mocks.Events) > 0 {
		d.sh.Hint("%s: its events are not sent; use 'flunq emit'", d.mocks)
	}
	return mocks.Transport(d.redis.Sleep, nil), nil
}

const (
	lookEvery = 500 * time.Millisecond // checks for changed documents
	saveEvery = 3 * time.Second        // saves of the data
)

// live runs the services until they stop. Meanwhile it registers changed documents and
// saves the data.
func (d *developer) live(ctx context.Context, opts engine.Options, log *slog.Logger, docs *documents) (err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- d.services(running, opts, log) }()
	d.announce()
	defer func() { d.state.Withdraw(context.WithoutCancel(ctx), d.sh, d.before) }()
	docs.look(ctx)
	looks, saves := time.NewTicker(lookEvery), time.NewTicker(saveEvery)
	defer looks.Stop()
	defer saves.Stop()
	for {
		select {
		case err := <-done:
			return errors.Join(err, d.redis.SaveAll(context.WithoutCancel(ctx)))
		case <-looks.C:
			docs.look(ctx)
		case <-saves.C:
			if err := d.redis.Save(ctx); err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "not saved", "err", err)
			}
		}
	}
}

// services runs the services until ctx ends.
func (d *developer) services(ctx context.Context, opts engine.Options, log *slog.Logger) error {
	p, err := listen(ctx, log, d.http, true)
	if err != nil {
		return err
	}
	defer p.close()
	return serve(ctx, served{rdb: d.rdb, opts: opts, log: log, probes: p, scheduling: d.scheduling})
}

// announce prints the address, and publishes it for other commands.
func (d *developer) announce() {
	c := d.redis.Clock()
	d.state = cli.DevState{URL: d.redis.URL(), PID: os.Getpid(), Started: c.Started, Clock: c.Mode, Tenant: d.tenant, Scheduler: d.scheduling.address()}
	unpublished := d.state.Write(d.sh)
	if d.known && unpublished == nil {
		d.sh.Hint("another flunq dev (pid %d) runs on %s: from now on commands use this one", d.before.PID, d.before.URL)
	}
	clock := "real"
	if c.Mode == dev.Virtual {
		clock = "virtual at " + cli.Moment(c.Now)
		if c.Paused {
			clock += ", paused"
		}
	}
	fmt.Fprintf(d.sh.Out, "flunq dev listens on %s (tenant %s, clock %s)\n", d.state.URL, d.tenant, clock)
	if d.scheduling != nil {
		fmt.Fprintf(d.sh.Out, "the scheduler answers gRPC on %s\n", d.state.Scheduler)
	}
	switch {
	case unpublished != nil:
		d.sh.Hint("%v: give them --redis-url %s", unpublished, d.state.URL)
	case c.Mode == dev.Virtual:
		d.sh.Hint("other commands find it: flunq ps, flunq clock advance 3d; Ctrl-C stops it")
	default:
		d.sh.Hint("other commands find it: flunq ps, flunq timers ls; Ctrl-C stops it")
	}
}
