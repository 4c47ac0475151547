package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
)

// A message that is too large for the dead letter topic does not block later ones: the published record
// says where it is.
func TestFeedRejectsLarge(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "schedule_events"))
	if err := f.cluster.CreateTopic("schedule_events.dlq", 1, map[string]string{"max.message.bytes": "500"}); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.Compression = "none"
	feed, err := kafka.NewFeed(o)
	if err != nil {
		t.Fatal(err)
	}
	m := schedule.Message{Topic: "schedule_events", Partition: 3, Offset: 7, Key: []byte("key"), Value: make([]byte, 1000)}
	if err := feed.Reject(t.Context(), m, "no request"); err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := read(t, o, "schedule_events.dlq", 1)
	if len(got) != 1 || string(got[0].Key) != "key" || len(got[0].Value) != 0 || string(got[0].Headers[3].Value) != "7" {
		t.Errorf("records %+v, want one without a value and with the offset 7", got)
	}
}

// If the schedule topic does not exist, readers and senders of requests learn what creates it.
func TestFeedUnknownTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed, err := kafka.NewFeed(f.options())
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close(t.Context())
	_, fetched := feed.Fetch(t.Context())
	sent := feed.Send(t.Context(), events(1, "orders"))[0]
	for _, err := range []error{fetched, sent} {
		if !errors.Is(err, schedule.ErrUnavailable) || !strings.Contains(err.Error(), `topic schedule_events does not exist ("flunq schedule init" creates it)`) {
			t.Errorf("error %v", err)
		}
	}
}

// The requests of a transaction that is aborted are not read.
func TestFeedOfAbortedTransaction(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "schedule_events"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.options().Brokers...), kgo.TransactionalID("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for value, commit := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "schedule_events", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	o := f.options()
	o.Wait = 100 * time.Millisecond
	feed, err := kafka.NewFeed(o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for end := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(end); {
		messages, err := feed.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			got = append(got, string(m.Value))
		}
	}
	for range 5 {
		messages, _ := feed.Fetch(t.Context())
		for _, m := range messages {
			got = append(got, string(m.Value))
		}
	}
	if err := feed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"committed"}) {
		t.Errorf("read %v", got)
	}
}

// A coordinator that does not reply to commits delays neither Fetch nor the move of a partition to another
// process.
func TestFeedCommitHangs(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(2, "schedule_events"))
	defer close(f.hangCommits())
	o := f.options()
	o.Wait = 100 * time.Millisecond
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "schedule_events"}, &kgo.Record{Topic: "schedule_events", Partition: 1}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var feeds []*kafka.Feed
	for _, want := range []int{2, 1} { // the second process reads the message of the partition that moves again
		feed, err := kafka.NewFeed(o)
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close(context.WithoutCancel(t.Context()))
		feeds = append(feeds, feed)
		for end := time.Now().Add(time.Minute); want > 0; {
			for _, one := range feeds {
				began := time.Now()
				messages, err := one.Fetch(t.Context())
				if took := time.Since(began); took > 15*time.Second || time.Now().After(end) {
					t.Fatalf("%d messages left, %v after %s", want, err, took)
				}
				if one == feed {
					want -= len(messages)
				}
				if len(messages) == 0 {
					continue
				}
				if err := one.Commit(t.Context(), messages); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// The partitions of a process that was killed move to another one well within half a minute: Kafka's own
// default is 45 s, longer than the lease of an event.
func TestFeedOfKilled(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "schedule_events"))
	var killed atomic.Bool
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup, kmsg.OffsetCommit} {
		f.cluster.ControlKey(key.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
			f.cluster.KeepControl()
			var member string
			switch r := request.(type) {
			case *kmsg.HeartbeatRequest:
				member = r.MemberID
			case *kmsg.JoinGroupRequest:
				member = r.MemberID
			case *kmsg.OffsetCommitRequest:
				member = r.MemberID
			}
			if killed.Load() && strings.HasPrefix(member, "victim") {
				return nil, errors.New("the process is dead"), true
			}
			return nil, nil, false
		})
	}
	o := f.options()
	o.Wait = 100 * time.Millisecond
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "schedule_events"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"victim", "heir"} {
		o.ClientID = name
		feed, err := kafka.NewFeed(o)
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close(context.WithoutCancel(t.Context()))
		for began := time.Now(); ; {
			if messages, _ := feed.Fetch(t.Context()); len(messages) > 0 {
				t.Logf("%s reads after %s", name, time.Since(began))
				break
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s reads nothing", name)
			}
		}
		killed.Store(true)
	}
}

// A topic that was deleted and created again is read from its beginning.
func TestFeedOfRecreatedTopic(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(2, "schedule_events"))
	o := f.options()
	o.Wait = 100 * time.Millisecond
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	feed, err := kafka.NewFeed(o)
	if err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(cl)
	for n := range 3 {
		var failed error
		if n > 0 {
			if _, err := admin.DeleteTopics(t.Context(), "schedule_events"); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); failed == nil && time.Now().Before(end); {
				_, failed = feed.Fetch(t.Context())
			}
			if failed == nil || strings.Contains(failed.Error(), "\n") {
				t.Errorf("the deleted topic: %v, want one error", failed)
			}
			if _, err := admin.CreateTopics(t.Context(), 2, 1, nil, "schedule_events"); err != nil {
				t.Fatal(err)
			}
		}
		producer, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...)) // it knows no former topic
		if err != nil {
			t.Fatal(err)
		}
		err = producer.ProduceSync(t.Context(), &kgo.Record{Topic: "schedule_events"}).FirstErr()
		if producer.Close(); err != nil {
			t.Fatal(err)
		}
		read := 0
		for end := time.Now().Add(time.Minute); read == 0 && time.Now().Before(end); {
			var messages []schedule.Message
			messages, failed = feed.Fetch(t.Context())
			read = len(messages)
			if read > 0 {
				failed = feed.Commit(t.Context(), messages)
			}
		}
		if read != 1 || failed != nil {
			t.Fatalf("topic %d: %d requests, %v, want 1", n, read, failed)
		}
	}
	if err := feed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Requests that were removed before the group read them are reported, once.
func TestFeedOfRemovedRequests(t *testing.T) {
	t.Parallel()
	f := newFake(t, kfake.SeedTopics(1, "schedule_events"))
	o := f.options()
	o.Wait = 100 * time.Millisecond
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(n int) {
		t.Helper()
		for range n {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "schedule_events"}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// take reads n requests with a new member of the group and returns its errors.
	take := func(n int) (errs []error) {
		t.Helper()
		feed, err := kafka.NewFeed(o)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); n > 0 && time.Now().Before(end); {
			messages, err := feed.Fetch(t.Context())
			if err != nil {
				errs = append(errs, err)
			}
			if n -= len(messages); len(messages) > 0 {
				if err := feed.Commit(t.Context(), messages); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 10 {
			if _, err := feed.Fetch(t.Context()); err != nil {
				errs = append(errs, err)
			}
		}
		if err := feed.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return errs
	}
	put(3)
	if errs := take(3); len(errs) > 0 {
		t.Error(errs)
	}
	put(5)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{"schedule_events": {0: {Topic: "schedule_events", At: 6}}}); err != nil {
		t.Fatal(err)
	}
	if errs := take(2); len(errs) != 1 || !strings.Contains(errs[0].Error(), "schedule_events/0 has removed the offsets 3 to 5 before group scheduler-consumer read them") {
		t.Errorf("%v, want one loss", errs)
	}
}
