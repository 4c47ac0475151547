package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// isReply reports whether a command answers requests; eval sends a script for the first
// time.
func isReply(name string) bool { return name == "evalsha" || name == "eval" }

// A batch that only computes is read, computed and answered in two round trips, whatever its size.
// Events that are not requests are acknowledged with the next read.
func TestComputeTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 1, 0)
		s.request(t, "warm", setTask) // so that Redis has the script
		s.step(t, 0)
		s.step(t, 0)
		s.tap.counts()
		var want []string
		for i := range 3 {
			s.publish(t, event.Event{ID: fmt.Sprint("other", i), Source: "/test", Type: "com.x", Tenant: tenant})
			want = append(want, fmt.Sprint("q", i))
			s.request(t, want[i], setTask)
		}
		s.step(t, 0)
		if got := s.tap.counts(); fmt.Sprint(got) != "map[evalsha:1 pipeline:1]" {
			t.Errorf("sent %v, want a read and a reply", got)
		}
		s.wantReplies(t, append(want, "warm")...)
		for _, e := range s.replies(t)[1:] {
			var c event.Completed
			must(t, decide.DecodeData(e, &c))
			if !c.Success || string(c.Output) != `{"n":1}` || c.DurationMS != 0 || e.Time.Before(time.Unix(1, 0)) {
				t.Errorf("%s at %v: %+v", e.ID, e.Time, c)
			}
		}
		s.wantNothingLeft(t)
	})
}

// A reply is never older than its request, whatever the clocks do.
func TestComputeNeverBeforeTheRequest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 1, 0)
		e := s.requested("q", setTask)
		e.Time = time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		s.publish(t, e)
		s.step(t, 0)
		if got := s.replies(t); len(got) != 1 || !got[0].Time.Equal(e.Time) {
			t.Errorf("%v, want one at %v", got, e.Time)
		}
	})
}

// One batch contains tasks that compute and call, an unreadable request, an unknown definition, a
// poison candidate and an event that is not a request. Each is settled correctly.
func TestMixedBatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 2, 0)
		s.request(t, "set1", setTask)
		s.request(t, "ask1", callTask)
		s.publish(t, event.Event{ID: "other", Source: "/test", Type: "com.x", Tenant: tenant})
		s.publish(t, func() event.Event { e := s.requested("garbage", setTask); e.Data = []byte(`{`); return e }())
		s.publish(t, func() event.Event { e := s.requested("odd", setTask); e.Data = []byte(`{"task_id":7}`); return e }())
		s.publish(t, func() event.Event {
			e := s.requested("liar", setTask)
			e.Data = event.Encode(event.Requested{TaskID: callTask})
			return e
		}())
		s.request(t, "set2", setTask)

		s.step(t, 0) // computes immediately
		s.wantReplies(t, "set1", "set2")
		if n := s.calls.Load(); n != 0 {
			t.Errorf("%d calls while the first batch was computed, want 0", n)
		}
		if got := s.held(); fmt.Sprint(got) != "[ask1 garbage odd liar]" && fmt.Sprint(got) != "[ask1 garbage liar odd]" {
			t.Errorf("%v are held, want ask1, garbage, odd and liar", got)
		}
		for range 6 {
			s.step(t, 0)
			s.step(t, 1)
		}
		s.wantReplies(t, "set1", "set2", "ask1", "liar")
		deadLetters, err := rdb.XRange(t.Context(), deadKey, "-", "+").Result()
		must(t, err)
		var dead []string
		for _, l := range deadLetters {
			dead = append(dead, fmt.Sprint(l.Values["id"]))
		}
		if slices.Sort(dead); !slices.Equal(dead, []string{"garbage", "odd"}) {
			t.Errorf("dead letters %v, want garbage and odd", dead)
		}
		s.wantNothingLeft(t)
		if n := s.calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// A claim lost during a batch costs that task its reply, and no other.
func TestLostInBatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 1, 0)
		for i := range 3 {
			s.request(t, fmt.Sprint("q", i), setTask)
		}
		stolen := ""
		s.tap.set(func(name string) error {
			if isReply(name) && stolen == "" {
				stolen = s.inbox.Held()[1].ID
				return rdb.XClaimJustID(t.Context(), &redis.XClaimArgs{
					Stream: streamKey, Group: store.ExecutorGroup, Consumer: "thief", Messages: []string{stolen},
				}).Err()
			}
			return nil
		}, nil)
		s.step(t, 0)
		s.wantReplies(t, "q0", "q2")
		s.step(t, 0) // reads the replies
		s.step(t, 0) // acknowledges them
		if n := s.pending(t); n != 1 || len(s.inbox.Held()) != 0 {
			t.Errorf("%d pending, %v held, want one of the thief", n, s.inbox.Held())
		}
	})
}

// A request that is lost before it is computed is not computed.
func TestLostBeforeComputed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 1, 0)
		s.request(t, "ask", callTask)
		s.request(t, "set", setTask)
		s.tap.set(func(name string) error {
			if isReply(name) {
				s.inbox.Lost(s.inbox.Held())
			}
			return nil
		}, nil)
		s.step(t, 0) // the batch; the call is lost while it waits
		s.step(t, 0)
		if s.calls.Load() != 0 || len(s.held()) != 0 {
			t.Errorf("%d calls, %v held", s.calls.Load(), s.held())
		}
	})
}

// A request that was lost and regained before its first task ended is performed again
// after that.
func TestLostAndClaimedAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSiteWith(t, rdb, 2, func(o *delivery.Options) { o.Block = 0 })
		s.request(t, "ask", callTask)
		s.call = func() {
			s.call = nil
			held := s.inbox.Held()
			s.inbox.Lost(held)
			must(t, rdb.Do(t.Context(), "XCLAIM", streamKey, store.ExecutorGroup, "e1", 0, held[0].ID, "IDLE", time.Hour.Milliseconds(), "JUSTID").Err())
			s.step(t, 1)
		}
		s.step(t, 0)
		if got := s.held(); len(got) != 1 {
			t.Errorf("%v held, want the request", got)
		}
		s.step(t, 0)
		s.wantReplies(t, "ask")
		s.wantNothingLeft(t)
		if n := s.calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// Whatever Redis does in the middle of a batch, no task is performed twice, and each is
// reported once.
func TestRedisFailsInBatch(t *testing.T) {
	t.Parallel()
	down := func(name string) error {
		if isReply(name) {
			return errDown
		}
		return nil
	}
	for what, cut := range map[string]func(*tap){
		"before": func(h *tap) { h.set(down, nil) },
		"after":  func(h *tap) { h.set(nil, down) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb wire.Redis) {
				s := newSite(t, rdb, 2, 0)
				ids := append(names("set", 4), names("ask", 2)...)
				for _, id := range ids {
					ref := setTask
					if strings.HasPrefix(id, "ask") {
						ref = callTask
					}
					s.request(t, id, ref)
				}
				cut(&s.tap)
				for i := range 4 {
					if _, err := s.services[i%2].Step(t.Context()); !errors.Is(err, errDown) {
						t.Fatalf("step %d: %v, want that of Redis", i, err)
					}
				}
				if n := len(s.held()); n != len(ids) {
					t.Errorf("%d held, want %d", n, len(ids))
				}
				s.tap.set(nil, nil)
				for range 10 {
					s.step(t, 0)
				}
				s.wantReplies(t, ids...)
				for id, n := range s.times(delivery.Performed) {
					if n != 1 {
						t.Errorf("%s was done %d times", id, n)
					}
				}
				s.wantNothingLeft(t)
				if n := s.calls.Load(); n != 2 {
					t.Errorf("%d calls, want 2", n)
				}
			})
		})
	}
}

// Calls begin during a batch.
func TestCallsBeginBesideABatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 4, 20*time.Millisecond)
		begun := make(chan struct{})
		s.call = func() { close(begun) }
		s.tap.set(func(name string) error {
			if isReply(name) {
				select {
				case <-begun:
				case <-time.After(patience):
					t.Error("the call did not begin before the batch was answered")
				}
			}
			return nil
		}, nil)
		ids := names("set", 20)
		for _, id := range ids {
			s.request(t, id, setTask)
		}
		s.request(t, "ask", callTask)
		s.work(t)
		until(t, "replies", func() bool { return len(s.replies(t)) == len(ids)+1 })
		s.wantReplies(t, append(ids, "ask")...)
	})
}

// One executor reads for all; idle ones send nothing.
func TestOneReads(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 8, 5*time.Millisecond)
		var reading, peak, reads atomic.Int64
		s.tap.set(func(name string) error {
			if name == "pipeline" {
				reads.Add(1)
				peak.Store(max(peak.Load(), reading.Add(1)))
			}
			return nil
		}, func(name string) error {
			if name == "pipeline" {
				reading.Add(-1)
			}
			return nil
		})
		s.work(t)
		s.request(t, "ask", callTask)
		until(t, "reads", func() bool { return reads.Load() > 20 && len(s.replies(t)) == 1 })
		if n := peak.Load(); n != 1 {
			t.Errorf("%d read concurrently, want 1", n)
		}
	})
}

// While Redis is down, one idle executor tries to read, and not all of them one after another.
func TestOneReadsWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		s := newSite(t, rdb, 8, 5*time.Millisecond)
		var reads atomic.Int64
		s.tap.set(func(name string) error {
			if name == "pipeline" {
				reads.Add(1)
				return store.Failed("read", errDown)
			}
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		failed, again := make(chan error, len(s.services)), make(chan struct{})
		var wg sync.WaitGroup
		for _, one := range s.services {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := one.Step(ctx); err != nil {
						failed <- err
						<-again
					}
				}
			})
		}
		if err := <-failed; !errors.Is(err, errDown) {
			t.Errorf("the first step returns %v", err)
		}
		select {
		case err := <-failed:
			t.Errorf("another one returns %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
		s.tap.set(nil, nil)
		s.request(t, "ask", callTask)
		close(again)
		until(t, "the reply", func() bool { return len(s.replies(t)) == 1 })
		s.inbox.Close()
		cancel()
		wg.Wait()
	})
}

// Two processes share the work, each task is done once, and all are reported.
func TestTwoInboxes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		one := newSite(t, rdb, 6, 10*time.Millisecond)
		two := newSite(t, rdb, 6, 10*time.Millisecond)
		// Each call waits for the other process, so neither may have read all of them.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		beside := func(other *site) func() {
			return func() {
				for other.calls.Load() == 0 {
					select {
					case <-ctx.Done():
						return
					case <-time.After(time.Millisecond):
					}
				}
			}
		}
		one.call, two.call = beside(two), beside(one)
		ids := append(names("set", 200), names("ask", 200)...)
		for i, id := range ids {
			ref := setTask
			if i >= 200 {
				ref = callTask
			}
			one.request(t, id, ref)
		}
		one.work(t)
		two.work(t)
		until(t, "replies", func() bool { return len(one.replies(t)) >= len(ids) })
		one.wantReplies(t, ids...)
		until(t, "acknowledgements", func() bool { return one.pending(t) == 0 })
		if a, b := one.calls.Load(), two.calls.Load(); a+b != 200 || a == 0 || b == 0 {
			t.Errorf("%d and %d calls, want 200 shared by both", a, b)
		}
	})
}
