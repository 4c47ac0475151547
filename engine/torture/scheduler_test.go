//go:build unix

package torture_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// scheduling configures a process of the scheduler.
type scheduling struct {
	Listen  string        `json:"listen"` // address of the gRPC server; "": none
	Workers int           `json:"workers"`
	Lease   time.Duration `json:"lease"`

	Endpoint string `json:"endpoint"` // of DynamoDB, where the records are; "": they are in Redis
	Table    string `json:"table"`
	Broker   string `json:"broker"` // address of Kafka
	Sink     string `json:"sink"`   // toStream, toTenant or toKafka
	Feed     bool   `json:"feed"`   // requests reach the index through Kafka
	Consumes bool   `json:"consumes"`
}

// Where events go.
const (
	toStream = "stream"
	toTenant = "tenant" // to its stream, and as executions that start
	toKafka  = "kafka"
)

// kafka returns how the process reaches the broker.
func (s scheduling) kafka() kafka.Options {
	opts := kafka.Defaults()
	opts.Brokers, opts.Timeout, opts.Wait = []string{s.Broker}, time.Second, 100*time.Millisecond
	return opts
}

// sink returns where the process publishes events.
func (s scheduling) sink(st *store.Store) (scheduler.Sink, func(), error) {
	if s.Sink != toKafka {
		return scheduler.TopicSink{Store: st, Plain: scheduler.StreamSink{Redis: st.Redis()}}, func() {}, nil
	}
	sink, err := kafka.NewSink(s.kafka())
	if err != nil {
		return nil, nil, err
	}
	return sink, sink.Close, nil
}

// ledger returns the ledger of the process, and its other actors.
func (s scheduling) ledger(ctx context.Context, st *store.Store, now func() time.Time) (scheduler.Ledger, []scheduler.Actor, error) {
	if s.Endpoint == "" {
		keep := agenda.Defaults()
		keep.Streams = s.Sink != toKafka
		return agenda.NewLedger(st.Redis(), keep), nil, nil
	}
	opts := dynamo.Defaults()
	opts.Endpoint, opts.Table = s.Endpoint, s.Table
	table, err := dynamo.New(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	index := agenda.NewIndex(st.Redis())
	ledger := scheduler.NewTableLedger(table, index, nil)
	reconciler := scheduler.NewReconciler(table, index, scheduler.ReconcilerOptions{Bucket: s.Lease, Check: s.Lease / 4, Now: now})
	actors := []scheduler.Actor{{Name: "reconciler", Step: reconciler.Step}}
	if !s.Feed {
		return ledger, actors, nil
	}
	feed, err := kafka.NewFeed(s.kafka())
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { _ = feed.Close(context.WithoutCancel(ctx)) })
	if s.Consumes {
		consumer := scheduler.NewConsumer(feed, ledger, scheduler.ConsumerOptions{APIOptions: s.limits(now), Retry: schedule.DefaultRetry()})
		return ledger, []scheduler.Actor{{Name: "consumer", Step: consumer.Step}}, nil
	}
	return scheduler.NewTableLedger(table, index, feed), actors, nil
}

// limits lets clients schedule events for any time.
func (s scheduling) limits(now func() time.Time) scheduler.APIOptions {
	limits := schedule.DefaultLimits()
	limits.MinDelay = 0
	return scheduler.APIOptions{Limits: limits, Tenant: tenant, Now: now}
}

// run runs the process until ctx ends.
func (s scheduling) run(ctx context.Context, process string, st *store.Store, log *slog.Logger) error {
	opts := scheduler.DefaultOptions()
	opts.Process, opts.Clock, opts.Workers = process, time.Now, s.Workers
	opts.Retry.Lease, opts.MemberTTL, opts.Poll = s.Lease, s.Lease, 100*time.Millisecond
	ledger, actors, err := s.ledger(ctx, st, time.Now) // one machine, one clock
	if err != nil {
		return err
	}
	sink, end, err := s.sink(st)
	if err != nil {
		return err
	}
	defer end()
	sched, err := scheduler.New(ledger, sink, opts)
	if err != nil {
		return err
	}
	if s.Workers > 0 || s.Consumes {
		for _, a := range actors {
			sched.Add(a)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.Listen != "" {
		if err := sched.Prepare(ctx); err != nil {
			return err
		}
		listener, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return err
		}
		how := server.DefaultOptions()
		how.Log, how.Check = log, func(ctx context.Context) error { _, err := ledger.Now(ctx); return err }
		answers := server.New(scheduler.NewAPI(ledger, s.limits(sched.Now)), how)
		wg.Go(func() {
			if err := answers.Run(ctx, listener); err != nil {
				log.ErrorContext(ctx, "grpc", "err", err)
			}
			stop()
		})
	}
	err = sched.Run(ctx, log)
	stop()
	return err
}

// requested is an event that a client has requested.
type requested struct {
	id, topic string
	due       time.Time
}

// published is an event that reached a reader.
type published struct {
	id      string
	at      time.Time // by the clock of Redis, in whole milliseconds
	attempt string    // of its publication; "" if the sink does not say
}

const (
	topic    = "torture"
	workflow = "started" // that events start
)

// client returns a client of the scheduler that waits for a server that is away.
func client(t *testing.T, address string) schedulerpb.SchedulerServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return schedulerpb.NewSchedulerServiceClient(conn)
}

// askFor requests events until each is confirmed, like a client that knows only its own requests. An
// event that could not be requested in time becomes due later.
func (w *environment) askFor(ctx context.Context, to schedulerpb.SchedulerServiceClient, events []requested) {
	w.t.Helper()
	var wg sync.WaitGroup
	var repeated atomic.Int64
	const clients = 8
	for part := range slices.Chunk(events, (len(events)+clients-1)/clients) {
		wg.Go(func() {
			for i := range part {
				e := &part[i]
				time.Sleep(time.Until(e.due.Add(-size(time.Second, 2500*time.Millisecond))))
				soonest := func() time.Time { return time.Now().Add(300 * time.Millisecond).Truncate(time.Millisecond) }
				if e.due.Before(soonest()) {
					e.due = soonest()
				}
				unanswered := false
				for {
					short, cancel := context.WithTimeout(ctx, 2*time.Second)
					out, err := to.Schedule(short, &schedulerpb.ScheduleRequest{
						EventId: e.id, ExecuteTime: timestamppb.New(e.due), Topic: e.topic, Payload: []byte(e.id),
					})
					cancel()
					switch code := out.GetStatus().GetCode(); {
					case ctx.Err() != nil:
						w.t.Errorf("event %s was not taken: %v", e.id, err)
						return
					case err != nil:
						repeated.Add(1)
						unanswered = true
						continue
					case code == schedulerpb.StatusCode_BAD_REQUEST: // it is not stored, and too late
						e.due = soonest()
						continue
					case code == schedulerpb.StatusCode_CONFLICT && unanswered: // an earlier request was, after all
						e.due = out.GetEvent().GetExecuteTime().AsTime()
					case code != schedulerpb.StatusCode_SUCCESS:
						w.t.Errorf("event %s: %v", e.id, out)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	w.t.Logf("%d requests were repeated", repeated.Load())
}

// inTopic returns the contents of a broker's topic, nothing while the broker is away.
func (w *environment) inTopic(broker string) (out []published) {
	w.t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	w.must(err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience())
	defer cancel()
	ends, err := kadm.NewClient(reader).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	for left > 0 && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			left--
			p := published{at: r.Timestamp}
			for _, h := range r.Headers {
				switch h.Key {
				case "ce_id":
					p.id = string(h.Value)
				case "flunq-attempt":
					p.attempt = string(h.Value)
				}
			}
			out = append(out, p)
			if string(r.Value) != string(r.Key) {
				w.t.Errorf("the payload of %s is %s", r.Key, r.Value)
			}
		})
	}
	return out
}

// inStream returns the contents of the topic's stream.
func (w *environment) inStream() (out []published) {
	w.t.Helper()
	w.stream(agenda.StreamKey(w.rdb, topic), func(e redis.XMessage) {
		if e.Values["data"] != e.Values["id"] {
			w.t.Errorf("the payload of %v is %v", e.Values["id"], e.Values["data"])
		}
		out = append(out, published{fmt.Sprint(e.Values["id"]), w.entered(e), fmt.Sprint(e.Values["attempt"])})
	})
	return out
}

// inTenant returns the contents of the tenant's stream: the events, and the executions that were started,
// which must be of the workflow.
func (w *environment) inTenant() (out []published) {
	w.t.Helper()
	w.stream(streamKey, func(e redis.XMessage) {
		switch id := fmt.Sprint(e.Values["id"]); e.Values["type"] {
		case topic:
			out = append(out, published{id: id, at: w.entered(e)})
		case string(event.ExecutionStarted):
			out = append(out, published{id: strings.TrimSuffix(id, "/start"), at: w.entered(e), attempt: "start"})
		}
	})
	return out
}

// entered returns when an entry was added to its stream.
func (w *environment) entered(e redis.XMessage) time.Time {
	ms, _, _ := strings.Cut(e.ID, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	w.must(err)
	return time.UnixMilli(n)
}

// comparePublished compares requested events with published ones. A process that publishes an event again because
// the outcome of the last publication is unknown counts one attempt more, so two publications with the
// same number have no explanation.
func comparePublished(asked []requested, found []published) (v verdict, unexplained int) {
	due, seen, attempts := map[string]time.Time{}, map[string]int{}, map[published]bool{}
	for _, e := range asked {
		due[e.id] = e.due
	}
	for _, p := range found {
		if one := (published{id: p.id, attempt: p.attempt}); p.attempt != "" && attempts[one] {
			unexplained++
		} else {
			attempts[one] = true
		}
		at, ours := due[p.id]
		if seen[p.id]++; seen[p.id] > 1 {
			v.duplicated++
			continue
		}
		if !ours || p.at.UnixMilli() < at.UnixMilli() {
			v.early++
		}
		v.late = append(v.late, max(p.at.Sub(at), 0))
	}
	v.lost = len(due) - len(seen)
	slices.Sort(v.late)
	return v, unexplained
}

// Whatever dies, each confirmed event is published, and not early, wherever its record is, whichever way
// the request takes, and wherever it goes. Only an unknown outcome explains a second publication; if one
// step of Redis claims and publishes an event, nothing does. Small runs try the rows that differ most.
func TestScheduler(t *testing.T) {
	const inTable, feed, small = true, true, true
	for _, row := range []struct {
		small, table, feed bool
		sink               string
		doing              []string
	}{
		{small, !inTable, !feed, toStream, nil},
		{small, !inTable, !feed, toStream, []string{"kill redis"}},
		{small, !inTable, !feed, toTenant, nil},
		{!small, !inTable, !feed, toTenant, []string{"kill redis"}},
		{small, !inTable, !feed, toKafka, []string{"kill broker"}},
		{!small, !inTable, !feed, toKafka, []string{"kill broker", "kill redis"}},
		{!small, !inTable, feed, toStream, []string{"kill broker", "kill redis"}},
		{!small, !inTable, feed, toTenant, []string{"kill broker"}},
		{!small, !inTable, feed, toKafka, []string{"kill broker", "kill redis"}},
		{small, inTable, !feed, toStream, []string{"flush redis"}},
		{!small, inTable, !feed, toTenant, []string{"flush redis"}},
		{!small, inTable, !feed, toKafka, []string{"kill broker", "flush redis"}},
		{!small, inTable, !feed, toKafka, []string{"kill redis"}},
		{!small, inTable, feed, toStream, []string{"kill broker", "flush redis"}},
		{!small, inTable, feed, toTenant, []string{"kill broker", "flush redis"}},
		{small, inTable, feed, toKafka, []string{"kill broker", "flush redis"}},
		{!small, inTable, feed, toKafka, []string{"kill redis"}},
	} {
		if !row.small && !*full {
			continue
		}
		records, way := "redis", ""
		if row.table {
			records = "dynamodb"
		}
		if row.feed {
			way = ", feed"
		}
		t.Run(strings.Join(append([]string{records + way + ", " + row.sink}, row.doing...), ", "), func(t *testing.T) {
			how, doing := scheduling{Sink: row.sink, Feed: row.feed}, map[string]int{"kill": size(4, 50)}
			for _, what := range row.doing {
				doing[what] = map[string]int{"kill redis": size(1, 7), "kill broker": size(1, 5), "flush redis": size(1, 3)}[what]
			}
			var settings []string
			if doing["kill redis"] > 0 {
				settings = []string{"--appendonly", "yes", "--appendfsync", "always"}
			}
			w := begin(t, settings...)
			if row.table {
				opts := dynamotest.Options(dynamotest.Dynalite(t))
				dynamotest.Init(t, opts)
				how.Endpoint, how.Table = opts.Endpoint, opts.Table
			}
			if row.feed || row.sink == toKafka {
				how.Broker = redistest.FreeAddr(t)
			}
			w.schedule(how, doing)
		})
	}
}

// schedule requests events while processes and others die, and checks what is published.
func (w *environment) schedule(how scheduling, doing map[string]int) {
	w.t.Helper()
	n, span := size(400, 10_000), size(1500*time.Millisecond, 20*time.Second)
	address, hold, workers := redistest.FreeAddr(w.t), size(time.Second, 2*time.Second), 8
	how.Lease = hold
	api, firing := how, how
	api.Listen, firing.Workers = address, workers
	w.run(1, role{Scheduling: &api})
	w.run(2, role{Scheduling: &firing})
	mortal := 3
	if how.Feed {
		consuming := how
		consuming.Consumes = true
		w.run(2, role{Scheduling: &consuming})
		mortal += 2
	}
	if how.Broker != "" {
		w.runBroker(bridging{Broker: how.Broker})
	}
	topics, found := []string{topic}, w.inStream
	switch how.Sink {
	case toKafka:
		found = func() []published { return w.inTopic(how.Broker) }
	case toTenant:
		w.define(workflow, "do: [{a: {set: {x: 1}}}]\n")
		topics, found = []string{schedule.EventTopic + topic, schedule.WorkflowTopic + workflow}, w.inTenant
	}
	from := w.now().Add(size(500*time.Millisecond, 3*time.Second))
	asked := make([]requested, n)
	for i := range asked {
		id := fmt.Sprintf("%08x-0000-4000-8000-%012x", w.rand.Uint32(), i)
		asked[i] = requested{id, topics[i%len(topics)], from.Add(time.Duration(w.rand.Int64N(int64(span)))).Truncate(time.Millisecond)}
	}
	slices.SortFunc(asked, func(a, b requested) int { return a.due.Compare(b.due) })
	done := make(chan struct{})
	go func() { defer close(done); w.askFor(w.within(span), client(w.t, address), asked) }()
	w.during(from.Add(span).Sub(w.now()), doing, func(what string) {
		switch what {
		case "kill redis":
			w.server.Kill()
			w.server.Restart(w.t)
		case "flush redis":
			w.flush()
		case "kill broker":
			w.kill(mortal)
		default:
			w.kill(w.random(mortal))
		}
	})
	<-done
	w.until(func() string {
		if left := n - len(unique(found())); left > 0 {
			return fmt.Sprintf("%d of %d events", left, n)
		}
		return ""
	})
	w.until(func() string { return strings.Join(w.indexes(), ", ") })
	v, unexplained := comparePublished(asked, found())
	w.report("events=%d: %v, %d of them without a reason", n, v, unexplained)
	w.want("lost", v.lost, 0)
	w.want("early", v.early, 0)
	// A broker that dies forgets what it knows about a producer that repeats a batch.
	w.want("duplicated without a reason", unexplained, doing["kill broker"]*workers*scheduler.DefaultOptions().Batch)
	if how.Endpoint == "" && how.Sink == toStream {
		w.want("duplicated", v.duplicated, 0)
	}
	w.close()
}

// flush makes Redis forget everything about the scheduler except what the test reads at the end.
func (w *environment) flush() {
	w.t.Helper()
	keys, err := w.rdb.Keys(w.t.Context(), "scheduler:*").Result()
	w.must(err)
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == agenda.StreamKey(w.rdb, topic) })
	if len(keys) > 0 {
		w.must(w.rdb.Del(w.t.Context(), keys...).Err())
	}
}

// indexes returns the indexes that still hold an event.
func (w *environment) indexes() (out []string) {
	keys, err := w.rdb.Keys(w.t.Context(), "scheduler:{*}:*").Result()
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range keys {
		if !strings.Contains(key, ":event:") && !strings.HasSuffix(key, ":dlq") {
			out = append(out, key)
		}
	}
	return out
}

// unique returns the ids among published events.
func unique(all []published) map[string]bool {
	out := map[string]bool{}
	for _, p := range all {
		out[p.id] = true
	}
	return out
}
