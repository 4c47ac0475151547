// Package serve contains the commands that run an engine, serve, dev and bench, and those that ask a
// running one: health and clock.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/executor/breaker"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/telemetry"
	"flunq.io/flunq/engine/telemetry/otlp"
)

// NewServeCommand returns the command flunq serve.
func NewServeCommand(sh *cli.Shell) *cobra.Command {
	s := &server{sh: sh}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the services against a real Redis",
		Long: `Runs the worker, the executor and the timer service in one process, or some of them with
--only. Any number of processes on any number of machines share the work through the
consumer groups of one Redis. If one dies, the others take over.

Without --tenant it serves all tenants that it finds in Redis, except those whose names
begin with "private.": these need a process that names them. While Redis is unavailable
it waits. SIGTERM and Ctrl-C stop it, even if Redis hangs: it reads nothing new, finishes
running work within seconds, and releases messages that it has not begun to handle.

The user of Redis needs these permissions (ACL SETUSER):
  ~flunq:* ~tenant:* ~scheduler:* +@all -@dangerous +info +config|get

Settings come from flags, then the environment, then the configuration file; 'flunq config
show' lists them with their values. Some defaults differ from flunq.io's documentation:
events of dead consumers are claimed (…_RECLAIM_ENABLED is true), events are read in batches
of 100 (…_STREAM_BATCH), there is a worker for each core, and 16 tasks of one tenant run
concurrently (EXECUTOR_CONCURRENCY), however many hang; 'flunq config show -o json' names
the others. 'flunq help limits' lists the limits of a process.

Ended executions are kept forever, unless --keep-finished (KEEP_FINISHED) limits how long
or KEEP_FINISHED_COUNT limits how many of each tenant. Then the processes remove them and
their histories, a few at a time. An execution that is retried or whose parent is running
stays. Use the same settings in every process.

With --scheduler it also publishes events at the times that other programs ask for over
gRPC, on 127.0.0.1:50051 ('flunq schedule' is a client). --only scheduler runs nothing else,
--only scheduler-api, scheduler-consumer or scheduler-worker runs a part of it. The configuration
of the documented scheduler service is read unchanged with --scheduler-config, and so are
its variables CONFIG_PATH and APP_MODE (api, consumer or worker).

With EVENT_STREAM_TYPE=kafka or nats it is also a bridge: it publishes the events of tenants
there and takes events in ('flunq help bridge'). --only bridge runs nothing else; with --only
worker,timer,bridge other programs perform the tasks.

On --http: /health, /healthz, /readyz, /api/health/worker and /metrics (Prometheus).`,
		Example: `  flunq serve --redis-url redis://redis.internal:6379
  flunq serve --only timer --http 0.0.0.0:8080
  flunq serve --keep-finished 30d
  flunq serve --only scheduler --grpc 0.0.0.0:50051
  EXECUTOR_CONCURRENCY=64 flunq serve --log-format json --tenant acme`,
		GroupID: cli.GroupOperate,
		Args:    cli.NoArguments,
	}
	s.target = cli.TargetFlags(c, sh)
	f := c.Flags()
	f.StringSliceVar(&s.only, "only", nil, "run only the services in `LIST`: worker, executor, timer, bridge, scheduler, or parts of it: scheduler-api, scheduler-consumer, scheduler-worker")
	f.BoolVar(&s.scheduler, "scheduler", false, "also run the event scheduler (SCHEDULER_ENABLED)")
	f.StringVar(&s.schedulerConfig, "scheduler-config", "", "run the scheduler, with the settings of the documented scheduler service in `FILE` (CONFIG_PATH)")
	f.StringVar(&s.grpc, "grpc", "", "answer gRPC calls of the scheduler on `ADDRESS` (SCHEDULER_GRPC)")
	f.StringVar(&s.http, "http", cli.DefaultHTTP, "serve health checks and metrics on `ADDRESS` (HTTP_ADDRESS; empty: none)")
	f.StringVar(&s.secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.BoolVar(&s.private, "allow-private", false, "let calls reach private networks and this machine")
	f.StringVar(&s.keep, "keep-finished", "", "remove executions `DURATION` after their end: 30d, 12h; 0: never (KEEP_FINISHED)")
	f.StringVar(&s.logLevel, "log-level", "", "log at `LEVEL`: debug, info, warn or error (LOG_LEVEL)")
	f.StringVar(&s.logFormat, "log-format", "", "log as `FORMAT`: text or json (LOG_FORMAT)")
	cli.CompleteFlag(c, "only", cobra.FixedCompletions(services(), cobra.ShellCompDirectiveNoFileComp))
	cli.Offer(c, "log-level", logLevels())
	cli.Offer(c, "log-format", cli.NewChoice("text", "json"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		sh.TuneForServing(c.Context())
		s.httpGiven = c.Flags().Changed("http")
		return s.run(c.Context())
	}
	return c
}

// server is one run of the command.
type server struct {
	sh        *cli.Shell
	target    *cli.Target
	only      []string
	http      string
	httpGiven bool
	secrets   string
	private   bool

	scheduler             bool
	schedulerConfig, grpc string

	logLevel, logFormat, keep string
}

// services returns the names that --only knows.
func services() []string {
	return []string{"worker", "executor", "timer", bridgeService, wholeScheduler, schedulerAPI, schedulerConsumer, schedulerWorker}
}

func (s *server) run(ctx context.Context) error {
	if err := checkOnly(s.only, services()); err != nil {
		return err
	}
	set, err := s.settings()
	if err != nil {
		return err
	}
	if !s.httpGiven {
		s.http, s.httpGiven = set.HTTP, set.HTTP != cli.DefaultHTTP
	}
	log, err := newLog(s.sh, set, s.logLevel, s.logFormat)
	if err != nil {
		return err
	}
	process := cli.ProcessName()
	out, err := otlp.Open(ctx, otlp.Options{Env: s.sh.Env, Version: cli.Version().Version, Process: process, Log: log})
	if err != nil {
		return cli.Misusef("%v", err)
	}
	log = out.Log(log)
	p, err := listen(ctx, log, s.http, s.httpGiven)
	if err != nil {
		return err
	}
	defer p.close()
	if s.target.Scheduler != nil {
		for _, warning := range s.target.Scheduler.Warnings {
			log.WarnContext(ctx, "setting without effect", "setting", warning)
		}
	} else if path := s.sh.Env("CONFIG_PATH"); path != "" {
		log.WarnContext(ctx, "setting without effect", "setting", "CONFIG_PATH="+path+" has no effect without --scheduler, SCHEDULER_ENABLED=true or APP_MODE=api, consumer or worker")
	}
	r, err := s.await(ctx, log)
	if err != nil || r == nil {
		return err
	}
	defer r.Close()
	opts, err := s.options(ctx, set)
	if err != nil {
		return err
	}
	opts.Process = process
	if opts.Discover = s.allTenants(r); !opts.Discover {
		opts.Tenants = []string{r.Tenant}
	}
	bridging, err := s.bridging(set, r.Tenant, opts.Secrets)
	if err != nil {
		return err
	}
	scheduling := s.scheduling(set, process, r.Tenant, log)
	if opts.Workers+opts.Executors+opts.Timers == 0 && bridging == nil {
		if scheduling == nil {
			return cli.Misusef("there is nothing to run, because the concurrency of the services is 0: raise WORKER_CONCURRENCY, EXECUTOR_CONCURRENCY or TIMER_CONCURRENCY")
		}
		scheduling.alone = true
		opts.Tenants, opts.Discover, opts.Retention, opts.Sweep = []string{r.Tenant}, false, engine.Retention{}, 0
	}
	return serve(ctx, served{
		rdb: r.Redis, opts: opts, log: log, probes: p,
		intervals:  telemetry.Intervals{Health: set.HealthEvery, Metrics: set.MetricsEvery},
		scheduling: scheduling, bridging: bridging, out: out,
	})
}

// checkOnly checks the words that --only gives.
func checkOnly(given, known []string) error {
	for _, name := range given {
		if !slices.Contains(known, name) {
			return cli.Misusef("--only %q: want a list of %s%s", name, cli.OneOf(known), cli.DidYouMean(name, known, ""))
		}
	}
	return nil
}

// setBy sets a setting to the value of a flag, if that is given.
func setBy(flag, text string, setting interface{ Set(text string) error }) error {
	if text == "" {
		return nil
	}
	if err := setting.Set(text); err != nil {
		return cli.Misusef("%s %q: %v", flag, text, err)
	}
	return nil
}

// settings reads the settings, and which services to run.
func (s *server) settings() (set cli.Settings, err error) {
	named := slices.ContainsFunc(s.only, func(name string) bool { return strings.HasPrefix(name, wholeScheduler) })
	file, err := cli.ReadConfig(s.sh)
	if err != nil {
		return set, err
	}
	if file.Scheduler, err = cli.SchedulerConfig(s.sh, s.schedulerConfig, s.scheduler || named); err != nil {
		return set, err
	}
	s.target.Scheduler = file.Scheduler
	if set, _, err = cli.LoadSettings(s.sh, file); err != nil {
		return set, err
	}
	if err := setBy("--grpc", s.grpc, cli.Address(&set.Scheduler.Address)); err != nil {
		return set, err
	}
	switch {
	case len(s.only) > 0 && !named && (s.scheduler || s.schedulerConfig != ""):
		flag := "--scheduler"
		if !s.scheduler {
			flag = "--scheduler-config"
		}
		return set, cli.Misusef("--only %s leaves out the scheduler: name %s too, or leave out %s", strings.Join(s.only, ","), wholeScheduler, flag)
	case len(s.only) > 0:
		s.scheduler = named
	case s.scheduler || set.Scheduler.Enabled:
		s.scheduler = true
		mode, err := cli.SchedulerMode(s.sh)
		if err != nil {
			return set, err
		}
		if mode != "" {
			s.only = []string{wholeScheduler + "-" + mode}
		}
	}
	if s.grpc != "" && !s.scheduler {
		return set, cli.Misusef("--grpc requires --scheduler")
	}
	return set, setBy("--keep-finished", s.keep, cli.Keeping(&set.KeepFinished))
}

// scheduling returns the scheduler that the process runs; nil if it runs none.
func (s *server) scheduling(set cli.Settings, process, tenant string, log *slog.Logger) *scheduling {
	if !s.scheduler {
		return nil
	}
	parts := slices.DeleteFunc(slices.Clone(s.only), func(name string) bool { return !strings.HasPrefix(name, wholeScheduler) })
	return &scheduling{set: set.Scheduler, parts: parts, process: process, tenant: tenant, percent: set.RedisPercent, log: log}
}

// await connects to Redis and retries while it is unavailable. It returns nil if ctx ends
// first.
func (s *server) await(ctx context.Context, log *slog.Logger) (r *cli.Remote, err error) {
	waits := func(err error) { log.WarnContext(ctx, "waiting for Redis", "err", err) }
	err = retry(ctx, store.Unavailable, waits, func() (err error) {
		if r, err = s.target.Connect(ctx); err != nil {
			return err
		}
		if err = r.Store.CheckServer(ctx); err == nil {
			err = s.reach(ctx, r)
		}
		if err != nil {
			r.Close()
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil //nolint:nilerr // the process was stopped
	case err != nil:
		return nil, err
	}
	s.warnOfAddress(ctx, log, r)
	if !r.Store.Clustered() {
		return r, nil
	}
	if writable, all, err := store.WritableMasters(ctx, r.Store); err == nil && writable < all {
		log.WarnContext(ctx, "not every master of the Redis Cluster answers and accepts writes: the tenants of the others wait; once they are back, check them with 'flunq doctor'",
			"masters", all, "writable", writable)
	}
	return r, nil
}

// reach returns an error unless Redis says which tenants there are, on a cluster at least some of them,
// or, if only one is served, its master answers.
func (s *server) reach(ctx context.Context, r *cli.Remote) error {
	if !s.allTenants(r) {
		_, err := r.Store.NowOf(ctx, r.Tenant)
		return err
	}
	some, err := store.Reachable(ctx, r.Store, "streams")
	if len(some) > 0 {
		return nil
	}
	return err
}

// retry calls try until it succeeds, ctx ends, or unavailable returns false for its error. It
// calls waits with the error at first and then every 30 seconds.
func retry(ctx context.Context, unavailable func(error) bool, waits func(error), try func() error) error {
	const pause, rounds = 2 * time.Second, 15
	for n := 0; ; n++ {
		err := try()
		if err == nil || !unavailable(err) || ctx.Err() != nil {
			return err
		}
		if n%rounds == 0 {
			waits(err)
		}
		if err := cli.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// warnOfAddress logs a warning if others can read the connection.
func (s *server) warnOfAddress(ctx context.Context, log *slog.Logger, r *cli.Remote) {
	to, ok := wire.EndpointOf(r.Redis)
	if !ok {
		return
	}
	host, _, _ := net.SplitHostPort(to.Address) // "" of a Sentinel client
	local := host == "" || loopback(host) || to.Network == "unix"
	switch {
	case to.TLS != nil && to.TLS.InsecureSkipVerify:
		log.WarnContext(ctx, "the certificate of Redis is not verified (skip_verify): anyone in between can read and change all data")
	case to.TLS == nil && !local:
		log.WarnContext(ctx, "the connection to Redis leaves this machine unencrypted: use rediss://", "host", host)
	}
}

// loopback reports whether only this machine can reach a host.
func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// allTenants reports whether all tenants are served, not one.
func (s *server) allTenants(r *cli.Remote) bool {
	return s.target.Tenant == "" && r.Tenant == cli.DefaultTenant
}

// options returns the options of the engine from the settings and flags.
func (s *server) options(ctx context.Context, set cli.Settings) (engine.Options, error) {
	opts := set.Engine(engine.Defaults())
	opts.Command = "serve"
	opts.Version = cli.Version().Version
	opts.Retention = set.Retention()
	breakers := breaker.Defaults()
	breakers.Failures, breakers.Open = set.BreakerFailures, set.BreakerOpen
	var err error
	if opts.Breakers, err = breaker.New(breakers); err != nil {
		return opts, err
	}
	opts.Transport = httpcall.Outward(httpcall.LimitHosts(httpcall.NewTransport(httpcall.Network(s.private)), set.PerHost))
	for name, n := range map[string]*int{"worker": &opts.Workers, "executor": &opts.Executors, "timer": &opts.Timers} {
		if len(s.only) > 0 && !slices.Contains(s.only, name) {
			*n = 0
		}
	}
	opts.BridgeGroup, opts.Lifecycle = set.BridgeGroup(), set.Lifecycle()
	opts.OutsideExecutors = opts.BridgeGroup != "" && opts.Executors == 0
	opts.Secrets, err = cli.ReadSecrets(ctx, s.sh, s.secrets)
	return opts, err
}

func logLevels() *cli.Choice { return cli.NewChoice("debug", "info", "warn", "error") }

// newLog returns the logger of the services, which writes to stderr.
func newLog(sh *cli.Shell, set cli.Settings, level, format string) (*slog.Logger, error) {
	if err := setBy("--log-level", level, cli.Level(&set.LogLevel)); err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: set.LogLevel}
	switch format = cmp.Or(format, set.LogFormat); format {
	case "", "text":
		return slog.New(slog.NewTextHandler(sh.Err, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(sh.Err, opts)), nil
	default:
		return nil, cli.Misusef("--log-format %q: want text or json", format)
	}
}

// served is a process that runs services.
type served struct {
	rdb    wire.Redis
	opts   engine.Options
	log    *slog.Logger
	probes *probes

	intervals telemetry.Intervals // zero: no telemetry

	scheduling *scheduling    // nil: none
	bridging   *bridging      // nil: none
	out        *otlp.Exporter // nil: nothing is sent
}

// serve runs the services and answers health checks until ctx ends.
func serve(ctx context.Context, s served) (err error) {
	defer s.out.Close(ctx)
	registry := prometheus.NewRegistry()
	watch := telemetry.New(s.log, registry)
	s.opts.Activity = watch.Observe
	if s.bridging != nil {
		if s.opts.Bridge, err = s.bridging.open(s.rdb, telemetry.NewBridge(s.log, registry), s.log); err != nil {
			return err
		}
		defer s.bridging.close()
	}
	if s.out.Traced() {
		s.opts.Observe, s.opts.Trace = s.out.Observe, s.out.Parent
	}
	e, err := engine.New(s.rdb, s.opts)
	if err != nil {
		return err
	}
	s.out.Trace(ctx, e.Store)
	registry.MustRegister(telemetry.Depth(e, s.log), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.scheduling != nil {
		defer s.scheduling.close()
		if err := s.scheduling.open(ctx, s.rdb, registry); err != nil && ctx.Err() != nil {
			return nil // the process was stopped
		} else if err != nil {
			return err
		}
	}
	s.out.Metrics(ctx, registry)
	s.probes.handle(watch.Handler(e, registry))
	s.log.InfoContext(ctx, "serving", "process", s.opts.Process, "workers", s.opts.Workers, "executors", s.opts.Executors,
		"timers", s.opts.Timers, "bridge", s.opts.Bridge != nil, "tenants", s.opts.Tenants, "all_tenants", s.opts.Discover, "http", s.probes.address, "grpc", s.scheduling.address())
	if leases := otherLeases(ctx, e.Store, s.opts.Lease); len(leases) > 0 {
		s.log.WarnContext(ctx, "other processes have a different LEASE: one with a shorter lease repeats calls that another is still making; set the same value everywhere",
			"lease", s.opts.Lease.String(), "others", leases)
	}
	if s.intervals != (telemetry.Intervals{}) {
		go watch.Report(ctx, e, s.intervals)
	}
	ended := make(chan struct{})
	go closeHanging(ctx, s.rdb, ended)
	err = s.run(ctx, e)
	close(ended)
	if ctx.Err() != nil && (errors.Is(err, redis.ErrClosed) || errors.Is(err, store.ErrUnreachable)) {
		s.log.WarnContext(context.WithoutCancel(ctx), "stopped while Redis did not respond: other processes will claim the unfinished work", "err", err)
		err = nil
	}
	s.log.InfoContext(context.WithoutCancel(ctx), "stopped", "process", s.opts.Process)
	return err
}

// run runs the engine and the scheduler until ctx ends or one of them cannot run.
func (s served) run(ctx context.Context, e *engine.Engine) error {
	if s.scheduling == nil {
		return e.Run(ctx, s.log)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scheduled := make(chan error, 1)
	go func() {
		defer cancel()
		scheduled <- s.scheduling.run(ctx)
	}()
	err := e.Run(ctx, s.log)
	cancel()
	return errors.Join(err, <-scheduled)
}

// closeHanging closes the connections to a Redis that hangs while the process stops, since
// pending reads would wait for it. Other processes claim the unfinished work.
func closeHanging(ctx context.Context, rdb wire.Redis, ended <-chan struct{}) {
	const grace, answer = 3 * time.Second, time.Second
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	ctx = context.WithoutCancel(ctx)
	for {
		select {
		case <-ended:
			return
		case <-time.After(grace):
		}
		answered := make(chan struct{})
		go func() {
			rdb.Ping(ctx)
			close(answered)
		}()
		select {
		case <-ended:
			return
		case <-answered:
		case <-time.After(answer):
			_ = rdb.Close()
			return
		}
	}
}

// otherLeases returns the leases of other running processes that differ from ours.
func otherLeases(ctx context.Context, st *store.Store, ours time.Duration) (others []string) {
	all, now, err := processes.In(st).All(ctx)
	if err != nil {
		return nil // Redis is unavailable again, which the services report
	}
	for i := range all {
		if p := &all[i]; p.Alive(now) && p.LeaseMS > 0 && p.LeaseMS != ours.Milliseconds() {
			others = append(others, fmt.Sprintf("%s: %v", p.Name, time.Duration(p.LeaseMS)*time.Millisecond))
		}
	}
	return others
}
