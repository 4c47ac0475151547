package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// A loan that comes with a read which goes wrong is given back: the stream of another
// tenant is broken, or has lost its group, and nobody waits for that loan for ever.
func TestLoanBesideTrouble(t *testing.T) {
	t.Parallel()
	const stream = "tenant:other:events"
	for name, trouble := range map[string]func(context.Context, *redis.Client) error{
		"no stream": func(ctx context.Context, rdb *redis.Client) error { return rdb.Set(ctx, stream, "text", 0).Err() },
		"no group": func(ctx context.Context, rdb *redis.Client) error {
			return rdb.XGroupDestroy(ctx, stream, store.TimerGroup).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t)
			b := newBorrower(t, rdb, "one")
			must(t, b.Groups(t.Context(), "other", store.TimerGroup))
			b.reader.Often, b.reader.Tenants = true, []string{tenant, "other"}
			for i := range 6 {
				b.ask(t, event.TimerScheduled, later(time.Duration(i)))
			}
			must(t, rdb.Del(t.Context(), stream).Err())
			must(t, b.Groups(t.Context(), "other", store.TimerGroup))
			must(t, trouble(t.Context(), rdb))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for done := 0; done < 6; {
				r := b.reader
				r.Notes = &store.Notes{}
				msgs, _, err := b.Read(ctx, r, 1, 0)
				must(t, err)
				if len(r.Notes.Found) > 1 {
					t.Errorf("found %v, want it of one tenant", r.Notes.Found)
				}
				done += b.grant(t, msgs)
				if r.Notes.Loan != nil {
					must(t, b.Keep(ctx, r.Notes.Loan))
				}
			}
			stands(t, rdb, 6, 0)
		})
	}
}

// Of a loan in which something cannot be done nothing is: what has fired meanwhile would
// be set, and fire, once more.
func TestLoanOfWhatCannotBe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	b := newBorrower(t, rdb, "one")
	keyed, wrong := later(1), later(2)
	keyed.Key, wrong.Execution = "k", "wrong"
	must(t, rdb.Set(t.Context(), "tenant:acme:execution:wrong", "text", 0).Err())
	for _, one := range []event.Timer{later(0), keyed, wrong} {
		b.ask(t, event.TimerScheduled, one)
	}
	msgs, _ := b.borrow(t)
	if n := b.grant(t, msgs); n != 0 {
		t.Errorf("%d of %d granted", n, len(msgs))
	}
	stands(t, rdb, 0, 3)
	if left := rdb.Keys(t.Context(), "*timer*").Val(); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

// A timer that was taken back before it was set, and asked for once more, is set then.
func TestTakenBackOnce(t *testing.T) {
	t.Parallel()
	for _, lend := range []bool{false, true} {
		t.Run(fmt.Sprint("lent ", lend), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t)
			b := newBorrower(t, rdb, "one")
			b.reader.Lend = lend
			gone := fmt.Sprintf("gone:%s %s  %d", later(0).TaskID, later(0).Kind, later(0).FireAt.UnixNano())
			must(t, rdb.HSet(t.Context(), executionKey, "status", "running", gone, "1", "notes", "1").Err())
			for range 2 {
				b.ask(t, event.TimerScheduled, later(0))
			}
			b.count = 2
			msgs, loan := b.read(t)
			if n := b.grant(t, msgs); n != 2 || lend != (loan != nil) {
				t.Errorf("%d granted, lent %v", n, loan)
			}
			stands(t, rdb, 1, 0)
		})
	}
}

// What is lent is not set for an execution that has ended.
func TestLoanOfEnded(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	b := newBorrower(t, rdb, "one")
	must(t, rdb.HSet(t.Context(), executionKey, "status", "completed").Err())
	ofOther := later(1)
	ofOther.Execution = "x-2"
	b.ask(t, event.TimerScheduled, later(0))
	b.ask(t, event.TimerScheduled, ofOther)
	msgs, _ := b.borrow(t)
	if n := b.grant(t, msgs); n != 2 {
		t.Errorf("%d of %d granted, want both", n, len(msgs))
	}
	stands(t, rdb, 1, 0)
}
