//go:build unix

package torture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/store"
)

// bridging configures a process that is a bridge, or the broker.
type bridging struct {
	Broker string `json:"broker"` // address of Kafka
	Dir    string `json:"dir"`    // of the broker's data, if the process is the broker
	All    bool   `json:"all"`    // publish the engine's own events, too
}

// The topics of the tenant of these tests, and the group of its bridges.
const (
	eventsTopic  = "flunq." + tenant + ".events"
	inTopic      = "flunq." + tenant + ".in"
	resultsTopic = "results"
	bridgeGroup  = store.BridgePrefix + "kafka"
)

// options returns the options of the bridge.
func (b bridging) options() (*bridge.Options, error) {
	e := kafka.Exchange{Options: kafka.Defaults(), Group: "flunq"}
	e.Brokers, e.Timeout, e.Wait = []string{b.Broker}, time.Second, 100*time.Millisecond
	publisher, err := kafka.NewPublisher(e)
	if err != nil {
		return nil, err
	}
	receiver, err := kafka.NewReceiver(e)
	if err != nil {
		return nil, err
	}
	return &bridge.Options{
		Batch: 500, Block: 50 * time.Millisecond, Sink: publisher, Topic: "flunq.{tenant}.events", All: b.All,
		Mode: cloudevents.Mode{Prefix: cloudevents.KafkaPrefix}, Source: receiver,
		Listen: []string{"flunq.{tenant}.in", resultsTopic}, Trusted: []string{resultsTopic}, Default: tenant,
	}, nil
}

// serve is a broker that keeps its data on disk.
func (b bridging) serve(ctx context.Context) error {
	_, text, err := net.SplitHostPort(b.Broker)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(b.Dir),
		kfake.SeedTopics(partitions, eventsTopic, inTopic, resultsTopic))
	if err != nil {
		return err
	}
	<-ctx.Done()
	broker.Close()
	return nil
}

// Bridges and the broker die. Every event is published and recognised by its entry id when it is
// doubled, in the order of its execution; every record becomes one entry of the stream.
func TestBridge(t *testing.T) {
	w := begin(t)
	n, executions, span := size(1000, 20_000), size(20, 500), size(1500*time.Millisecond, 40*time.Second)
	broker := freePort(t)
	w.run(2, role{Bridging: &bridging{Broker: broker}})
	w.run(1, role{Bridging: &bridging{Broker: broker, Dir: t.TempDir()}})
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
	sender := w.kafka(broker)
	load.Go(func() { w.send(sender, n, began, span) })
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
		return w.unpublished()
	})
	doubles, missing := w.judgeOut(broker, want)
	twice, absent := w.judgeIn(n)
	w.report("events=%d in %v: missing or out of order %d, doubles %d; records=%d: missing %d, twice %d",
		n, time.Since(began).Round(time.Second), missing, doubles, n, absent, twice)
	w.want("events missing or out of order", missing, 0)
	w.want("records missing", absent, 0)
	w.want("records taken twice", twice, 0)
	w.noDeadLetters()
}

// kafka returns a client that waits for a broker that is away.
func (w *environment) kafka(broker string, opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(broker), kgo.UnknownTopicRetries(-1))...)
	w.must(err)
	w.t.Cleanup(cl.Close)
	return cl
}

// send sends n records over a span of time.
func (w *environment) send(cl *kgo.Client, n int, began time.Time, span time.Duration) {
	var failed atomic.Int64
	for i := range n {
		cl.Produce(w.t.Context(), &kgo.Record{
			Topic: inTopic, Key: fmt.Appendf(nil, "k%d", i%37), Value: event.Encode(i), Headers: attributes(fmt.Sprintf("r%d", i), "com.example.r", "", ""),
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
		if i%50 == 0 {
			time.Sleep(time.Until(began.Add(span * time.Duration(i) / time.Duration(n))))
		}
	}
	if err := cl.Flush(w.t.Context()); err != nil || failed.Load() > 0 {
		w.t.Errorf("%d records were not sent: %v", failed.Load(), err)
	}
}

// attributes returns the headers of an event from outside.
func attributes(id string, typ event.Type, execution, task string) []kgo.RecordHeader {
	var out []kgo.RecordHeader
	for _, a := range [][2]string{
		{"specversion", "1.0"}, {"id", id}, {"source", "/outside"}, {"type", string(typ)}, {"executionid", execution}, {"taskid", task},
	} {
		if a[1] != "" {
			out = append(out, kgo.RecordHeader{Key: cloudevents.KafkaPrefix + a[0], Value: []byte(a[1])})
		}
	}
	return append(out, kgo.RecordHeader{Key: "content-type", Value: []byte("application/json")})
}

// unpublished says what the bridges have not published.
func (w *environment) unpublished() string {
	groups, err := w.rdb.XInfoGroups(w.t.Context(), streamKey).Result()
	w.must(err)
	for _, g := range groups {
		if g.Name == bridgeGroup {
			if g.Lag == 0 && g.Pending == 0 {
				return ""
			}
			return fmt.Sprintf("%d unread, %d pending", g.Lag, g.Pending)
		}
	}
	return "the bridges have no group"
}

// judgeOut compares what a reader has that drops doubles by their entry ids with what it should
// have.
func (w *environment) judgeOut(broker string, want map[string][]string) (doubles, missing int) {
	w.t.Helper()
	reader := w.kafka(broker, kgo.ConsumeTopics(eventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(reader).ListEndOffsets(w.t.Context(), eventsTopic)
	w.must(err)
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	got, last := map[string]int{}, map[string]string{}
	for left > 0 {
		fetches := reader.PollFetches(w.t.Context())
		w.must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			left--
			key, entry := string(r.Key), header(r, cloudevents.EntryHeader)
			if last[key] != "" && store.CompareIDs(entry, last[key]) <= 0 {
				doubles++
				return
			}
			last[key] = entry
			if n := got[key]; n < len(want[key]) && want[key][n] == entry {
				got[key]++
			}
		})
	}
	for key, ids := range want {
		missing += len(ids) - got[key]
	}
	return doubles, missing
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// judgeIn counts the records that are entries twice, and those that are none.
func (w *environment) judgeIn(n int) (twice, missing int) {
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

// A program that speaks only Kafka performs the tasks of workflows, while workers and bridges die.
func TestBridgeExecutorOutside(t *testing.T) {
	w := begin(t)
	n, span := size(30, 1000), size(time.Second, 15*time.Second)
	broker := freePort(t)
	w.run(2, role{Workers: 2, Timers: 1, Bridging: &bridging{Broker: broker, All: true}})
	w.run(1, role{Bridging: &bridging{Broker: broker, Dir: t.TempDir()}})
	def := w.define("outside", `do:
  - reserve: {call: http, with: {method: post, endpoint: 'https://stock.invalid/reserve', body: '${ . }'}}
  - pause: {wait: PT0.01S}
  - charge: {call: http, with: {method: post, endpoint: 'https://pay.invalid/charge', body: '${ . }'}}
`)
	ids := names("x", n)
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var outside sync.WaitGroup
	outside.Go(func() { w.perform(ctx, broker) })
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
	outside.Wait()
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

// perform is the program outside.
func (w *environment) perform(ctx context.Context, broker string) {
	cl := w.kafka(broker, kgo.ConsumeTopics(eventsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	last := map[string]string{}
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			key, entry := string(r.Key), header(r, cloudevents.EntryHeader)
			if last[key] != "" && store.CompareIDs(entry, last[key]) <= 0 {
				return
			}
			last[key] = entry
			if header(r, cloudevents.KafkaPrefix+"type") != string(event.TaskRequested) {
				return
			}
			var asked event.Requested
			var input map[string]any
			if err := json.Unmarshal(r.Value, &asked); err != nil {
				w.t.Error(err)
				return
			}
			if err := json.Unmarshal(asked.Input, &input); err != nil || len(asked.Config) == 0 {
				w.t.Errorf("request %s: %v", r.Value, err)
				return
			}
			did, _ := input["did"].([]any)
			input["did"] = append(did, asked.TaskName)
			done := event.Completed{TaskID: asked.TaskID, TaskName: asked.TaskName, Success: true, Output: event.Encode(input)}
			cl.Produce(w.t.Context(), &kgo.Record{
				Topic: resultsTopic, Key: r.Key, Value: event.Encode(done),
				Headers: attributes(key+asked.TaskID+"/result", event.TaskCompleted, key, asked.TaskID),
			}, func(_ *kgo.Record, err error) {
				if err != nil {
					w.t.Error(err)
				}
			})
		})
	}
	_ = cl.Flush(w.t.Context())
}
