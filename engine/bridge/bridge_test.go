package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/bridge/bridgetest"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/sim/broker"
)

func TestContract(t *testing.T) {
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T) bridgetest.Environment {
		t.Helper()
		const out, in, secure = "flunq.acme.events", "flunq.acme.in", "secure"
		b := broker.NewExchange(4, out, in, secure)
		b.Largest = 5000
		return bridgetest.Environment{
			Connect: func() (bridge.Sink, bridge.Source) { return b.Client(), b.Client() },
			Put: func(topic string, m cloudevents.Message) {
				m.Topic = topic
				if err := b.Put(m); err != nil {
					t.Error(err)
				}
			},
			Records: func(topic string, _ int) []cloudevents.Message { return b.Records(topic) },
			Prefix:  cloudevents.KafkaPrefix, Out: out, In: in, Secure: secure, TooLarge: 6000,
		}
	})
}

// One process at a time is the bridge of a tenant. Another one takes over when the first gives the tenant
// up, or when its lease is over.
func TestOwner(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	st := store.New(rdb, store.Options{})
	owner := func(process string, lease time.Duration) []string {
		own, err := stream.New(st).Own(t.Context(), []string{"a", "b"}, process, lease)
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	if got := owner("one", time.Hour); len(got) != 2 {
		t.Fatalf("the first process owns %v", got)
	}
	if got := owner("two", time.Hour); len(got) != 0 {
		t.Fatalf("the second process owns %v", got)
	}
	owner("two", 0) // it gives up nothing that is not its own
	if got := owner("one", time.Hour); len(got) != 2 {
		t.Fatalf("the first process owns %v", got)
	}
	owner("one", 0)
	if got := owner("two", time.Millisecond); len(got) != 2 {
		t.Fatalf("after one has given up, the second process owns %v", got)
	}
	for len(owner("three", time.Hour)) < 2 { // until the lease is over
	}
	if got := owner("four", time.Minute); len(got) != 0 { // as after the clock of Redis has gone back
		t.Fatalf("the fourth process owns %v", got)
	}
	for _, tenant := range []string{"a", "b"} {
		if left := rdb.PTTL(t.Context(), st.Keys().BridgeOwner(tenant)).Val(); left > time.Minute {
			t.Errorf("tenant %s: a lease of %s is left, longer than the one that another process asks for", tenant, left)
		}
	}
}

// lagging is a source of which three messages are unread while it can be read.
type lagging struct {
	bridge.Source
	err error
}

// Fetch implements bridge.Source.
func (l *lagging) Fetch(context.Context, []string, func(string) (cloudevents.Position, bool)) ([]cloudevents.Message, error) {
	return nil, l.err
}

// Lags implements bridge.Source.
func (l *lagging) Lags() map[string]int64 {
	if l.err != nil {
		return nil
	}
	return map[string]int64{"flunq.acme.in/0": 3}
}

// A process reports no lags of topics that it cannot read, and none once it is no longer the bridge of a
// tenant. It reports that a broker has lost messages.
func TestLags(t *testing.T) {
	t.Parallel()
	const topic = "flunq.acme.in"
	exchange := broker.NewExchange(1, topic)
	tenants := delivery.NewTenantSet("acme")
	tenants.Fix()
	var lags map[string]int64
	var what bridge.What
	source := &lagging{Source: exchange.Client()}
	b, err := bridge.New(store.New(redistest.Start(t), store.Options{}), bridge.Options{
		Process: "p", Tenants: tenants, Lease: time.Minute, Group: "bridge-kafka", Batch: 20, Block: time.Millisecond,
		Sink: exchange.Client(), Topic: "flunq.{tenant}.events", Source: source, Listen: []string{"flunq.{tenant}.in"},
		Lag: func(l map[string]int64) { lags = l }, Observe: func(a bridge.Activity) { what = a.What },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.In.Step(t.Context()); err != nil || lags[topic+"/0"] != 3 {
		t.Errorf("the bridge of acme reports %v, %v", lags, err)
	}
	source.err = fmt.Errorf("%w: 3 of them", cloudevents.ErrLost)
	if _, err := b.In.Step(t.Context()); !errors.Is(err, source.err) || len(lags) > 0 || what != bridge.Lost {
		t.Errorf("after a loss it reports %v, %s, %v", lags, what, err)
	}
	source.err = nil
	b.Close() // as if another process had taken over
	if _, err := b.In.Step(t.Context()); err != nil || len(lags) > 0 {
		t.Errorf("afterwards: %v, %v", lags, err)
	}
}

// A topic that was deleted and created again is read from its beginning.
func TestTakeOfAnotherLog(t *testing.T) {
	t.Parallel()
	st := store.New(redistest.Start(t), store.Options{})
	take := func(log string, offset int64) bool {
		first, err := stream.New(st).Take(t.Context(), "acme", []stream.Taken{{Partition: "in/0", Log: log, Offset: offset, Fields: []string{"type", "t"}}})
		if err != nil {
			t.Fatal(err)
		}
		return first[0]
	}
	for _, test := range []struct {
		log    string
		offset int64
		want   bool
	}{{"a", 5, true}, {"a", 5, false}, {"a", 4, false}, {"a", 6, true}, {"b", 0, true}, {"b", 0, false}, {"", 0, true}, {"", 0, false}} {
		if got := take(test.log, test.offset); got != test.want {
			t.Errorf("log %q, offset %d: taken %v, want %v", test.log, test.offset, got, test.want)
		}
	}
	positions, err := stream.New(st).Positions(t.Context(), "acme")
	if err != nil || positions["in/0"] != (stream.Position{Offset: 0}) {
		t.Errorf("positions %v, %v", positions, err)
	}
}

// Names of topics that would mix tenants, or send events in circles, are refused.
func TestOptions(t *testing.T) {
	t.Parallel()
	good := bridge.Options{Batch: 1, Topic: "flunq.{tenant}.events", Listen: []string{"flunq.{tenant}.in", "orders", "flunq.*.in.>", "flunq.{tenant}.*", "flunq.shop.events.>"}, Trusted: []string{"orders"}, Tenants: delivery.NewTenantSet()}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*bridge.Options){
		"BRIDGE_BATCH":                        func(o *bridge.Options) { o.Batch = 0 },
		"{tenant} in the name":                func(o *bridge.Options) { o.Topic = "events" },
		"would read its own events":           func(o *bridge.Options) { o.Listen = append(o.Listen, o.Topic) },
		`and reads "flunq.{tenant}.events.>"`: func(o *bridge.Options) { o.Listen = append(o.Listen, o.Topic+".>") },
		`and reads "flunq.>"`:                 func(o *bridge.Options) { o.Listen = append(o.Listen, "flunq.>") },
		`and reads "flunq.{tenant}.>"`:        func(o *bridge.Options) { o.Listen = append(o.Listen, "flunq.{tenant}.>") },
		`and reads "*.>"`:                     func(o *bridge.Options) { o.Listen = append(o.Listen, "*.>") },
		`and reads "flunq.*.events.*.paid"`:   func(o *bridge.Options) { o.Listen = append(o.Listen, "flunq.*.events.*.paid") },
		"not one of":                          func(o *bridge.Options) { o.Trusted = []string{"other"} },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
