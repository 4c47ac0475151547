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

// borrower is a process that reads for the timer services, so many entries at once.
type borrower struct {
	*store.Store

	reader store.Reader
	count  int
}

// newBorrower is a process that has read as much as it takes before anything is lent to it.
func newBorrower(t *testing.T, rdb *redis.Client, name string) *borrower {
	t.Helper()
	b := &borrower{Store: store.New(rdb, store.Options{Lend: 3}), count: 1}
	b.reader = store.Reader{Group: store.TimerGroup, Consumer: name, Tenants: []string{tenant}, Lend: true}
	b.reader.Wants = func(typ event.Type) bool { return typ == event.TimerScheduled || typ == event.TimerCancelled }
	must(t, b.Groups(t.Context(), tenant, store.TimerGroup))
	for i := range 3 {
		must(t, b.Publish(t.Context(), happened(fmt.Sprint(name, i), event.TaskCompleted)))
		if _, loan := b.read(t); loan != nil {
			t.Fatalf("read %d is lent", i)
		}
	}
	return b
}

// read reads, and acknowledges what is none of its business.
func (b *borrower) read(t *testing.T) ([]store.Message, *store.Loan) {
	t.Helper()
	var notes store.Notes
	r := b.reader
	r.Notes = &notes
	msgs, _, err := b.Read(t.Context(), r, b.count, 0)
	must(t, err)
	r.Spent = notes.Unwanted
	must(t, b.Acknowledge(t.Context(), r))
	for i := range msgs {
		if msgs[i].Loan() != notes.Loan {
			t.Errorf("message %s is of another loan", msgs[i].ID)
		}
	}
	return msgs, notes.Loan
}

// borrow reads what is to be lent to it.
func (b *borrower) borrow(t *testing.T) ([]store.Message, *store.Loan) {
	t.Helper()
	msgs, loan := b.read(t)
	if loan == nil {
		t.Fatalf("%d messages are read, want them lent", len(msgs))
	}
	return msgs, loan
}

// ask publishes an event about a timer.
func (b *borrower) ask(t *testing.T, typ event.Type, timer event.Timer) {
	t.Helper()
	e := happened(fmt.Sprint("ask-", timer.FireAt.UnixNano(), typ), typ)
	e.Tenant, e.Data = tenant, event.Encode(timer)
	must(t, b.Publish(t.Context(), e))
}

// grant does what messages ask for, and is how many were granted.
func (b *borrower) grant(t *testing.T, msgs []store.Message) (n int) {
	t.Helper()
	var wishes []store.Wish
	for i := range msgs {
		wishes = append(wishes, store.Wish{Message: &msgs[i], Timer: *msgs[i].Timer(), Back: msgs[i].Event.Type == event.TimerCancelled})
	}
	out, _, err := b.Grant(t.Context(), wishes...)
	must(t, err)
	for _, g := range out {
		must(t, g.Err)
		if g.Mine {
			n++
		}
	}
	return n
}

// stands checks how many timers are set, and how far the group is.
func stands(t *testing.T, rdb *redis.Client, timers, lag int64) {
	t.Helper()
	group := groupOf(t, rdb, store.TimerGroup)
	if n := rdb.ZCard(t.Context(), timersKey).Val(); n != timers || group.Lag != lag || group.Pending != 0 {
		t.Errorf("%d timers are set, %d entries to be read, %d pending, want %d, %d and none", n, group.Lag, group.Pending, timers, lag)
	}
}

func later(d time.Duration) event.Timer { return reminder("", time.Hour+d) }

// What is lent is done without that anybody is given it.
func TestLoan(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	b := newBorrower(t, rdb, "one")
	for i := range 2 {
		b.ask(t, event.TimerScheduled, later(time.Duration(i)))
	}
	must(t, b.Publish(t.Context(), happened("other", event.TaskCompleted)))
	b.ask(t, event.TimerScheduled, later(2))
	b.ask(t, event.TimerCancelled, later(0))

	msgs, loan := b.borrow(t)
	stands(t, rdb, 0, 5)
	if n := b.grant(t, msgs); n != 2 {
		t.Errorf("%d of %d granted, want both", n, len(msgs))
	}
	must(t, b.Keep(t.Context(), loan)) // it is settled already
	stands(t, rdb, 2, 2)
	msgs, _ = b.borrow(t)
	if n := b.grant(t, msgs); n != 2 {
		t.Errorf("%d of %d granted, want both", n, len(msgs))
	}
	stands(t, rdb, 2, 0)
	if msgs, loan = b.read(t); len(msgs) > 0 || loan != nil {
		t.Errorf("read %v, and lent %v, at the end", msgs, loan)
	}
}

// Of a loan in which there is nothing to do the group is moved over all.
func TestLoanOfOthers(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	b := newBorrower(t, rdb, "one")
	for i := range 3 {
		must(t, b.Publish(t.Context(), happened(fmt.Sprint("other", i), event.TaskCompleted)))
	}
	msgs, loan := b.borrow(t)
	stands(t, rdb, 0, 3)
	if must(t, b.Keep(t.Context(), loan)); len(msgs) > 0 {
		t.Errorf("lent %v", msgs)
	}
	stands(t, rdb, 0, 0)
}

// A loan comes to nothing when others are given what is in it, and when it is returned:
// then all of it is read.
func TestLoanToNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *borrower, *store.Loan, *redis.Client) (done int){
		"read by another": func(t *testing.T, _ *borrower, _ *store.Loan, rdb *redis.Client) int {
			other := &borrower{Store: store.New(rdb, store.Options{}), reader: reader(store.TimerGroup, "other"), count: 1}
			msgs, _ := other.read(t)
			return other.grant(t, msgs)
		},
		"returned": func(_ *testing.T, b *borrower, loan *store.Loan, _ *redis.Client) int {
			b.Return(loan)
			return 0
		},
		"group removed": func(t *testing.T, _ *borrower, _ *store.Loan, rdb *redis.Client) int {
			must(t, rdb.XGroupDestroy(t.Context(), streamKey, store.TimerGroup).Err())
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t)
			b := newBorrower(t, rdb, "one")
			for i := range 3 {
				b.ask(t, event.TimerScheduled, later(time.Duration(i)))
			}
			msgs, loan := b.borrow(t)
			done := spoil(t, b, loan, rdb)
			if n := b.grant(t, msgs); n != 0 {
				t.Errorf("%d of %d granted", n, len(msgs))
			}
			must(t, b.Keep(t.Context(), loan))
			for reads := 0; done < 3 && reads < 10; reads++ { // a group that was removed begins at the beginning
				again, loan := b.read(t)
				if loan != nil {
					t.Fatalf("%d messages are lent, want them read", len(again))
				}
				done += b.grant(t, again)
			}
			stands(t, rdb, 3, 0)
		})
	}
}

// What was taken back before it was set is not set when it is lent.
func TestLoanOfTakenBack(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	b := newBorrower(t, rdb, "one")
	b.ask(t, event.TimerScheduled, later(0))
	b.ask(t, event.TimerScheduled, later(1))
	const key = executionKey
	gone := fmt.Sprintf("gone:%s %s  %d", later(1).TaskID, later(1).Kind, later(1).FireAt.UnixNano())
	must(t, rdb.HSet(t.Context(), key, "status", "running", gone, "1", "notes", "1").Err())
	msgs, _ := b.borrow(t)
	if n := b.grant(t, msgs); n != 2 {
		t.Errorf("%d granted, want both", n)
	}
	stands(t, rdb, 1, 0)
	if rdb.HExists(t.Context(), key, gone).Val() {
		t.Error("that a timer was taken back is still noted")
	}
}

// Loans are settled in their order: one waits for that before it, and is worth nothing
// without.
func TestLoansInOrder(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"kept": true, "returned": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t)
			b := newBorrower(t, rdb, "one")
			b.reader.Often = true
			for i := range 6 {
				b.ask(t, event.TimerScheduled, later(time.Duration(i)))
			}
			first, loan := b.borrow(t)
			second, _ := b.borrow(t)
			done := make(chan int)
			go func() { done <- b.grant(t, second) }()
			select {
			case <-done:
				t.Fatal("the second is settled before the first")
			case <-time.After(20 * time.Millisecond):
			}
			want := 0
			if kept {
				want = 3
				b.grant(t, first)
			} else {
				b.Return(loan)
			}
			if n := <-done; n != want {
				t.Errorf("%d of the second granted, want %d", n, want)
			}
			stands(t, rdb, int64(2*want), int64(6-2*want))
		})
	}
}

// Who waits for a loan before its own does not wait for ever.
func TestLoanIsWaitedForInContext(t *testing.T) {
	t.Parallel()
	b := newBorrower(t, redistest.Start(t), "one")
	b.reader.Often = true
	for i := range 5 {
		b.ask(t, event.TimerScheduled, later(time.Duration(i)))
	}
	b.borrow(t)
	msgs, loan := b.borrow(t) // there is no more: the group is read when these are settled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Keep(ctx, loan); err != nil || len(msgs) != 2 {
		t.Errorf("kept %d: %v", len(msgs), err)
	}
	r := b.reader
	r.Notes = &store.Notes{}
	if _, _, err := b.Read(ctx, r, 1, 0); err == nil {
		t.Error("read while others have a loan, and nobody waits")
	}
}
