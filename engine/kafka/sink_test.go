package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
)

// fake is a cluster in this process whose connections can fail.
type fake struct {
	t       *testing.T
	cluster *kfake.Cluster
	dir     string
	opts    []kfake.Opt
	ports   []int

	lose atomic.Int64 // replies to drop, together with their connection
}

func newFake(t *testing.T, opts ...kfake.Opt) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir(), opts: opts}
	f.start()
	t.Cleanup(func() { f.cluster.Close() })
	return f
}

func (f *fake) start() {
	f.t.Helper()
	opts := append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.DataDir(f.dir),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			return lossy{l, f}, err
		}),
	}, f.opts...)
	if f.ports != nil {
		opts = append(opts, kfake.Ports(f.ports...))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.cluster = cluster
	if f.ports == nil {
		for _, address := range cluster.ListenAddrs() {
			var port int
			_, after, _ := strings.Cut(address, ":")
			fmt.Sscan(after, &port)
			f.ports = append(f.ports, port)
		}
	}
}

// hangCommits leaves commits without a reply until the channel is closed.
func (f *fake) hangCommits() chan struct{} {
	hangs := make(chan struct{})
	f.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		f.cluster.SleepControl(func() { <-hangs })
		return nil, nil, false
	})
	return hangs
}

func (f *fake) options() kafka.Options {
	o := kafka.Defaults()
	o.Brokers = f.cluster.ListenAddrs()
	o.Timeout = 2 * time.Second
	o.TopicWait = 2 * time.Second
	return o
}

// keep keeps a copy of the records, and truncate goes back to it: the records that followed are lost, as
// in a power cut. The partition then has another leader epoch.
func (f *fake) keep() {
	f.t.Helper()
	f.restart(func(partitions, copied string) error { return os.CopyFS(copied, os.DirFS(partitions)) })
}

func (f *fake) truncate() error {
	f.restart(func(partitions, copied string) error {
		return errors.Join(os.RemoveAll(partitions), os.CopyFS(partitions, os.DirFS(copied)))
	})
	return f.cluster.MoveTopicPartition(inTopic, 0, 0)
}

// restart restarts the cluster. Meanwhile do changes its files.
func (f *fake) restart(do func(partitions, copied string) error) {
	f.t.Helper()
	f.cluster.Close()
	if err := do(filepath.Join(f.dir, "partitions"), filepath.Join(f.dir, "copy")); err != nil {
		f.t.Fatal(err)
	}
	f.start()
}

// lossy drops replies.
type lossy struct {
	net.Listener
	fake *fake
}

func (l lossy) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: conn, fake: l.fake}, nil
}

type lossyConn struct {
	net.Conn
	fake    *fake
	produce atomic.Bool
	mu      sync.Mutex
}

// Read notes whether the connection is one of a producer: the client has one for it alone.
func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	// 4 bytes of length in a read of their own, then the key of the request.
	if n >= 2 && n != 4 && p[0] == 0 && p[1] == byte(kmsg.Produce) {
		c.produce.Store(true)
	}
	return n, err
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.produce.Load() && c.fake.lose.Add(-1) >= 0 {
		c.Close()
		return 0, errors.New("lost")
	}
	return c.Conn.Write(p)
}

var base = time.Date(2026, 11, 24, 12, 0, 0, 123e6, time.UTC)

func event(n int, topic string) schedule.Event {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	return schedule.Event{
		ID: id, Status: schedule.Firing, Attempts: 2,
		Content: schedule.Content{Due: base, Topic: topic, Payload: []byte("payload of " + id)},
	}
}

func events(n int, topic string) []schedule.Event {
	var out []schedule.Event
	for i := range n {
		out = append(out, event(i, topic))
	}
	return out
}

func newSink(t *testing.T, o kafka.Options) *kafka.Sink {
	t.Helper()
	sink, err := kafka.NewSink(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	return sink
}

// read returns n records of a topic, and any others that follow soon.
func read(t *testing.T, o kafka.Options, topic string, n int) []*kgo.Record {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(o.Brokers...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100 * time.Millisecond)}
	if o.Version != "" {
		opts = append(opts, kgo.MaxVersions(kversion.FromString(o.Version)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n && ctx.Err() == nil {
		out = append(out, cl.PollFetches(ctx).Records()...)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return append(out, cl.PollFetches(ctx).Records()...)
}

func want(t *testing.T, errs []error, kind error) {
	t.Helper()
	for i, err := range errs {
		if kind == nil && err != nil || kind != nil && !errors.Is(err, kind) {
			t.Fatalf("event %d: %v, want %v", i, err, kind)
		}
	}
}

func wantUnknown(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		for _, known := range []error{nil, schedule.ErrUnreachable, schedule.ErrUnavailable, schedule.ErrRefused, schedule.ErrNotPublished} {
			if errors.Is(err, known) {
				t.Fatalf("event %d: %v, want an error that does not say whether it was published", i, err)
			}
		}
	}
}

// A record carries the payload and the headers byte for byte.
func TestSinkRecord(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"))
	sink := newSink(t, f.options())
	e := event(7, "orders")
	e.Payload = []byte("\x00\xff not \r\n JSON")
	e.Headers = map[string]string{"x-trace": "a\xc3\xa9", "content-type": "text/plain"}
	keyed := event(8, "orders")
	keyed.Key = "customer 4"
	want(t, sink.Publish(t.Context(), []schedule.Event{e, keyed}), nil)

	records := read(t, f.options(), "orders", 2)
	slices.SortFunc(records, func(a, b *kgo.Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if len(records) != 2 || string(records[0].Key) != e.ID || string(records[1].Key) != "customer 4" || string(records[0].Value) != string(e.Payload) {
		t.Fatalf("records %v", records)
	}
	var got []string
	for _, h := range records[0].Headers {
		got = append(got, h.Key+"="+string(h.Value))
	}
	headers := []string{
		"ce_id=" + e.ID, "ce_source=/flunq/scheduler", "ce_specversion=1.0", "ce_time=2026-11-24T12:00:00.123Z",
		"ce_type=io.flunq.schedule.fired", "content-type=text/plain", "flunq-attempt=3", "flunq-scheduled-for=1795521600123", "x-trace=a\xc3\xa9",
	}
	if diff := cmp.Diff(headers, got); diff != "" {
		t.Error(diff)
	}
}

// Records are acknowledged by all replicas and carry a producer's id and sequence.
func TestSinkIsIdempotent(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "orders"))
	var acks []int16
	f.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		acks = append(acks, r.(*kmsg.ProduceRequest).Acks)
		return nil, nil, false
	})
	sink := newSink(t, f.options())
	want(t, sink.Publish(t.Context(), events(50, "orders")), nil)
	if len(acks) == 0 || slices.ContainsFunc(acks, func(a int16) bool { return a != -1 }) {
		t.Errorf("acks %v, want -1 each", acks)
	}
	for _, r := range read(t, f.options(), "orders", 50) {
		if r.ProducerID < 0 {
			t.Fatalf("record at %d has no producer id", r.Offset)
		}
	}
}

// After a lost reply, the record is sent again with the same sequence number: no duplicates.
func TestSinkLostReplies(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"))
	sink := newSink(t, f.options())
	want(t, sink.Publish(t.Context(), events(5, "orders")), nil)
	f.lose.Store(2)
	want(t, sink.Publish(t.Context(), events(50, "orders")), nil)
	if left := f.lose.Load(); left >= 0 {
		t.Fatal("no reply was lost")
	}
	if got := len(read(t, f.options(), "orders", 55)); got != 55 {
		t.Errorf("%d records, want 55", got)
	}
}

// While each reply is lost, the outcome is unknown, and Publish returns in time. Later publications work.
func TestSinkNoReplies(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"))
	sink := newSink(t, f.options())
	want(t, sink.Publish(t.Context(), events(5, "orders")), nil)
	f.lose.Store(1 << 40)
	began := time.Now()
	wantUnknown(t, sink.Publish(t.Context(), events(50, "orders")))
	if took := time.Since(began); took > f.options().Timeout+300*time.Millisecond {
		t.Errorf("Publish took %s", took)
	}
	f.lose.Store(0)
	want(t, sink.Publish(t.Context(), events(50, "orders")), nil)
	// The broker has usually written the 50 whose replies were lost, but need not have.
	if got := len(read(t, f.options(), "orders", 105)); got < 55 || got > 105 {
		t.Errorf("%d records, want 55 and those of the 50 without a reply", got)
	}
}

// A broker that is away costs no attempt, and records reported as not published are not. Only records
// sent on a connection that the broker has abandoned may have been published.
func TestSinkAway(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"))
	o := f.options()
	fresh, used := newSink(t, o), newSink(t, o)
	want(t, used.Publish(t.Context(), events(5, "orders")), nil)
	f.cluster.Close()
	wantUnknown(t, used.Publish(t.Context(), events(50, "orders")))
	for range 2 {
		for _, sink := range []*kafka.Sink{fresh, used} {
			began := time.Now()
			want(t, sink.Publish(t.Context(), events(50, "orders")), schedule.ErrUnreachable)
			if took := time.Since(began); took > o.Timeout {
				t.Errorf("Publish took %s", took)
			}
		}
	}
	f.start()
	want(t, fresh.Publish(t.Context(), events(1, "orders")), nil)
	want(t, used.Publish(t.Context(), events(1, "orders")), nil)
	if got := len(read(t, o, "orders", 7)); got != 7 {
		t.Errorf("%d records, want 7", got)
	}
}

// Publications that begin while the broker is briefly away succeed when it is back.
func TestSinkBrokerRestarts(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"))
	sink := newSink(t, f.options())
	want(t, sink.Publish(t.Context(), events(5, "orders")), nil)
	f.cluster.Close()
	var restart sync.WaitGroup
	restart.Go(func() {
		time.Sleep(100 * time.Millisecond) // less than the pause before the only retry
		f.start()
	})
	errs := sink.Publish(t.Context(), events(50, "orders"))
	restart.Wait()
	want(t, errs, nil)
	if got := len(read(t, f.options(), "orders", 55)); got != 55 {
		t.Errorf("%d records, want 55", got)
	}
}

// A topic that does not exist is not created and harms no other events; its own are rejected after a
// while. When it is created, events are published again.
func TestSinkUnknownTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders"), kfake.AllowAutoTopicCreation())
	sink := newSink(t, f.options())
	began := time.Now()
	for {
		errs := sink.Publish(t.Context(), []schedule.Event{event(1, "nowhere"), event(2, "orders")})
		want(t, errs[1:], nil)
		if errors.Is(errs[0], schedule.ErrRefused) {
			break
		}
		want(t, errs[:1], schedule.ErrUnavailable)
		time.Sleep(200 * time.Millisecond)
	}
	if took := time.Since(began); took < f.options().TopicWait || took > 3*f.options().TopicWait {
		t.Errorf("refused after %s", took)
	}
	if f.cluster.TopicInfo("nowhere") != nil {
		t.Error("the topic was created")
	}
	if err := f.cluster.CreateTopic("nowhere", 1, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the answer holds for a second
	want(t, sink.Publish(t.Context(), events(1, "nowhere")), nil)
}

// A topic that is deleted while the sink knows it is treated as one that does not exist.
func TestSinkDeletedTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(3, "orders", "other"))
	sink := newSink(t, f.options())
	want(t, sink.Publish(t.Context(), events(9, "orders")), nil)
	if err := f.cluster.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	want(t, sink.Publish(t.Context(), events(9, "orders")), schedule.ErrUnavailable)
	want(t, sink.Publish(t.Context(), events(9, "orders")), schedule.ErrUnavailable)
	want(t, sink.Publish(t.Context(), events(9, "other")), nil)
	if err := f.cluster.CreateTopic("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	want(t, sink.Publish(t.Context(), events(9, "orders")), nil)
}

// An event that is too large for the broker is rejected alone.
func TestSinkTooLarge(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if err := f.cluster.CreateTopic("orders", 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.Compression = "none"
	sink := newSink(t, o)
	batch := events(20, "orders")
	batch[7].Payload = make([]byte, 3000)
	errs := sink.Publish(t.Context(), batch)
	want(t, errs[7:8], schedule.ErrRefused)
	if !strings.Contains(errs[7].Error(), kerr.MessageTooLarge.Message) {
		t.Errorf("%v does not have the broker's words", errs[7])
	}
	want(t, slices.Delete(errs, 7, 8), nil)
	if got := len(read(t, o, "orders", 19)); got != 19 {
		t.Errorf("%d records, want 19", got)
	}
}

// The brokers' replies determine whether an event is retried.
func TestSinkReplies(t *testing.T) {
	t.Parallel()
	for reply, kind := range map[*kerr.Error]error{
		kerr.TopicAuthorizationFailed:   schedule.ErrRefused,
		kerr.InvalidTopicException:      schedule.ErrRefused,
		kerr.InvalidRecord:              schedule.ErrRefused,
		kerr.NotEnoughReplicas:          schedule.ErrUnavailable,
		kerr.KafkaStorageError:          schedule.ErrUnavailable,
		kerr.UnsupportedCompressionType: schedule.ErrNotPublished,
		kerr.ClusterAuthorizationFailed: schedule.ErrUnreachable,
	} {
		t.Run(reply.Message, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, kfake.SeedTopics(1, "orders"))
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: reply, Count: -1})
			errs := newSink(t, f.options()).Publish(t.Context(), events(3, "orders"))
			if want(t, errs, kind); !errors.Is(errs[0], reply) {
				t.Errorf("%v does not say %v", errs[0], reply)
			}
		})
	}
	for _, reply := range []*kerr.Error{kerr.UnknownServerError, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut} {
		t.Run(reply.Message, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, kfake.SeedTopics(1, "orders"))
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: reply, Count: -1})
			wantUnknown(t, newSink(t, f.options()).Publish(t.Context(), events(3, "orders")))
		})
	}
}

// A sink that was refused a producer ID publishes as soon as it gets one.
func TestSinkProducerID(t *testing.T) {
	t.Parallel()
	for _, reply := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.UnknownServerError} {
		t.Run(reply.Message, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, kfake.SeedTopics(1, "orders"))
			refusal := f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: reply, Count: -1})
			sink := newSink(t, f.options())
			for range 2 {
				if err := sink.Publish(t.Context(), events(1, "orders"))[0]; !errors.Is(err, reply) {
					t.Errorf("%v, want %v", err, reply)
				}
			}
			refusal.Remove()
			want(t, sink.Publish(t.Context(), events(1, "orders")), nil)
		})
	}
}
