package broker_test

import (
	"context"
	"errors"
	"testing"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/brokertest"
	"flunq.io/flunq/sim/broker"
)

func options() broker.Options {
	return broker.Options{
		Topics:        map[string]int{brokertest.Orders: brokertest.Partitions, brokertest.Requests: brokertest.Partitions, brokertest.Rejected: brokertest.Partitions},
		ScheduleTopic: brokertest.Requests, ScheduleDLQ: brokertest.Rejected, Fetch: 17,
	}
}

func TestBroker(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(*testing.T) brokertest.Environment {
		b := broker.New(options())
		return brokertest.Environment{
			Sink:    b,
			Feed:    func() brokertest.Feed { return b.Feed("a") },
			Put:     func(m schedule.Message) { b.Put(m) },
			Records: func(topic string, _ int) []schedule.Message { return b.Records(topic) },
			Committed: func() map[int32]int64 {
				out := map[int32]int64{}
				for p, offset := range b.Committed() {
					out[int32(p)] = offset
				}
				return out
			},
			Rebalance: b.Rebalance,
		}
	})
}

var errLost = errors.New("connection lost")

// The client and the topic see what the hook does to a request.
func TestHook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hook    func(carryOut func()) error
		err     error
		records int
	}{
		"lost request": {func(func()) error { return errLost }, errLost, 0},
		"lost reply":   {func(do func()) error { do(); return errLost }, errLost, 1},
		"twice":        {func(do func()) error { do(); do(); return nil }, nil, 2},
		"away":         {func(func()) error { return schedule.ErrUnreachable }, schedule.ErrUnreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options()
			opts.Hook = func(_ context.Context, request, topic string, carryOut func()) error {
				if request != "Produce" || topic != brokertest.Orders {
					t.Errorf("request %s of %s", request, topic)
				}
				return test.hook(carryOut)
			}
			b := broker.New(opts)
			e := schedule.Event{ID: "1", Content: schedule.Content{Topic: brokertest.Orders}}
			if errs := b.Publish(t.Context(), []schedule.Event{e}); !errors.Is(errs[0], test.err) {
				t.Errorf("error %v, want %v", errs[0], test.err)
			}
			if got := len(b.Records(brokertest.Orders)); got != test.records {
				t.Errorf("%d records, want %d", got, test.records)
			}
		})
	}
}

// An expelled member does not commit, and its messages are read again.
func TestExpel(t *testing.T) {
	t.Parallel()
	b := broker.New(options())
	old, other := b.Feed("old"), b.Feed("other")
	e := schedule.Event{ID: "1", Content: schedule.Content{Topic: brokertest.Orders}}
	if err := errors.Join(old.Send(t.Context(), []schedule.Event{e})...); err != nil {
		t.Fatal(err)
	}
	got, err := old.Fetch(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	b.Expel("old")
	if err := old.Commit(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if again, err := other.Fetch(t.Context()); err != nil || len(again) != 1 {
		t.Errorf("%d messages, %v: want the one that was not committed", len(again), err)
	}
}
