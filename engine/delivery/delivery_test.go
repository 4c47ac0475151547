package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

const tenant = "acme"

// consumer is a worker's consumer on an empty Redis, and the activities it reported.
type consumer struct {
	*delivery.Consumer
	mini       *miniredis.Miniredis
	activities []delivery.Activity
}

func newConsumer(t *testing.T) *consumer {
	t.Helper()
	d := &consumer{mini: miniredis.RunT(t)}
	d.mini.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	rdb, err := store.Dial(t.Context(), d.mini.Addr())
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Block = "w1", delivery.NewTenantSet(tenant), 0
	opts.Observe = func(a delivery.Activity) { d.activities = append(d.activities, a) }
	d.Consumer, err = delivery.NewConsumer(store.New(rdb, store.Options{}), opts)
	must(t, err)
	must(t, stream.New(d.Store).Groups(t.Context(), tenant))
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send publishes an event.
func (d *consumer) send(t *testing.T, id string) {
	t.Helper()
	e := event.Event{ID: id, Source: "/test", Type: "com.x", Tenant: tenant}
	must(t, d.Store.Publish(t.Context(), e))
}

// work calls handle with each message of the stream.
func (d *consumer) work(t *testing.T, handle func(context.Context, store.Message) error) error {
	t.Helper()
	f, err := d.Fetch(t.Context(), 10, 0)
	must(t, err)
	for _, m := range f.Messages {
		if m.Event.Type == event.TimerSet {
			d.Ignore(m)
		} else if err := d.Handle(t.Context(), []store.Message{m}, func() error { return handle(t.Context(), m) }); err != nil {
			return err
		}
	}
	return nil
}

// whats returns the kinds of the reported activities.
func (d *consumer) whats() []delivery.What {
	var out []delivery.What
	for _, a := range d.activities {
		out = append(out, a.What)
	}
	return out
}

// A recoverable error is retried, three deliveries in all, with growing pauses; then the
// message is a dead letter with its reason.
func TestRecoverable(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	for attempt := range 3 {
		handled := false
		must(t, d.work(t, func(ctx context.Context, m store.Message) error {
			handled = true
			if m.Attempt != attempt || m.Event.ID != "a" {
				t.Errorf("attempt %d of %s, want %d", m.Attempt, m.Event.ID, attempt)
			}
			return d.Reject(ctx, m, errors.New("not now"), event.EventDead)
		}))
		if !handled {
			t.Fatalf("attempt %d did not come", attempt)
		}
		longestPause := 200 * time.Millisecond << attempt
		if attempt < 2 {
			d.fire(t, longestPause)
		}
	}
	deadLetters, err := d.mini.Stream("tenant:acme:events:dlq")
	if err != nil || len(deadLetters) != 1 {
		t.Fatal(deadLetters, err)
	}
	if last := d.activities[len(d.activities)-1]; last.What == delivery.Broken {
		t.Error(last)
	}
}

// A message that arrives before the one it depends on is retried for longer than a lease.
func TestEarly(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	for range 11 {
		must(t, d.work(t, func(ctx context.Context, m store.Message) error {
			return d.Reject(ctx, m, delivery.As(delivery.Recoverable, fmt.Errorf("of %s: %w", m.Event.ID, delivery.ErrEarly)), event.EventDead)
		}))
		d.fire(t, 5*time.Minute)
	}
	if deadLetters, _ := d.mini.Stream("tenant:acme:events:dlq"); len(deadLetters) > 0 {
		t.Errorf("%d dead letters", len(deadLetters))
	}
}

// fire delivers a delayed message, which must be due within a time.
func (d *consumer) fire(t *testing.T, within time.Duration) {
	t.Helper()
	now, err := d.Store.Now(t.Context())
	must(t, err)
	d.mini.SetTime(now.Add(within))
	poll, err := timers.New(d.Store).Poll(t.Context(), tenant, 10)
	must(t, err)
	if n, _, err := timers.New(d.Store).Fire(t.Context(), tenant, poll, 1); err != nil || n != 1 {
		t.Fatalf("%d messages are due within %v, want 1: %v", n, within, err)
	}
}

// The class of an error depends on its type, not on its message.
func TestClasses(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context //nolint:containedctx // a case of the table
		err  error
		want delivery.Class
	}{
		{t.Context(), errors.New("a permanent timeout of redis"), delivery.Recoverable},
		{t.Context(), delivery.As(delivery.Permanent, errors.New("retry later")), delivery.Permanent},
		{t.Context(), fmt.Errorf("do: %w", delivery.As(delivery.Transient, errors.New("x"))), delivery.Transient},
		{t.Context(), context.DeadlineExceeded, ""},
		{ended, errors.New("x"), ""},
	} {
		if got := delivery.ClassOf(c.ctx, c.err); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

// A permanent error is not retried; a transient one is retried immediately.
func TestOtherClasses(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	must(t, d.work(t, func(ctx context.Context, m store.Message) error {
		return d.Reject(ctx, m, delivery.As(delivery.Permanent, errors.New("never")), "")
	}))
	if deadLetters, _ := d.mini.Stream("tenant:acme:events:dlq"); len(deadLetters) != 1 {
		t.Errorf("%d dead letters, want 1", len(deadLetters))
	}
	d.send(t, "b")
	must(t, d.work(t, func(ctx context.Context, m store.Message) error {
		return d.Reject(ctx, m, delivery.As(delivery.Transient, errors.New("at once")), "")
	}))
	d.fire(t, time.Microsecond)
}

// A poison candidate is handled in isolation, and later messages wait.
func TestIsolation(t *testing.T) {
	t.Parallel()
	var g delivery.Isolation
	plain, poisonCandidate := store.Message{ID: "1"}, store.Message{ID: "2", Crashes: 2}
	steps := []struct {
		what string
		do   func() bool
		want bool
	}{
		{"two concurrently", func() bool { first := g.Enter(plain); return g.Enter(plain) && first }, true},
		{"a candidate beside them", func() bool { return g.Enter(poisonCandidate) }, false},
		{"another while a candidate waits", func() bool { return g.Enter(plain) }, false},
		{"a candidate beside one", func() bool { g.Leave(); return g.Enter(poisonCandidate) }, false},
		{"a candidate isolated", func() bool { g.Leave(); return g.Enter(poisonCandidate) }, true},
		{"another beside a candidate", func() bool { return g.Enter(plain) }, false},
		{"a candidate beside a candidate", func() bool { return g.Enter(poisonCandidate) }, false},
		{"another after it", func() bool { g.Leave(); return g.Enter(plain) }, true},
	}
	for _, s := range steps {
		if got := s.do(); got != s.want {
			t.Fatalf("%s: %v, want %v", s.what, got, s.want)
		}
	}
}

// Each message is reported when it begins and when it is settled. Those that are ignored are held until
// they are acknowledged.
func TestHandle(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	d.send(t, "b")
	f, err := d.Fetch(t.Context(), 10, 0)
	must(t, err)
	for _, otherErr := range []error{context.DeadlineExceeded, nil} {
		if err := d.Handle(t.Context(), f.Messages, func() error { return otherErr }); !errors.Is(err, otherErr) {
			t.Errorf("%v, want %v", err, otherErr)
		}
	}
	if got, want := fmt.Sprint(d.whats()), "[began began broken broken began began done done]"; got != want {
		t.Errorf("activities %v, want %v", got, want)
	}
	d.Ignore(f.Messages[0])
	if held := d.Held(); len(held) != 1 || !held[0].Same(f.Messages[0]) {
		t.Errorf("%v held, want the ignored message", held)
	}
	if _, err := d.Fetch(t.Context(), 10, 0); err != nil || len(d.Held()) != 0 {
		t.Errorf("%v held, error %v", d.Held(), err)
	}
}

// A tenant set adds each tenant once, and only valid names.
func TestTenantSet(t *testing.T) {
	t.Parallel()
	r := delivery.NewTenantSet("b", "a", "b")
	if added := r.Add("c", "a", "C", "c", "x:y"); fmt.Sprint(added, r.Names()) != "[c] [a b c]" {
		t.Error(added, r.Names())
	}
	// Private tenants are served only if they are named.
	if added := r.Add("private.x"); len(added) > 0 || fmt.Sprint(delivery.NewTenantSet("private.x").Names()) != "[private.x]" {
		t.Error(added, r.Names())
	}
	if r.Fix(); len(r.Add("d")) > 0 {
		t.Error(r.Names())
	}
}

// A tenant's broken stream does not keep the abandoned entries of others from being claimed.
func TestClaimBesideABrokenStream(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	r := stream.Reader{Group: store.WorkerGroup, Consumer: "dead", Tenants: []string{tenant}}
	if got, err := stream.New(d.Store).Read(t.Context(), r, 1, 0); err != nil || len(got.Messages) != 1 {
		t.Fatalf("%d messages, error %v", len(got.Messages), err)
	}
	must(t, d.mini.Set(d.Store.Keys().Stream("broken"), "no stream"))
	d.mini.SetTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))
	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Block = "w2", delivery.NewTenantSet("broken", tenant), 0
	c, err := delivery.NewConsumer(d.Store, opts)
	must(t, err)
	if f, err := c.Fetch(t.Context(), 10, 0); err == nil || store.Temporary(err) || len(f.Messages) != 1 {
		t.Errorf("%d messages are claimed, error %v; want one, and the error of the broken stream", len(f.Messages), err)
	}
}

// Events that the service does not want are acknowledged, even if the stream of another tenant is broken.
func TestReadBesideABrokenStream(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	must(t, d.mini.Set(d.Store.Keys().Stream("a-broken"), "no stream"))
	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Block = "w2", delivery.NewTenantSet("a-broken", tenant), 0
	opts.Wants = func(event.Type) bool { return false }
	c, err := delivery.NewConsumer(d.Store, opts)
	must(t, err)
	for range 2 {
		_, _ = c.Fetch(t.Context(), 10, 0) // the second read acknowledges, and returns the error of the broken stream
	}
	if pending, err := d.Store.Redis().XPending(t.Context(), d.Store.Keys().Stream(tenant), store.WorkerGroup).Result(); err != nil || pending.Count != 0 {
		t.Errorf("%+v pending, error %v; want none", pending, err)
	}
}
