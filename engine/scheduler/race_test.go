package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// published counts the entries of a stream by event.
func (s *site) published(t *testing.T, topic string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, entry := range s.store.Redis().XRange(t.Context(), agenda.StreamKey(s.store.Redis(), topic), "-", "+").Val() {
		out[entry.Values["id"].(string)]++
	}
	return out
}

// each calls f for 0 to n-1, many calls concurrently.
func each(n int, f func(int)) {
	const atOnce = 64
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// Cancels race with the due time. Successfully cancelled events are never published; all others are,
// once.
func TestCancelRace(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	defer s.run(t)()
	const n = 1000
	s.schedule(t, "race", n, 200*time.Millisecond) // one each millisecond
	first, err := s.api.Get(t.Context(), uuidOf(0))
	if err != nil {
		t.Fatal(err)
	}
	var cancelled sync.Map
	each(n, func(i int) {
		due := first.Event.Due.Add(time.Duration(i) * time.Millisecond)
		time.Sleep(time.Until(due.Add(time.Duration(i%7-5) * time.Millisecond))) // -5 to 1 ms
		out, err := s.api.Change(t.Context(), uuidOf(i), schedule.Change{Kind: schedule.Cancel})
		switch {
		case err != nil:
			t.Error(err)
		case out.Code == schedule.Success:
			cancelled.Store(uuidOf(i), true)
		case out.Code != schedule.Conflict:
			t.Errorf("event %d: %+v", i, out)
		}
	})
	with := 0
	cancelled.Range(func(any, any) bool { with++; return true })
	await(t, "the others", func() bool { return len(s.published(t, "race")) >= n-with })
	for id, times := range s.published(t, "race") {
		if _, was := cancelled.Load(id); was || times != 1 {
			t.Errorf("%s: cancelled %v, published %d times", id, was, times)
		}
	}
	t.Logf("%d of %d were cancelled", with, n)
}

// Identical concurrent requests all succeed, and one of them creates the event; of different requests
// for one id, one succeeds.
func TestSameRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	defer s.run(t)()
	const n = 10_000
	var created, refused atomic.Int64
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	each(n, func(i int) {
		request := scheduler.Request{ID: uuidOf(i % 2), Content: schedule.Content{Due: at, Topic: "same", Payload: []byte("x")}}
		if i%2 == 1 {
			request.Payload = fmt.Appendf(nil, "%d", i%10) // 1, 3, 5, 7 or 9
		}
		out, err := s.api.Schedule(t.Context(), []scheduler.Request{request})
		switch {
		case err != nil:
			t.Error(err)
		case out[0].Code == schedule.Conflict && i%2 == 1:
			refused.Add(1)
		case out[0].Code != schedule.Success:
			t.Errorf("%+v", out[0])
		case out[0].Created:
			created.Add(1)
		}
	})
	if created.Load() != 2 || refused.Load() != n/2*4/5 {
		t.Errorf("%d created, %d refused, want 2 and %d", created.Load(), refused.Load(), n/2*4/5)
	}
}

// The number of partitions changes while events are scheduled and published by two processes:
// none is lost, and none is published twice.
func TestPartitionsChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *scheduler.Options) { o.Partitions, o.MemberTTL = 16, 300*time.Millisecond })
	stop := s.run(t)
	ledger := agenda.NewLedger(s.store.Redis(), agenda.Defaults())
	opts := scheduler.DefaultOptions()
	opts.Process, opts.Clock, opts.Partitions, opts.Poll, opts.MemberTTL = "p-2", time.Now, 16, 100*time.Millisecond, 300*time.Millisecond
	other, err := scheduler.New(ledger, scheduler.StreamSink{Redis: s.store.Redis()}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- other.Run(ctx, slog.New(slog.DiscardHandler)) }()

	const n = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		each(n, func(i int) {
			request := scheduler.Request{ID: uuidOf(i), After: time.Duration(100+i%900) * time.Millisecond, Content: schedule.Content{Topic: "moved", Payload: []byte("x")}}
			for range 2 { // a client that did not get the reply
				if out, err := s.api.Schedule(t.Context(), []scheduler.Request{request}); err != nil || out[0].Code != schedule.Success {
					t.Errorf("event %d: %+v, %v", i, out, err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		})
	}()
	for _, change := range [][2]int{{16, 4}, {4, 32}} {
		time.Sleep(200 * time.Millisecond)
		if err := ledger.SetPartitions(t.Context(), change[0], change[1]); err != nil {
			t.Error(err)
		}
	}
	<-done
	await(t, "the events", func() bool { return len(s.published(t, "moved")) >= n })
	stop()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for id, times := range s.published(t, "moved") {
		if times != 1 {
			t.Errorf("%s was published %d times", id, times)
		}
	}
	if left := s.store.Redis().Keys(t.Context(), "scheduler:{*}:[bs]*").Val(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
