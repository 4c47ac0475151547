package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/bridge/bridgetest"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/kafka"
)

const outTopic, inTopic, secureTopic = "flunq.acme.events", "flunq.acme.in", "secure"

// bridgeOn returns the environment of a bridge on a cluster that has the topics.
func bridgeOn(t *testing.T, o kafka.Options) bridgetest.Environment {
	t.Helper()
	o.Wait, o.Compression = 100*time.Millisecond, "none"
	opts := []kgo.Opt{kgo.SeedBrokers(o.Brokers...)}
	if o.Version != "" {
		opts = append(opts, kgo.MaxVersions(kversion.FromString(o.Version)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	e := kafka.BridgeOptions{Options: o, Group: "flunq"}
	return bridgetest.Environment{
		Connect: func() (bridge.Sink, bridge.Source) {
			publisher, err := kafka.NewPublisher(e)
			if err != nil {
				t.Fatal(err)
			}
			receiver, err := kafka.NewReceiver(e)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				publisher.Close()
				receiver.Close(context.WithoutCancel(t.Context()))
			})
			return publisher, receiver
		},
		Put: func(topic string, m cloudevents.Message) {
			r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Error(err)
			}
		},
		Records: func(topic string, _ int) (out []cloudevents.Message) {
			for _, r := range readAll(t, opts, topic) {
				m := cloudevents.Message{Topic: topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					m.Headers = append(m.Headers, cloudevents.Header{Name: h.Key, Value: string(h.Value)})
				}
				out = append(out, m)
			}
			return out
		},
		Prefix: cloudevents.KafkaPrefix, Out: outTopic, In: inTopic, Secure: secureTopic, TooLarge: 30_000,
	}
}

// readAll returns all records of a topic.
func readAll(t *testing.T, opts []kgo.Opt, topic string) (out []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(append(slices.Clip(opts), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	for int64(len(out)) < left && t.Context().Err() == nil {
		out = append(out, cl.PollFetches(t.Context()).Records()...)
	}
	return out
}

func TestBridge(t *testing.T) {
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T) bridgetest.Environment {
		t.Helper()
		f := newFake(t)
		for _, topic := range []string{outTopic, inTopic, secureTopic} {
			if err := f.cluster.CreateTopic(topic, 4, map[string]string{"max.message.bytes": "20000"}); err != nil {
				t.Fatal(err)
			}
		}
		return bridgeOn(t, f.options())
	})
}

// A bridge gives the same guarantees on the mock cluster of librdkafka, which has other limits, and topics
// without ids.
func TestBridgeMock(t *testing.T) {
	t.Parallel()
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("there is no kcat")
	}
	bridgetest.Run(t, func(t *testing.T) bridgetest.Environment {
		t.Helper()
		o := kafka.Defaults()
		o.Brokers, o.Version = mock(t, kcat), "2.0"
		o.Timeout = 5 * time.Second
		return bridgeOn(t, o)
	}, "out", "failures", "start")
}

// Missing topics are created if that is configured; otherwise their events wait.
func TestBridgeCreatesTopics(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	e := kafka.BridgeOptions{Options: f.options(), Group: "flunq"}
	publish := func() error {
		p, err := kafka.NewPublisher(e)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Publish(t.Context(), []cloudevents.Message{{Topic: outTopic, Key: []byte("k"), Value: []byte("1")}})[0]
	}
	for range 2 {
		if err := publish(); err == nil || !strings.Contains(err.Error(), "set KAFKA_CREATE_TOPICS=true") {
			t.Fatalf("published to a topic that does not exist: %v", err)
		}
	}
	e.Create, e.Replication = true, 5
	const wrong = "cannot be created with KAFKA_PARTITIONS=12 and KAFKA_REPLICATION=5: INVALID_REPLICATION_FACTOR"
	if err := publish(); err == nil || !strings.Contains(err.Error(), outTopic+" does not exist and "+wrong) {
		t.Errorf("published to a topic that cannot be created: %v", err)
	}
	r, err := kafka.NewReceiver(e)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(t.Context()))
	none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
	if _, err := r.Fetch(t.Context(), []string{inTopic}, none); err == nil || !strings.Contains(err.Error(), inTopic+" does not exist and "+wrong) {
		t.Errorf("read a topic that cannot be created: %v", err)
	}
	e.Replication = 1
	created := ""
	e.Created = func(topic string) { created += topic }
	if err := publish(); err != nil || created != outTopic {
		t.Errorf("published to a topic that can be created: %v; created: %q", err, created)
	}
	state, err := e.Inspect(t.Context(), []string{outTopic, inTopic}, nil, nil)
	if err != nil || state.Topics[0].Missing || !state.Topics[1].Missing || state.Topics[0].Partitions != e.Partitions {
		t.Errorf("state %+v, %v", state, err)
	}
}

// The marker that ends a transaction is not a message, and does not count as lag once it is read.
func TestTransactions(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if err := f.cluster.CreateTopic(inTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.options().Brokers...), kgo.TransactionalID("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: inTopic, Value: []byte("1")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	o := kafka.BridgeOptions{Options: f.options(), Group: "flunq"}
	o.Wait = 100 * time.Millisecond
	r, err := kafka.NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(t.Context()))
	none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
	var read []cloudevents.Message
	for range 20 {
		messages, err := r.Fetch(t.Context(), []string{inTopic}, none)
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, messages...)
	}
	if len(read) != 1 || r.Lags()[inTopic+"/0"] != 0 {
		t.Errorf("read %d messages, lag %v", len(read), r.Lags())
	}
}

// The lag of records that cannot be read, as those of an open transaction, is known. That of a topic whose
// end is unknown is not, instead of 0.
func TestReceiverLags(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "open", "forbidden", "unknown"))
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "forbidden", Err: kerr.TopicAuthorizationFailed, Count: -1})
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "unknown", Err: kerr.UnsupportedForMessageFormat, Count: -1})
	o := kafka.BridgeOptions{Options: f.options(), Group: "flunq"}
	for _, topic := range []string{"open", "forbidden"} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.TransactionalID(topic))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := kafka.NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(t.Context()))
	none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
	messages, err := r.Fetch(t.Context(), []string{"open", "forbidden", "unknown"}, none)
	if diff := cmp.Diff(map[string]int64{"open/0": 1, "forbidden/0": 1}, r.Lags()); diff != "" || len(messages) > 0 {
		t.Errorf("%d messages, %v: %s", len(messages), err, diff)
	}
}

// A coordinator that does not reply to a commit, which is only informative, does not delay messages.
func TestReceiverCommitHangs(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, inTopic))
	defer close(f.hangCommits())
	o := f.options()
	o.Wait, o.Timeout = 100*time.Millisecond, time.Minute
	bridgeOn(t, o).Put(inTopic, cloudevents.Message{Value: []byte("1")})
	r, err := kafka.NewReceiver(kafka.BridgeOptions{Options: o, Group: "flunq"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	fetched(t, r, 1, inTopic)
	r.Commit(t.Context(), []cloudevents.Message{{Topic: inTopic}})
	began := time.Now()
	_, err = r.Fetch(t.Context(), []string{inTopic}, func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false })
	if took := time.Since(began); err != nil || took > o.Timeout/10 {
		t.Errorf("%v after %s", err, took)
	}
}

// A topic that is deleted has no messages; once it is created again, it is read from its start.
func TestReceiverDeletedTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, inTopic))
	o := kafka.BridgeOptions{Options: f.options(), Group: "flunq"}
	o.Wait = 100 * time.Millisecond
	r, err := kafka.NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(t.Context()))
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	receive := func(want string) {
		t.Helper()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: inTopic, Value: []byte(want)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			// The broker may say that the topic is unknown.
			if messages, _ := r.Fetch(t.Context(), []string{inTopic}, none); len(messages) > 0 {
				if got := string(messages[0].Value); got != want || len(messages) > 1 {
					t.Fatalf("received %d messages, first %s, want %s", len(messages), got, want)
				}
				return
			}
		}
		t.Fatalf("%s is not received", want)
	}
	receive("old")
	if err := f.cluster.DeleteTopic(inTopic); err != nil {
		t.Fatal(err)
	}
	if err := f.cluster.CreateTopic(inTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	cl.PurgeTopicsFromClient(inTopic)
	receive("new")
}

// fetched reads topics from their beginning until n messages have arrived, and returns their values and
// the errors.
func fetched(t *testing.T, r *kafka.Receiver, n int, topics ...string) (values []string, errs []error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(values) < n; {
		messages, err := r.Fetch(t.Context(), topics, func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false })
		if errs = append(errs, err); time.Now().After(end) {
			t.Fatalf("got %v: %v", values, errors.Join(errs...))
		}
		for i := range messages {
			values = append(values, string(messages[i].Value))
		}
	}
	return values, errs
}

// A topic that must not be read is reported, while the others are read, even if they never run dry.
func TestReceiverForbiddenTopic(t *testing.T) {
	t.Parallel()
	for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.Fetch} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, kfake.SeedTopics(1, "secret", "open"))
			f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "secret", Err: kerr.TopicAuthorizationFailed, Count: -1})
			o := f.options()
			o.Wait = 100 * time.Millisecond
			e := bridgeOn(t, o)
			r, err := kafka.NewReceiver(kafka.BridgeOptions{Options: o, Group: "flunq"})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(context.WithoutCancel(t.Context()))
			stop := make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						e.Put("open", cloudevents.Message{Value: []byte("x")})
					}
				}
			})
			defer func() { close(stop); writing.Wait() }()
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				_, errs := fetched(t, r, 100, "secret", "open")
				if err := errors.Join(errs...); errors.Is(err, kerr.TopicAuthorizationFailed) && strings.Contains(err.Error(), "ACLs for Read and Describe") {
					return
				}
			}
			t.Error("the topic is not reported")
		})
	}
}

// A topic that accepts no records now is reported in the broker's words, and soon, since other topics
// wait for the end of a publication.
func TestPublisherUnavailableTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "bad", "good"))
	f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "bad", Err: kerr.NotEnoughReplicas, Count: -1})
	o := f.options()
	o.Timeout = time.Minute
	p, err := kafka.NewPublisher(kafka.BridgeOptions{Options: o, Group: "flunq"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	began := time.Now()
	errs := p.Publish(t.Context(), []cloudevents.Message{{Topic: "bad"}, {Topic: "good"}})
	if took := time.Since(began); !errors.Is(errs[0], kerr.NotEnoughReplicas) || errs[1] != nil || took > o.Timeout/3 {
		t.Errorf("%v after %s", errs, took)
	}
}

// What a broker has lost or removed is reported, and no record that follows is taken for one that was
// read before. A Kafka before 2.8 does not say whether a topic was created again.
func TestReceiverLoss(t *testing.T) {
	t.Parallel()
	again := func(f *fake) error {
		return errors.Join(f.cluster.DeleteTopic(inTopic), f.cluster.CreateTopic(inTopic, 1, nil))
	}
	remove := func(f *fake) error { return f.cluster.DeleteRecords(inTopic, 0, 3) }
	old := kfake.MaxVersions(kversion.V2_3_0())
	for _, test := range []struct {
		name, want, says string
		lose             func(*fake) error // after 0, 1 and 2
		while            string            // the bridge is: reading, idle since it was started, or stopped until 3 has arrived
		opts             []kfake.Opt
	}{
		{"removed", "34", "removed the offsets 2 to 2 before", remove, "stopped", nil},
		{"created again", "34", "lost records", again, "reading", []kfake.Opt{old}},
		{"created again, idle", "34", "messages are lost", again, "idle", []kfake.Opt{old}},
		{"created again meanwhile", "34", "messages are lost", again, "stopped", []kfake.Opt{old}},
		{"truncated and longer again", "345", "lost records", (*fake).truncate, "stopped", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, append(test.opts, kfake.SeedTopics(1, inTopic))...)
			x := newTaking(t, f)
			x.start()
			defer func() { x.stop() }()
			x.put("0")
			f.keep()
			x.put("1")
			x.until("01", "")
			if test.while != "reading" {
				x.stop()
			}
			if test.while == "idle" {
				x.start()
				x.fetch()
			}
			if test.while == "stopped" {
				x.put("2")
			}
			if err := test.lose(f); err != nil {
				t.Fatal(err)
			}
			x.put("3")
			if len(test.want) > 2 {
				x.put("4")
			}
			if test.while == "stopped" {
				x.start()
			}
			x.until("01"+test.want[:len(test.want)-1], test.says)
			x.put(test.want[len(test.want)-1:])
			x.until("01"+test.want, test.says)
			for range 5 {
				x.fetch()
			}
			if x.got != "01"+test.want {
				t.Errorf("got %s", x.got)
			}
		})
	}
}

// A loss is reported even if messages keep arriving.
func TestReceiverLossInBusyTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, inTopic))
	x := newTaking(t, f)
	x.start()
	x.put("0")
	x.until("0", "")
	x.stop()
	x.put("1")
	if err := f.cluster.DeleteRecords(inTopic, 0, 2); err != nil {
		t.Fatal(err)
	}
	x.start()
	defer x.stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(fmt.Sprint(errors.Join(x.errs...)), "removed the offsets 1 to 1 before"); x.fetch() {
		if time.Now().After(end) {
			t.Fatalf("the loss is not reported: got %s: %v", x.got, errors.Join(x.errs...))
		}
		x.put("2")
	}
}

// taking takes records as the bridge does.
type taking struct {
	t         *testing.T
	o         kafka.BridgeOptions
	r         *kafka.Receiver
	positions map[string]cloudevents.Position
	got       string
	errs      []error
}

func newTaking(t *testing.T, f *fake) *taking {
	x := &taking{t: t, o: kafka.BridgeOptions{Options: f.options(), Group: "flunq"}, positions: map[string]cloudevents.Position{}}
	x.o.Wait = 100 * time.Millisecond
	return x
}

// put appends records to the topic.
func (x *taking) put(values ...string) {
	x.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(x.o.Brokers...))
	if err != nil {
		x.t.Fatal(err)
	}
	defer cl.Close()
	for _, value := range values {
		if err := cl.ProduceSync(x.t.Context(), &kgo.Record{Topic: inTopic, Value: []byte(value)}).FirstErr(); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *taking) start() {
	x.t.Helper()
	var err error
	if x.r, err = kafka.NewReceiver(x.o); err != nil {
		x.t.Fatal(err)
	}
}

func (x *taking) stop() { x.r.Close(context.WithoutCancel(x.t.Context())) }

func (x *taking) fetch() {
	messages, err := x.r.Fetch(x.t.Context(), []string{inTopic}, func(p string) (cloudevents.Position, bool) {
		at, known := x.positions[p]
		return at, known
	})
	x.errs = append(x.errs, err)
	for i := range messages {
		m := &messages[i]
		at, known := x.positions[m.PartitionName()]
		if !known || at.Log != m.Log || m.Offset > at.Offset { // as receive.lua
			x.got += string(m.Value)
			x.positions[m.PartitionName()] = cloudevents.Position{Log: m.Log, Offset: m.Offset}
		}
	}
	x.r.Commit(x.t.Context(), messages)
}

// until fetches until it got what is wanted, and an error that says something.
func (x *taking) until(want, says string) {
	x.t.Helper()
	for end := time.Now().Add(time.Minute); x.got != want || !strings.Contains(fmt.Sprint(errors.Join(x.errs...)), says); x.fetch() {
		if time.Now().After(end) {
			x.t.Fatalf("got %s, want %s: %v, want %q", x.got, want, errors.Join(x.errs...), says)
		}
	}
}
