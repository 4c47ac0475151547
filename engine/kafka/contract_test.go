package kafka_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/brokertest"
)

// environment returns the environment of a cluster that has the topics.
func environment(t *testing.T, o kafka.Options) brokertest.Environment {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(o.Brokers...)}
	if o.Version != "" {
		opts = append(opts, kgo.MaxVersions(kversion.FromString(o.Version)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	o.Wait = 100 * time.Millisecond
	return brokertest.Environment{
		Sink: newSink(t, o),
		Feed: func() brokertest.Feed {
			feed, err := kafka.NewFeed(o)
			if err != nil {
				t.Error(err)
			}
			return feed
		},
		Put: func(m schedule.Message) {
			r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Error(err)
			}
		},
		Records: func(topic string, n int) []schedule.Message {
			var out []schedule.Message
			for _, r := range read(t, o, topic, n) {
				m := schedule.Message{Topic: topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					m.Headers = append(m.Headers, schedule.Header{Name: h.Key, Value: string(h.Value)})
				}
				out = append(out, m)
			}
			return out
		},
		Committed: func() map[int32]int64 {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
			defer cancel()
			out := map[int32]int64{}
			offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, o.Group)
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				t.Error(err)
			}
			offsets.Each(func(r kadm.OffsetResponse) { out[r.Partition] = r.At })
			return out
		},
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(t *testing.T) brokertest.Environment {
		f := newFake(t, kfake.SeedTopics(brokertest.Partitions, brokertest.Orders, brokertest.Requests, brokertest.Rejected))
		return environment(t, f.options())
	})
}

// Another implementation of Kafka's protocol, the mock cluster in librdkafka, accepts and returns the
// same records. In it every topic exists, and its committed offsets are unusable.
func TestContractMock(t *testing.T) {
	t.Parallel()
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("there is no kcat")
	}
	brokertest.Run(t, func(t *testing.T) brokertest.Environment {
		o := kafka.Defaults()
		o.Brokers, o.Version = mock(t, kcat), "2.0"
		o.Timeout, o.TopicWait = 5*time.Second, 2*time.Second
		return environment(t, o)
	}, "record", "requests")
}

// mock starts a mock cluster of three brokers and returns their addresses.
func mock(t *testing.T, kcat string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kcat, "-P", "-b", "x:1", "-X", "test.mock.num.brokers=3", "-t", "unused", "-d", "mock")
	input, err := cmd.StdinPipe() // kcat ends with it
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, addresses, ok := strings.Cut(lines.Text(), "bootstrap.servers="); ok {
			go io.Copy(io.Discard, output)
			return strings.Split(strings.TrimSpace(addresses), ",")
		}
	}
	t.Fatal("kcat names no addresses")
	return nil
}
