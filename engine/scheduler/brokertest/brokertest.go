// Package brokertest tests the guarantees of brokers behind scheduler.Sink, scheduler.Feed and
// scheduler.Producer.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// The topics of an environment, and their partitions.
const (
	Orders   = "orders"
	Requests = "schedule_events"
	Rejected = "schedule_events.dlq"

	Partitions = 4 // of each
)

// Environment is a broker with the topics above, all of them empty.
type Environment struct {
	Sink scheduler.Sink
	Feed func() Feed // of another process
	// Put appends a record as another program would.
	Put func(schedule.Message)
	// Records waits until a topic has n records and returns all of them.
	Records func(topic string, n int) []schedule.Message
	// Committed returns the committed offsets of Requests by partition.
	Committed func() map[int32]int64
	// Rebalance, if set, moves partitions among the members of the group; otherwise members leave and
	// join.
	Rebalance func(int)
}

// Feed is a feed that can leave its group.
type Feed interface {
	scheduler.Feed
	scheduler.Producer
	Close(ctx context.Context) error
}

// Run runs all tests, or only the named ones, each in its own environment. "record" and "unknown topic"
// need only a Sink and Records, the others also a Feed.
func Run(t *testing.T, start func(t *testing.T) Environment, names ...string) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Environment)
	}{
		{"record", testRecord},
		{"unknown topic", testUnknownTopic},
		{"requests", testRequests},
		{"uncommitted", testUncommitted},
		{"poison", testPoison},
		{"other program", testOtherProgram},
		{"ledger away", testLedgerAway},
		{"rebalances", testRebalances},
	} {
		if len(names) > 0 && !slices.Contains(names, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, start(t))
		})
	}
}

// now is the time for all consumers.
func now() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

// event returns the nth event, with all that an event can have.
func event(n int) schedule.Event {
	return schedule.Event{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Status: schedule.Scheduled, Version: 1, Created: now(), Updated: now(),
		Content: schedule.Content{
			Due: now().Add(time.Hour + 7*time.Millisecond), Topic: Orders, Key: fmt.Sprintf("customer %d", n%7), Tenant: "acme",
			Headers: map[string]string{"x-trace": strconv.Itoa(n), "a\xc3\xa9": "b"}, Payload: fmt.Appendf(nil, "\x00\xff payload %d", n),
		},
	}
}

func events(n int) []schedule.Event {
	var out []schedule.Event
	for i := range n {
		out = append(out, event(i))
	}
	return out
}

func ok(t *testing.T, errs []error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A record carries the payload, and what the scheduler and CloudEvents add in headers. Its key is that of
// the event, or else its id.
func testRecord(t *testing.T, env Environment) {
	e, plain := event(1), event(2)
	e.Attempts, plain.Key, plain.Headers = 2, "", nil
	ok(t, env.Sink.Publish(t.Context(), []schedule.Event{e, plain}))
	got := env.Records(Orders, 2)
	if string(got[0].Key) != e.Key {
		slices.Reverse(got)
	}
	want := []schedule.Header{
		{Name: "a\xc3\xa9", Value: "b"},
		{Name: "ce_id", Value: e.ID},
		{Name: "ce_source", Value: "/flunq/scheduler"},
		{Name: "ce_specversion", Value: "1.0"},
		{Name: "ce_time", Value: "2026-11-24T13:00:00.007Z"},
		{Name: "ce_type", Value: "io.flunq.schedule.fired"},
		{Name: "flunq-attempt", Value: "3"},
		{Name: "flunq-scheduled-for", Value: strconv.FormatInt(e.Due.UnixMilli(), 10)},
		{Name: "x-trace", Value: "1"},
	}
	if diff := cmp.Diff(want, got[0].Headers); diff != "" {
		t.Error(diff)
	}
	if string(got[0].Key) != e.Key || string(got[0].Value) != string(e.Payload) {
		t.Errorf("key %q value %q, want %q %q", got[0].Key, got[0].Value, e.Key, e.Payload)
	}
	if string(got[1].Key) != plain.ID {
		t.Errorf("key %q of an event without one, want its id %s", got[1].Key, plain.ID)
	}
}

// An event whose topic does not exist is rejected in the end. Others are published.
func testUnknownTopic(t *testing.T, env Environment) {
	e, other := event(1), event(2)
	e.Topic = "nowhere"
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		errs := env.Sink.Publish(t.Context(), []schedule.Event{e, other})
		ok(t, errs[1:])
		if errors.Is(errs[0], schedule.ErrRefused) {
			return
		}
		if !errors.Is(errs[0], schedule.ErrUnavailable) || time.Since(began) > 20*time.Second {
			t.Fatalf("after %s: %v", time.Since(began), errs[0])
		}
	}
}

// open returns a feed that is closed when the test ends.
func open(t *testing.T, env Environment) Feed {
	t.Helper()
	feed := env.Feed()
	t.Cleanup(func() { ok(t, []error{feed.Close(context.WithoutCancel(t.Context()))}) })
	return feed
}

// fetch fetches until there are n messages, and a little longer.
func fetch(t *testing.T, feed scheduler.Feed, n int) []schedule.Message {
	t.Helper()
	var got []schedule.Message
	for began, empty := time.Now(), 0; empty < 3 && time.Since(began) < 20*time.Second; {
		some, err := feed.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, some...)
		if len(some) == 0 && len(got) >= n {
			empty++
		}
	}
	return got
}

// A request is read as it was sent.
func testRequests(t *testing.T, env Environment) {
	feed := open(t, env)
	ok(t, feed.Send(t.Context(), events(100)))
	got := fetch(t, feed, 100)
	if len(got) != 100 {
		t.Fatalf("%d messages, want 100", len(got))
	}
	offsets := map[int32]int64{}
	for _, m := range got {
		if m.Offset != offsets[m.Partition] {
			t.Fatalf("partition %d: offset %d, want %d", m.Partition, m.Offset, offsets[m.Partition])
		}
		offsets[m.Partition]++
		id, content, err := m.Request()
		if err != nil || string(m.Key) != id {
			t.Fatalf("key %q id %q: %v", m.Key, id, err)
		}
		n, _ := strconv.Atoi(id[24:])
		if want := event(n); id != want.ID || !content.Equal(want.Content) {
			t.Fatalf("event %d: %s %+v", n, id, content)
		}
	}
	if len(offsets) < 2 {
		t.Errorf("%d partitions have messages, want several", len(offsets))
	}
}

// Messages that were not committed are read again, and only those.
func testUncommitted(t *testing.T, env Environment) {
	first := env.Feed()
	ok(t, first.Send(t.Context(), events(40)))
	got := fetch(t, first, 40)
	var keep, give []schedule.Message
	for _, m := range got {
		if m.Offset < 3 {
			keep = append(keep, m)
		} else {
			give = append(give, m)
		}
	}
	if err := first.Commit(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Fetch(t.Context()); err == nil {
		t.Error("a closed feed fetches")
	}
	again := fetch(t, open(t, env), len(give))
	for i := range again {
		again[i].Headers, give[i].Headers = nil, nil
	}
	order := func(a, b schedule.Message) int { return strings.Compare(string(a.Key), string(b.Key)) }
	slices.SortFunc(again, order)
	slices.SortFunc(give, order)
	if diff := cmp.Diff(give, again); diff != "" {
		t.Error(diff)
	}
}

// ledger stores placed events.
type ledger struct {
	scheduler.Ledger

	mu     sync.Mutex
	fail   func() error
	events map[string]schedule.Event
}

// Place implements scheduler.Ledger.
func (l *ledger) Place(_ context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return nil, err
		}
	}
	if l.events == nil {
		l.events = map[string]schedule.Event{}
	}
	out := make([]schedule.Placed, len(events))
	for i, e := range events {
		stored, exists := l.events[e.ID]
		if !exists {
			stored, l.events[e.ID] = e, e
		}
		out[i] = schedule.Placed{Event: &stored, Created: !exists}
	}
	return out, nil
}

func (l *ledger) has() map[string]schedule.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.events)
}

// consumer returns a Consumer whose clock always shows now.
func consumer(feed scheduler.Feed, l scheduler.Ledger) *scheduler.Consumer {
	return scheduler.NewConsumer(feed, l, scheduler.ConsumerOptions{
		APIOptions: scheduler.APIOptions{Limits: schedule.DefaultLimits(), Tenant: "default", Now: func() time.Time { return now() }},
		Retry:      schedule.DefaultRetry(),
	})
}

// step steps a consumer until done, or for 20 seconds.
func step(t *testing.T, c *scheduler.Consumer, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); {
		if time.Since(began) > 20*time.Second {
			t.Fatal("not done within 20 seconds")
		}
		rest, _ := c.Step(t.Context())
		time.Sleep(rest)
	}
}

// Invalid requests are rejected with a reason and do not stop later ones.
func testPoison(t *testing.T, env Environment) {
	put := func(key, value string, headers ...schedule.Header) {
		env.Put(schedule.Message{Topic: Requests, Key: []byte(key), Value: []byte(value), Headers: headers})
	}
	id := func(n int) string { return event(n).ID }
	late := strconv.FormatInt(now().Add(20*24*time.Hour).Unix(), 10)
	bad := map[string]string{ // the reason by key
		"no JSON": "not a request in JSON", "no object": "not a request in JSON", "no id": "event_id is missing",
		"no topic": "topic is missing", "no time": "execute_at is missing", "late": "too late", "absurd": "before the year 10000",
		"large": "payload has", "conflict": "different content", "epoch": "want a Unix time in seconds", "base64": "not a request in JSON",
	}
	put("no JSON", "{", schedule.Header{Name: "x", Value: "y"})
	put("no object", `[1]`)
	put("no id", `{"topic":"orders","execute_at":1900000000,"payload":"YQ=="}`)
	put("no topic", `{"id":"`+id(1)+`","execute_at":1795525200,"payload":"YQ=="}`)
	put("no time", `{"id":"`+id(2)+`","topic":"orders","payload":"YQ=="}`)
	put("late", `{"id":"`+id(3)+`","topic":"orders","execute_at":`+late+`,"payload":"YQ=="}`)
	put("absurd", `{"id":"`+id(4)+`","topic":"orders","execute_at":1795525200000,"payload":"YQ=="}`)
	put("large", `{"id":"`+id(5)+`","topic":"orders","execute_at":1795525200,"payload":"`+strings.Repeat("YWFh", 100_000)+`"}`)
	put("base64", `{"id":"`+id(6)+`","topic":"orders","execute_at":1795525200,"payload":"?"}`)
	put("epoch", "payload", schedule.Header{Name: "scheduler-epoch", Value: "soon"}, schedule.Header{Name: "scheduler-target-topic", Value: Orders})
	l := &ledger{events: map[string]schedule.Event{id(7): event(7)}}
	put("conflict", `{"id":"`+id(7)+`","topic":"orders","execute_at":1795525200,"payload":"YQ=="}`)
	feed := open(t, env)
	ok(t, feed.Send(t.Context(), events(8)[7:])) // the same content: handled
	overdue := event(8)
	overdue.Due = now().Add(-24 * time.Hour)
	soon := event(9)
	soon.Due = now().Add(time.Second)
	ok(t, feed.Send(t.Context(), []schedule.Event{overdue, soon}))

	step(t, consumer(feed, l), func() bool { return len(l.has()) == 3 && len(env.Records(Rejected, 0)) == len(bad) })
	for _, m := range env.Records(Rejected, len(bad)) {
		var reason string
		for _, h := range m.Headers {
			if h.Name == "flunq-reason" {
				reason = h.Value
			}
		}
		if want := bad[string(m.Key)]; want == "" || !strings.Contains(reason, want) {
			t.Errorf("rejected %q with the reason %q, want %q", m.Key, reason, want)
		}
		if string(m.Key) == "no JSON" && (string(m.Value) != "{" || m.Headers[0] != schedule.Header{Name: "x", Value: "y"}) {
			t.Errorf("rejected %+v, want the message as it was", m)
		}
	}
}

// The messages of etf1/kafka-message-scheduler are understood.
func testOtherProgram(t *testing.T, env Environment) {
	headers := []schedule.Header{
		{Name: "scheduler-epoch", Value: "1795525200"},
		{Name: "scheduler-target-topic", Value: Orders},
		{Name: "scheduler-target-key", Value: "customer 1"},
		{Name: "x-trace", Value: "1"},
	}
	for _, key := range []string{event(1).ID, "order-1", "order-1"} {
		env.Put(schedule.Message{Topic: Requests, Key: []byte(key), Value: []byte("payload"), Headers: headers})
	}
	l := &ledger{}
	feed := open(t, env)
	step(t, consumer(feed, l), func() bool { return len(l.has()) == 3 })
	want := schedule.Content{
		Due: time.Unix(1795525200, 0).UTC(), Topic: Orders, Key: "customer 1", Tenant: "default",
		Headers: map[string]string{"x-trace": "1"}, Payload: []byte("payload"),
	}
	for id, e := range l.has() {
		if !e.Equal(want) || schedule.CheckID(id) != nil {
			t.Errorf("event %s %+v, want %+v", id, e.Content, want)
		}
	}
	if _, kept := l.has()[event(1).ID]; !kept {
		t.Error("a key that is a UUID is not the id")
	}
}

// While the ledger is away nothing is committed, and afterwards nothing is missing.
func testLedgerAway(t *testing.T, env Environment) {
	feed := env.Feed()
	ok(t, feed.Send(t.Context(), events(60)))
	l := &ledger{}
	failures := 0
	l.fail = func() error {
		if failures++; failures%3 != 0 {
			return errors.New("away")
		}
		return nil
	}
	c := consumer(feed, l)
	for range 5 {
		had := len(l.has())
		if _, err := c.Step(t.Context()); err != nil && had == 0 {
			for p, offset := range env.Committed() {
				if offset > 0 {
					t.Fatalf("partition %d is committed up to %d although nothing is stored", p, offset)
				}
			}
		}
	}
	step(t, c, func() bool { return len(l.has()) == 60 })
	if err := feed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, offset := range env.Committed() {
		total += offset
	}
	if total != 60 {
		t.Errorf("%d messages are committed, want 60", total)
	}
}

// consume steps a consumer with a feed of its own for a while, or until done.
func consume(done context.Context, t *testing.T, env Environment, l *ledger, lasts time.Duration) {
	t.Helper()
	feed := env.Feed()
	c := consumer(feed, l)
	for began := time.Now(); done.Err() == nil && time.Since(began) < lasts; {
		rest, _ := c.Step(context.WithoutCancel(done))
		time.Sleep(rest)
	}
	if err := feed.Close(context.WithoutCancel(done)); err != nil {
		t.Error(err)
	}
}

// checkCommitted fails the test if a message is committed that is not stored.
func checkCommitted(t *testing.T, env Environment, l *ledger) {
	t.Helper()
	committed, stored := env.Committed(), l.has()
	for _, m := range env.Records(Requests, 0) {
		if id, _, _ := m.Request(); m.Offset < committed[m.Partition] && stored[id].ID == "" {
			t.Errorf("partition %d is committed up to %d, but offset %d is not stored", m.Partition, committed[m.Partition], m.Offset)
		}
	}
}

// No message is lost while partitions move, and no offset is committed before the earlier messages
// are stored.
func testRebalances(t *testing.T, env Environment) {
	const messages, moves, members = 2000, 20, 2
	l := &ledger{}
	n := 0
	l.fail = func() error { // every fifth time
		if n++; n%5 == 0 {
			return errors.New("away")
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		feed := open(t, env)
		all := events(messages)
		for len(all) > 0 && ctx.Err() == nil {
			ok(t, feed.Send(ctx, all[:20]))
			all = all[20:]
			time.Sleep(10 * time.Millisecond)
		}
	})
	done, end := context.WithCancel(ctx)
	defer end()
	for i := range members {
		running.Go(func() {
			incarnations := 1 // of the members that end by themselves
			if env.Rebalance == nil {
				incarnations += moves / members
			}
			for incarnation := range incarnations {
				lasts := time.Duration(300+100*i) * time.Millisecond
				if incarnation == incarnations-1 {
					lasts = time.Hour
				}
				consume(done, t, env, l, lasts)
			}
		})
	}
	for shift := 0; ctx.Err() == nil && !t.Failed() && (len(l.has()) < messages || env.Rebalance != nil && shift < moves); shift++ {
		checkCommitted(t, env, l)
		if env.Rebalance != nil {
			env.Rebalance(shift)
		}
		time.Sleep(50 * time.Millisecond)
	}
	end()
	running.Wait()
	if got := len(l.has()); got != messages {
		t.Fatalf("%d of %d messages are stored", got, messages)
	}
	var total int64
	for _, offset := range env.Committed() {
		total += offset
	}
	if total != messages {
		t.Errorf("%d messages are committed, want %d", total, messages)
	}
}
