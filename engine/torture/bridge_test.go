//go:build unix

package torture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/nats"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// bridging configures a process that is a bridge, or the broker.
type bridging struct {
	NATS   bool   `json:"nats"`   // the broker is a nats-server, else a fake of Kafka
	Broker string `json:"broker"` // its address
	Dir    string `json:"dir"`    // of the broker's data, if the process is the broker
	All    bool   `json:"all"`    // publish the engine's own events, too
}

// partitions is the number of partitions of each topic.
const partitions = 4

// The topics of the tenant of these tests.
const (
	eventsTopic  = "flunq." + tenant + ".events"
	inTopic      = "flunq." + tenant + ".in"
	resultsTopic = "flunq." + tenant + ".results"
)

// group returns the group of the bridges on the stream.
func (b bridging) group() string {
	if b.NATS {
		return store.BridgePrefix + "nats"
	}
	return store.BridgePrefix + "kafka"
}

// options returns the options of the bridge.
func (b bridging) options() (*bridge.Options, error) {
	opts := &bridge.Options{Batch: 500, Block: 50 * time.Millisecond, Topic: "flunq.{tenant}.events", Emitted: true, Own: b.All, Default: tenant}
	if b.NATS {
		client, err := nats.New(b.nats())
		opts.Sink, opts.Source, opts.Mode = client, client, cloudevents.Mode{Prefix: cloudevents.NATSPrefix}
		opts.Listen, opts.Trusted = []string{"flunq.{tenant}.in.>", "flunq.{tenant}.results.>"}, []string{"flunq.{tenant}.results.>"}
		return opts, err
	}
	e := kafka.BridgeOptions{Options: kafka.Defaults(), Group: "flunq"}
	e.Brokers, e.Timeout, e.Wait = []string{b.Broker}, time.Second, 100*time.Millisecond
	publisher, err := kafka.NewPublisher(e)
	if err != nil {
		return nil, err
	}
	receiver, err := kafka.NewReceiver(e)
	opts.Sink, opts.Source, opts.Mode = publisher, receiver, cloudevents.Mode{Prefix: cloudevents.KafkaPrefix}
	opts.Listen, opts.Trusted = []string{"flunq.{tenant}.in", "flunq.{tenant}.results"}, []string{"flunq.{tenant}.results"}
	return opts, err
}

func (b bridging) nats() nats.Options {
	o := nats.Defaults()
	o.URL, o.Create, o.Timeout, o.Wait = "nats://"+b.Broker, true, time.Second, 100*time.Millisecond
	return o
}

// serve runs a broker that keeps its data on disk, until ctx ends.
func (b bridging) serve(ctx context.Context) error {
	if b.NATS { // the process becomes the server
		host, port, err := net.SplitHostPort(b.Broker)
		if err != nil {
			return err
		}
		binary, err := exec.LookPath(natsServer)
		if err != nil {
			return err
		}
		return syscall.Exec(binary, []string{natsServer, "-js", "-sd", b.Dir, "-a", host, "-p", port}, os.Environ())
	}
	broker, err := b.kafka()
	if err != nil {
		return err
	}
	<-ctx.Done()
	broker.Close()
	return nil
}

// kafka starts a fake of Kafka, with all topics if it has no data yet.
func (b bridging) kafka() (*kfake.Cluster, error) {
	_, port, err := net.SplitHostPort(b.Broker)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(number), kfake.DataDir(b.Dir), kfake.SeedTopics(partitions,
		eventsTopic, inTopic, resultsTopic, topic, kafka.Defaults().ScheduleTopic, kafka.Defaults().ScheduleDLQ))
}

// runBroker starts a process that is the broker. Kafka's topics are on disk before: a fake that is killed
// while it writes them first would never have them.
func (w *environment) runBroker(b bridging) {
	w.t.Helper()
	b.Dir = w.t.TempDir()
	if !b.NATS {
		broker, err := b.kafka()
		w.must(err)
		broker.Close()
	}
	w.run(1, role{Bridging: &b})
}

const natsServer = "nats-server"

// brokers runs a test with each broker.
func brokers(t *testing.T, run func(w *environment, b bridging)) {
	for name, b := range map[string]bridging{"kafka": {}, "nats": {NATS: true}} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(natsServer); b.NATS && err != nil {
				t.Skip("NATS NOT TESTED: no nats-server in the PATH (apt-get install nats-server)")
			}
			w := begin(t)
			b.Broker = redistest.FreeAddr(t)
			run(w, b)
		})
	}
}

// Bridges and the broker die. Every event is published, in the order of its execution, and duplicates
// can be recognised by their entry ids; every record becomes one entry of the stream.
func TestBridge(t *testing.T) {
	if !*full {
		t.Parallel()
	}
	brokers(t, (*environment).bridges)
}

func (w *environment) bridges(b bridging) {
	t := w.t
	n, executions, span := size(1000, 20_000), size(20, 500), size(1500*time.Millisecond, 40*time.Second)
	w.run(2, role{Bridging: &b})
	w.runBroker(b)
	began := time.Now()
	want := map[string][]string{}
	var load sync.WaitGroup
	load.Go(func() {
		const each = 50
		for i := 0; i < n; i += each {
			pipe := w.rdb.Pipeline()
			ids, keys := make([]*redis.StringCmd, each), make([]string, each)
			for j := range each {
				keys[j] = fmt.Sprintf("x-%d", (i*7+j*j)%executions)
				e := event.Event{ID: fmt.Sprintf("e%d", i+j), Source: "/torture", Type: "com.example.e", Execution: keys[j], Data: event.Encode(i + j)}
				ids[j] = pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey, Values: e.Fields()})
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Error(err)
				return
			}
			for j, id := range ids {
				want[keys[j]] = append(want[keys[j]], id.Val())
			}
			time.Sleep(time.Until(began.Add(span * time.Duration(i) / time.Duration(n))))
		}
	})
	program := b.outside(w)
	load.Go(func() {
		ctx := w.within(span)
		for i := 0; i < n && ctx.Err() == nil; i++ {
			m := cloudevents.Message{Topic: inTopic, Key: fmt.Appendf(nil, "k%d", i%37), Value: event.Encode(i)}
			m.Headers = program.attributes(fmt.Sprintf("r%d", i), "com.example.r", "", "")
			program.send(ctx, m)
			if i%50 == 0 {
				time.Sleep(time.Until(began.Add(span * time.Duration(i) / time.Duration(n))))
			}
		}
		program.flush(ctx)
	})
	w.during(span, map[string]int{"kill": size(4, 30), "kill broker": size(1, 5)}, func(what string) {
		if what == "kill broker" {
			w.kill(2)
		} else {
			w.kill(w.random(2))
		}
	})
	load.Wait()
	w.until(func() string {
		if length := w.rdb.XLen(t.Context(), streamKey).Val(); length < int64(2*n) {
			return fmt.Sprintf("%d of %d entries", length, 2*n)
		}
		return w.unpublished(b.group())
	})
	duplicates, missing := w.checkPublished(program, want)
	twice, absent := w.checkTaken(n)
	w.report("events=%d in %v: missing or out of order %d, duplicates %d; records=%d: missing %d, twice %d",
		n, time.Since(began).Round(time.Second), missing, duplicates, n, absent, twice)
	w.want("events missing or out of order", missing, 0)
	w.want("records missing", absent, 0)
	w.want("records taken twice", twice, 0)
	w.noDeadLetters()
}

// outside is a program that communicates only with the broker.
type outside interface {
	// attributes returns the headers of an event.
	attributes(id string, typ event.Type, execution, task string) []cloudevents.Header
	// send sends a message, as soon as the broker is back if it is away; flush waits for all.
	send(ctx context.Context, m cloudevents.Message)
	flush(ctx context.Context)
	// published returns how many events the broker has.
	published(ctx context.Context) int64
	// read calls take with each published event, those of an execution in order, until it returns false.
	read(ctx context.Context, take func(m cloudevents.Message) bool)
}

func (b bridging) outside(w *environment) outside {
	w.t.Helper()
	if b.NATS {
		conn, err := natsio.Connect("nats://"+b.Broker, natsio.RetryOnFailedConnect(true), natsio.MaxReconnects(-1), natsio.ReconnectWait(100*time.Millisecond))
		w.must(err)
		w.t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		w.must(err)
		return natsProgram{w, js}
	}
	return &kafkaProgram{w: w, broker: b.Broker, client: kafkaClient(w, b.Broker)}
}

// attributes returns the headers of an event from outside.
func attributes(prefix, id string, typ event.Type, execution, task string) []cloudevents.Header {
	var out []cloudevents.Header
	for _, a := range [][2]string{
		{"specversion", "1.0"}, {"id", id}, {"source", "/outside"}, {"type", string(typ)}, {"executionid", execution}, {"taskid", task},
	} {
		if a[1] != "" {
			out = append(out, cloudevents.Header{Name: prefix + a[0], Value: a[1]})
		}
	}
	return out
}

type kafkaProgram struct {
	w      *environment
	broker string
	client *kgo.Client
	failed atomic.Int64
}

// kafkaClient returns a client that waits for a broker that is away.
func kafkaClient(w *environment, broker string, opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(broker), kgo.UnknownTopicRetries(-1))...)
	w.must(err)
	w.t.Cleanup(cl.Close)
	return cl
}

func (k *kafkaProgram) attributes(id string, typ event.Type, execution, task string) []cloudevents.Header {
	return attributes(cloudevents.KafkaPrefix, id, typ, execution, task)
}

func (k *kafkaProgram) send(ctx context.Context, m cloudevents.Message) {
	r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	k.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			k.failed.Add(1)
		}
	})
}

func (k *kafkaProgram) flush(ctx context.Context) {
	if err := k.client.Flush(ctx); err != nil || k.failed.Load() > 0 {
		k.w.t.Errorf("%d records were not sent: %v", k.failed.Load(), err)
	}
}

func (k *kafkaProgram) published(ctx context.Context) (n int64) {
	ends, err := kadm.NewClient(k.client).ListEndOffsets(ctx, eventsTopic)
	k.w.must(err)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

func (k *kafkaProgram) read(ctx context.Context, take func(m cloudevents.Message) bool) {
	reader := kafkaClient(k.w, k.broker, kgo.ConsumeTopics(eventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for on := true; on && ctx.Err() == nil; {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			m := cloudevents.Message{Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, cloudevents.Header{Name: h.Key, Value: string(h.Value)})
			}
			on = on && take(m)
		})
	}
}

type natsProgram struct {
	w  *environment
	js jetstream.JetStream
}

func (n natsProgram) attributes(id string, typ event.Type, execution, task string) []cloudevents.Header {
	return attributes(cloudevents.NATSPrefix, id, typ, execution, task)
}

// send sends a message repeatedly until the server has it, which drops duplicates.
func (n natsProgram) send(ctx context.Context, m cloudevents.Message) {
	msg := &natsio.Msg{Subject: m.Topic + ".outside", Data: m.Value, Header: natsio.Header{}}
	for _, h := range m.Headers {
		msg.Header.Set(h.Name, h.Value)
	}
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err := n.js.PublishMsg(short, msg, jetstream.WithMsgID(m.Header(cloudevents.NATSPrefix+"id")))
		cancel()
		if err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	n.w.t.Errorf("message %s was not sent: %v", m.Value, ctx.Err())
}

func (n natsProgram) flush(context.Context) {}

// stream returns the stream of the bridges once they have created it.
func (n natsProgram) stream(ctx context.Context) jetstream.Stream {
	for {
		s, err := n.js.Stream(ctx, nats.Defaults().Stream)
		if err == nil || ctx.Err() != nil {
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (n natsProgram) published(ctx context.Context) (count int64) {
	info, err := n.stream(ctx).Info(ctx, jetstream.WithSubjectFilter(eventsTopic+".>"))
	n.w.must(err)
	for _, c := range info.State.Subjects {
		count += int64(c)
	}
	return count
}

func (n natsProgram) read(ctx context.Context, take func(m cloudevents.Message) bool) {
	if n.stream(ctx) == nil {
		return
	}
	consumer, err := n.js.OrderedConsumer(ctx, nats.Defaults().Stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{eventsTopic + ".>"}})
	if err != nil {
		n.w.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	arrived := make(chan jetstream.Msg)
	reading, err := consumer.Consume(func(msg jetstream.Msg) {
		select {
		case arrived <- msg:
		case <-ctx.Done():
		}
	})
	if err != nil {
		n.w.t.Error(err)
		return
	}
	defer reading.Stop()
	for {
		select {
		case msg := <-arrived:
			m := cloudevents.Message{Value: msg.Data()}
			for name, values := range msg.Headers() {
				m.Headers = append(m.Headers, cloudevents.Header{Name: name, Value: values[0]})
			}
			m.Key = []byte(m.Header(cloudevents.NATSPrefix + "executionid"))
			if !take(m) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// unpublished describes what the bridges have not published.
func (w *environment) unpublished(group string) string {
	groups, err := w.rdb.XInfoGroups(w.t.Context(), streamKey).Result()
	w.must(err)
	for _, g := range groups {
		if g.Name == group {
			if g.Lag == 0 && g.Pending == 0 {
				return ""
			}
			return fmt.Sprintf("%d unread, %d pending", g.Lag, g.Pending)
		}
	}
	return "the bridges have no group"
}

// checkPublished reads all published events. It returns the number of duplicates, and of events that are
// missing or out of order for a reader that drops duplicates by their entry ids.
func (w *environment) checkPublished(program outside, want map[string][]string) (duplicates, missing int) {
	w.t.Helper()
	ctx := w.within(0)
	left := program.published(ctx)
	got, last := map[string]int{}, map[string]string{}
	program.read(ctx, func(m cloudevents.Message) bool {
		left--
		key, entry := string(m.Key), m.Header(cloudevents.EntryHeader)
		if last[key] != "" && store.CompareIDs(entry, last[key]) <= 0 {
			duplicates++
			return left > 0
		}
		last[key] = entry
		if n := got[key]; n < len(want[key]) && want[key][n] == entry {
			got[key]++
		}
		return left > 0
	})
	for key, ids := range want {
		missing += len(ids) - got[key]
	}
	return duplicates, missing
}

// checkTaken counts the records that became two entries, and those that became none.
func (w *environment) checkTaken(n int) (twice, missing int) {
	w.t.Helper()
	seen := map[string]int{}
	w.stream(streamKey, func(e redis.XMessage) {
		if e.Values["type"] == "com.example.r" {
			seen[fmt.Sprint(e.Values["id"])]++
		}
	})
	for i := range n {
		switch c := seen[fmt.Sprintf("r%d", i)]; {
		case c == 0:
			missing++
		case c > 1:
			twice += c - 1
		}
	}
	return twice, missing
}

// A program that communicates only with the broker performs the tasks of workflows, while workers,
// bridges and the broker die.
func TestBridgeExecutorOutside(t *testing.T) {
	if !*full {
		t.Parallel()
	}
	brokers(t, (*environment).executorOutside)
}

func (w *environment) executorOutside(b bridging) {
	t := w.t
	n, span := size(30, 1000), size(time.Second, 15*time.Second)
	b.All = true
	w.run(2, role{Workers: 2, Timers: 1, Bridging: &b})
	w.runBroker(b)
	def := w.define("outside", `do:
  - reserve: {call: http, with: {method: post, endpoint: 'https://stock.invalid/reserve', body: '${ . }'}}
  - pause: {wait: PT0.01S}
  - charge: {call: http, with: {method: post, endpoint: 'https://pay.invalid/charge', body: '${ . }'}}
`)
	ids := names("x", n)
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var performing sync.WaitGroup
	performing.Go(func() { w.perform(ctx, b.outside(w)) })
	var load sync.WaitGroup
	load.Go(func() {
		for i, id := range ids {
			w.start(id, def, map[string]int{"n": i})
			if i%20 == 0 {
				time.Sleep(time.Until(began.Add(span * time.Duration(i) / time.Duration(n))))
			}
		}
	})
	w.during(span, map[string]int{"kill": size(2, 20), "kill broker": size(1, 3)}, func(what string) {
		if what == "kill broker" {
			w.kill(2)
		} else {
			w.kill(w.random(2))
		}
	})
	load.Wait()
	w.until(func() string {
		counts, err := w.store.Counts(t.Context(), tenant)
		w.must(err)
		if counts.Completed < int64(n) {
			return fmt.Sprintf("%+v of %d", counts, n)
		}
		return ""
	})
	stop()
	performing.Wait()
	for i, id := range ids {
		x, err := w.store.Execution(t.Context(), tenant, id)
		w.must(err)
		if want := fmt.Sprintf(`{"did":["reserve","charge"],"n":%d}`, i); string(x.Output) != want {
			t.Errorf("output of %s: %s, want %s", id, x.Output, want)
		}
	}
	w.report("%d workflows in %v", n, time.Since(began).Round(time.Second))
	w.noDeadLetters()
}

// perform performs the tasks that are requested, once each, until ctx ends.
func (w *environment) perform(ctx context.Context, program outside) {
	sending, last := w.within(0), map[string]string{}
	program.read(ctx, func(m cloudevents.Message) bool {
		key, entry := string(m.Key), m.Header(cloudevents.EntryHeader)
		if last[key] != "" && store.CompareIDs(entry, last[key]) <= 0 {
			return true
		}
		last[key] = entry
		e, err := cloudevents.Decode(&m, "")
		if err != nil || e.Type != event.TaskRequested {
			return err == nil || !w.t.Failed()
		}
		var asked event.Requested
		var input map[string]any
		if err := json.Unmarshal(m.Value, &asked); err != nil {
			w.t.Error(err)
			return false
		}
		if err := json.Unmarshal(asked.Input, &input); err != nil || len(asked.Config) == 0 {
			w.t.Errorf("request %s: %v", m.Value, err)
			return false
		}
		did, _ := input["did"].([]any)
		input["did"] = append(did, asked.TaskName)
		done := event.Completed{TaskID: asked.TaskID, TaskName: asked.TaskName, Success: true, Output: event.Encode(input)}
		program.send(sending, cloudevents.Message{
			Topic: resultsTopic, Key: m.Key, Value: event.Encode(done),
			Headers: program.attributes(key+asked.TaskID+"/result", event.TaskCompleted, key, asked.TaskID),
		})
		return true
	})
	program.flush(sending)
}
