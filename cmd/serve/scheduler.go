package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	grpcserver "flunq.io/flunq/engine/scheduler/server"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/telemetry"
)

// The parts of the scheduler, as --only names them.
const (
	wholeScheduler    = "scheduler"
	schedulerAPI      = "scheduler-api"
	schedulerConsumer = "scheduler-consumer"
	schedulerWorker   = "scheduler-worker"
)

// scheduling is the scheduler of one process.
type scheduling struct {
	set     cli.SchedulerSettings
	parts   []string // empty: all
	process string
	tenant  string // of requests that name none
	percent int    // of Redis' maxmemory above which events are refused; 0: never
	log     *slog.Logger
	dev     *dev.Redis // of flunq dev, whose clock decides what is due; nil in flunq serve

	table   *dynamo.Table // nil: the records are in Redis
	index   agenda.Index
	ledger  scheduler.Ledger
	feed    *kafka.Feed      // nil: events reach the index directly
	intake  scheduler.Ledger // of the API: ledger, or one that sends to the feed
	actors  *scheduler.Scheduler
	server  *grpcserver.Server
	listen  net.Listener // nil without the API
	closing []func()

	prepared bool
	alone    bool // the process runs nothing else

	publishing sync.Mutex // held while flunq dev publishes
	// What publishNow did since the last publish.
	meanwhile struct{ published, dead int }
}

// has reports whether a part runs in this process.
func (s *scheduling) has(part string) bool {
	return len(s.parts) == 0 || slices.Contains(s.parts, wholeScheduler) || slices.Contains(s.parts, part)
}

// open assembles the scheduler, prepares it, and listens. Unless the scheduler is alone, it does not wait
// for its store. The caller must call close afterwards.
func (s *scheduling) open(ctx context.Context, rdb wire.Redis, registry prometheus.Registerer) error {
	if s.has(schedulerConsumer) && !s.has(schedulerAPI) && !s.has(schedulerWorker) && s.set.Feed == cli.NoFeed {
		return cli.Misusef("%s has nothing to consume: SCHEDULER_FEED is none, want kafka", schedulerConsumer)
	}
	st := store.New(rdb, store.Options{})
	client := wire.NewClient(rdb)
	s.index = agenda.NewIndex(client)
	watch := telemetry.NewScheduler(s.log, registry)
	opts := s.set.Options(s.process)
	opts.Observe = watch.Published
	if err := s.openFeed(); err != nil {
		return err
	}
	if err := s.openLedger(ctx, client); err != nil {
		return err
	}
	if s.dev != nil {
		opts.Clock, opts.Workers, opts.Manual = func() time.Time { return s.dev.Clock().Now }, 0, true
	}
	sink, err := s.sink(st, client)
	if err != nil {
		return err
	}
	if sink == nil {
		opts.Workers = 0
	}
	if s.actors, err = scheduler.New(s.ledger, sink, opts); err != nil {
		return err
	}
	if s.table != nil && s.has(schedulerWorker) {
		s.actors.Add(s.reconciler(watch))
	}
	if s.feed != nil && s.has(schedulerConsumer) {
		s.actors.Add(s.consumer())
	}
	prepare := s.prepare
	if s.alone {
		prepare = s.await
	}
	if err := prepare(ctx); err != nil && (s.alone || !unavailable(err)) {
		return err
	}
	process := telemetry.SchedulerProcess{
		Counts: func(ctx context.Context) ([]schedule.Counts, error) { return s.index.Counts(ctx, time.Second) },
		Owned:  s.actors.Owned, Publishing: s.actors.Publishing, Uncounted: s.table != nil,
	}
	if s.feed != nil && s.has(schedulerConsumer) {
		process.Lag = s.feed.Lag
	}
	registry.MustRegister(telemetry.SchedulerDepth(process, s.log))
	if s.dev != nil {
		s.dev.Publish(s.publish)
	}
	if !s.has(schedulerAPI) {
		return nil
	}
	return s.openServer(ctx, st, watch)
}

// openFeed opens the topic through which events reach the index, if there is one and this process
// uses it.
func (s *scheduling) openFeed() (err error) {
	if s.set.Feed == cli.NoFeed || !s.has(schedulerAPI) && !s.has(schedulerConsumer) {
		return nil
	}
	if s.feed, err = kafka.NewFeed(s.set.Kafka); err != nil {
		return err
	}
	s.closing = append(s.closing, func() {
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.feed.Close(ctx); err != nil {
			s.log.WarnContext(ctx, "offsets not committed: the last messages are read again", "err", err)
		}
	})
	return nil
}

// consumer returns the actor that stores the events of the feed.
func (s *scheduling) consumer() scheduler.Actor {
	c := scheduler.NewConsumer(s.feed, s.ledger, scheduler.ConsumerOptions{
		APIOptions: s.requests(), Retry: s.set.Retry,
		Rejected: func(m schedule.Message, reason string) {
			s.log.Warn("message rejected", "topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "reason", reason)
		},
	})
	return scheduler.Actor{Name: "consumer", Step: c.Step}
}

// requests returns the options for requests over gRPC and through the feed.
func (s *scheduling) requests() scheduler.APIOptions {
	return scheduler.APIOptions{
		Limits: s.set.Limits, Tenant: s.tenant, Topic: s.set.ExecuteTopic,
		Now: s.actors.Now, ReadTime: s.actors.ReadTime, Notify: s.actors.Notify,
	}
}

// sink returns the sink that events are published to; nil if this process publishes none.
func (s *scheduling) sink(st *store.Store, client *wire.Client) (scheduler.Sink, error) {
	if !s.has(schedulerWorker) {
		return nil, nil
	}
	topics := scheduler.TopicSink{Store: st, Plain: scheduler.StreamSink{Redis: client}}
	if s.set.Sink == cli.InKafka {
		sink, err := kafka.NewSink(s.set.Kafka)
		if err != nil {
			return nil, err
		}
		s.closing = append(s.closing, sink.Close)
		topics.Plain = sink
	}
	return topics, nil
}

// openLedger opens the store of the records.
func (s *scheduling) openLedger(ctx context.Context, client *wire.Client) error {
	if s.set.Records == cli.InRedis {
		s.ledger = agenda.NewLedger(client, agenda.Options{
			Retention: s.set.Retention, MaxDelay: s.set.Limits.MaxDelay, Streams: s.set.Sink == cli.InRedis,
		})
		s.intake = s.ledger
		return nil
	}
	table, err := dynamo.New(ctx, s.set.Dynamo())
	if err != nil {
		return err
	}
	s.table = table
	s.ledger = scheduler.NewTableLedger(table, s.index, nil)
	s.intake = s.ledger
	if s.feed != nil {
		s.intake = scheduler.NewTableLedger(table, s.index, s.feed)
	}
	return nil
}

// reconciler returns the actor that adds events of the table that the index lacks.
func (s *scheduling) reconciler(watch *telemetry.Scheduler) scheduler.Actor {
	r := scheduler.NewReconciler(s.table, s.index, scheduler.ReconcilerOptions{
		Bucket: time.Duration(s.set.Bucket) * time.Second, Check: s.set.Scan, Now: s.actors.Now, Notify: s.actors.Notify, Found: watch.Reconciled,
	})
	return scheduler.Actor{Name: "reconciler", Step: r.Step}
}

// prepare checks the table and the number of partitions. It returns an error if that number differs
// between the settings and Redis.
func (s *scheduling) prepare(ctx context.Context) error {
	if s.table != nil {
		if err := s.table.Ready(ctx); err != nil {
			return err
		}
		if err := errors.Join(s.table.Check(ctx)); err != nil {
			s.log.WarnContext(ctx, "the table is incomplete", "err", err)
		}
	}
	if s.table == nil {
		switch abandoned, err := s.index.Abandon(ctx); {
		case err != nil:
			return err
		case abandoned:
			s.log.WarnContext(ctx, "events that were scheduled with SCHEDULER_RECORDS=dynamodb and are still pending wait until a scheduler with that setting runs")
		}
	}
	err := s.actors.Prepare(ctx)
	if s.prepared = err == nil; !errors.Is(err, schedule.ErrPartitions) {
		return err
	}
	members, err := s.ledger.Members(ctx, "", 0)
	if err != nil {
		return err
	}
	return cli.Misusef("SCHEDULER_TOTAL_PARTITIONS is %d, and the scheduler on this Redis has %d partitions: want %d; 'flunq schedule partitions %d' changes them while the scheduler runs",
		s.set.Partitions, members.Count, members.Count, s.set.Partitions)
}

// unavailable reports whether the scheduler's part of Redis or DynamoDB is currently unavailable. Other
// services may still work: on a cluster, the scheduler is on one master.
func unavailable(err error) bool {
	_, unreachable := errors.AsType[*net.OpError](err)
	return unreachable || store.Unavailable(err)
}

// openServer assembles the gRPC server and listens.
func (s *scheduling) openServer(ctx context.Context, st *store.Store, watch *telemetry.Scheduler) error {
	opts := grpcserver.DefaultOptions()
	opts.Log, opts.Reflection = s.log, s.set.Reflection
	opts.Check = func(ctx context.Context) error { return s.check(ctx, st) }
	opts.Observe = func(c grpcserver.Call) {
		watch.Handled(c.Method[strings.LastIndex(c.Method, "/")+1:], c.Code.String(), c.Took)
	}
	var problems error
	if s.set.TokensFile != "" {
		tokens, err := grpcserver.ReadTokens(s.set.TokensFile)
		opts.Tokens, problems = tokens, errors.Join(problems, named("SCHEDULER_TOKENS_FILE", err))
	}
	if s.set.Cert != "" {
		certificate, err := grpcserver.ReadCertificate(s.set.Cert, s.set.Key, s.set.Client)
		opts.TLS, problems = certificate, errors.Join(problems, named("GRPC_TLS_CERT, GRPC_TLS_KEY, GRPC_TLS_CLIENT_CA", err))
	}
	if problems != nil {
		return cli.Fail(cli.ExitMisuse, problems)
	}
	s.warn(ctx)
	requests := s.requests()
	requests.Answered = watch.Requested
	api := scheduler.NewAPI(s.intake, requests)
	s.server = grpcserver.New(api, opts)
	return s.bind(ctx)
}

// bind listens on the address of the gRPC server, unless that has been done.
func (s *scheduling) bind(ctx context.Context) (err error) {
	if s.listen != nil {
		return nil
	}
	if s.listen, err = new(net.ListenConfig).Listen(ctx, "tcp", s.set.Address); err != nil {
		return cli.Fail(cli.ExitMisuse, fmt.Errorf("SCHEDULER_GRPC %s: %w", s.set.Address, err))
	}
	return nil
}

// publish publishes what is due by the clock of flunq dev, during an advance. It returns how
// many events were published and became dead since it was last called, and when the next one is due.
func (s *scheduling) publish(ctx context.Context) (published, dead int, next time.Time, err error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	published, dead, next, err = s.actors.PublishDue(ctx)
	published, dead = published+s.meanwhile.published, dead+s.meanwhile.dead
	s.meanwhile.published, s.meanwhile.dead = 0, 0
	return published, dead, next, err
}

// publishNow publishes what is due by the clock of flunq dev, except during an advance.
func (s *scheduling) publishNow(ctx context.Context) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	published, dead, _, err := s.actors.PublishDue(ctx)
	if s.dev.Moving() { // an advance has just begun
		s.meanwhile.published += published
		s.meanwhile.dead += dead
	}
	return err
}

// publishAll publishes what is due, again and again until ctx ends.
func (s *scheduling) publishAll(ctx context.Context) {
	const every = 100 * time.Millisecond
	for ctx.Err() == nil {
		if err := s.publishNow(ctx); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "scheduled events are not published", "err", err)
		}
		_ = cli.Pause(ctx, every) // the loop ends with ctx
	}
}

// named adds the name of a setting to an error; nil stays nil.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// warn logs a warning if others on the network can use or read the connections.
func (s *scheduling) warn(ctx context.Context) {
	host, _, _ := net.SplitHostPort(s.set.Address)
	if loopback(host) {
		return
	}
	if s.set.TokensFile == "" && s.set.Client == "" {
		s.log.WarnContext(ctx, "anyone who can reach the gRPC server can use it: set SCHEDULER_TOKENS_FILE or GRPC_TLS_CLIENT_CA", "address", s.set.Address)
	}
	if s.set.Cert == "" {
		s.log.WarnContext(ctx, "the connections to the gRPC server are not encrypted: set GRPC_TLS_CERT and GRPC_TLS_KEY", "address", s.set.Address)
	}
}

// check returns an error if events cannot be scheduled now.
func (s *scheduling) check(ctx context.Context, st *store.Store) error {
	used, limit, err := st.MemoryUse(ctx)
	if err == nil && s.percent > 0 && limit > 0 && used > limit/100*int64(s.percent) {
		return fmt.Errorf("%w: Redis uses %d of %d MiB (LIMIT_REDIS_PERCENT)", schedule.ErrFull, used>>20, limit>>20)
	}
	if err == nil {
		_, err = s.ledger.Get(ctx, []string{"00000000-0000-0000-0000-000000000000"}) // does its store answer?
	}
	return err
}

// address returns where the gRPC server listens, "" if it does not.
func (s *scheduling) address() string {
	if s == nil || s.listen == nil {
		return ""
	}
	return s.listen.Addr().String()
}

// run runs the scheduler until ctx ends, and then waits for calls and publications in progress. While its
// store is unavailable, calls fail and nothing is published.
func (s *scheduling) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		var err error
		if s.server != nil {
			err = s.server.Run(ctx, s.listen)
		}
		if err != nil {
			cancel()
		}
		served <- err
	}()
	if s.dev != nil {
		go s.publishAll(ctx)
	}
	err := s.work(ctx)
	cancel()
	if errors.Is(err, redis.ErrClosed) { // Redis hung while the process stopped
		err = nil
	}
	return errors.Join(err, <-served)
}

// work prepares the scheduler, if necessary, and runs the actors until ctx ends.
func (s *scheduling) work(ctx context.Context) error {
	if !s.prepared {
		err := s.await(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the process was stopped
		case err != nil:
			return err
		}
		s.log.InfoContext(ctx, "the scheduler's store answers")
	}
	return s.actors.Run(ctx, s.log)
}

// await prepares the scheduler. It retries while the store is unavailable.
func (s *scheduling) await(ctx context.Context) error {
	waits := func(err error) { s.log.WarnContext(ctx, "waiting for the scheduler's store", "err", err) }
	return retry(ctx, unavailable, waits, func() error { return s.prepare(ctx) })
}

// close releases what open has opened.
func (s *scheduling) close() {
	if s.listen != nil {
		_ = s.listen.Close() // the server may have closed it
	}
	closeAll(s.closing)
}
