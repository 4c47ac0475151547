package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/sim/table"
)

// shop is a ledger on a simulated table and a Redis whose time passes on demand.
type shop struct {
	t      *testing.T
	redis  redisServer
	table  *table.Table
	index  agenda.Index
	ledger *scheduler.TableLedger
	hook   func(ctx context.Context, method, id string, carryOut func()) error
}

const (
	shopPartitions = 4
	shopLease      = 30 * time.Second
	shopBucket     = time.Minute
	shopCheck      = 5 * time.Second
)

func newShop(t *testing.T, feed scheduler.Producer) *shop {
	t.Helper()
	s := &shop{t: t, redis: inMemory(t)}
	s.index = agenda.NewIndex(s.redis.connect())
	s.table = table.New(table.Options{Now: s.now, Hook: func(ctx context.Context, method, id string, carryOut func()) error {
		if s.hook != nil {
			return s.hook(ctx, method, id, carryOut)
		}
		carryOut()
		return nil
	}})
	s.ledger = scheduler.NewTableLedger(s.table, s.index, feed)
	s.partitioned()
	return s
}

func (s *shop) now() time.Time {
	s.t.Helper()
	now, err := s.index.Now(context.WithoutCancel(s.t.Context()))
	s.check(err)
	return now
}

func (s *shop) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// partitioned sets the number of partitions, as each process does when Redis knows none.
func (s *shop) partitioned() {
	s.t.Helper()
	s.check(s.ledger.SetPartitions(s.t.Context(), 0, shopPartitions))
}

func (s *shop) event(n int, after time.Duration) schedule.Event {
	now := s.now().Truncate(time.Millisecond)
	return schedule.Event{
		Content: schedule.Content{Due: now.Add(after), Topic: "orders", Payload: []byte("{}")}, ID: uuidOf(n),
		Status: schedule.Scheduled, Version: 1, Next: now.Add(after), Created: now, Updated: now,
	}
}

// place stores the n-th event.
func (s *shop) place(n int, after time.Duration) schedule.Event {
	s.t.Helper()
	e := s.event(n, after)
	_, err := s.ledger.Place(s.t.Context(), []schedule.Event{e})
	s.check(err)
	return e
}

// claim claims what is due in all partitions, in the order of the ids.
func (s *shop) claim() (events []schedule.Event) {
	s.t.Helper()
	for p := range shopPartitions {
		claimed, err := s.ledger.Claim(s.t.Context(), schedule.Claim{Partition: p, Limit: 100, Owner: "p", Lease: shopLease})
		s.check(err)
		events = append(events, claimed.Events...)
	}
	slices.SortFunc(events, func(a, b schedule.Event) int { return strings.Compare(a.ID, b.ID) })
	return events
}

// claims fails the test unless these events are claimed now.
func (s *shop) claims(want ...int) []schedule.Event {
	s.t.Helper()
	events := s.claim()
	var ids, wanted []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	for _, n := range want {
		wanted = append(wanted, uuidOf(n))
	}
	if !slices.Equal(ids, wanted) {
		s.t.Fatalf("claimed %v, want %v", ids, wanted)
	}
	return events
}

// fire settles an event as FIRED and reports whether that took effect.
func (s *shop) fire(e schedule.Event) bool {
	s.t.Helper()
	took, err := s.ledger.Settle(s.t.Context(), schedule.Partition(e.ID, shopPartitions), []schedule.Settled{
		{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: e.Attempts + 1},
	}, s.now())
	s.check(err)
	return took[0]
}

// reconciler returns the Reconciler of a process that starts now.
func (s *shop) reconciler() *scheduler.Reconciler {
	return scheduler.NewReconciler(s.table, s.index, scheduler.ReconcilerOptions{Bucket: shopBucket, Check: shopCheck, Now: s.now})
}

func (s *shop) step(r *scheduler.Reconciler) {
	s.t.Helper()
	rest, err := r.Step(s.t.Context())
	s.check(err)
	if rest != shopCheck {
		s.t.Errorf("the reconciler rests for %s, want %s", rest, shopCheck)
	}
}

// counts returns how many entries the index has.
func (s *shop) counts() (n int64) {
	s.t.Helper()
	all, err := s.index.Counts(s.t.Context(), 0)
	s.check(err)
	for _, c := range all {
		n += c.Scheduled + c.Firing
	}
	return n
}

// When Redis has forgotten everything, one step finds all open events again: overdue ones
// whatever their age, those whose lease has ended, and those that are due in two weeks.
func TestForgottenIndex(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	r := s.reconciler()
	s.step(r)
	s.place(0, time.Minute)
	s.place(1, 15*24*time.Hour)
	s.place(2, time.Minute)
	s.place(3, 2*time.Minute)
	s.place(4, time.Minute)
	s.redis.advance(time.Minute)
	claimed := s.claims(0, 2, 4)
	if !s.fire(claimed[2]) {
		t.Fatal("event 4 was not settled")
	}
	s.redis.advance(3 * 24 * time.Hour)
	s.redis.flush()
	s.partitioned()
	s.claims()
	s.step(r)
	s.claims(0, 2, 3)
	if got := s.claims(); len(got) != 0 {
		t.Errorf("claimed once more: %v, want nothing", got)
	}
	s.redis.advance(12 * 24 * time.Hour)
	if got := s.claims(0, 1, 2, 3); got[0].Attempts != 2 || got[1].Attempts != 0 || got[3].Attempts != 1 {
		t.Errorf("the attempts are %d, %d and %d: want 2, 0 and 1", got[0].Attempts, got[1].Attempts, got[3].Attempts)
	}
}

// If Redis has lost some entries but not its mark, those that are overdue or due soon are found once per
// bucket.
func TestLostEntries(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	r := s.reconciler()
	s.step(r)
	lose := func(e schedule.Event) {
		s.check(s.index.Remove(t.Context(), []schedule.Entry{{ID: e.ID, Next: e.Next}}))
	}
	lose(s.place(0, time.Minute))
	lose(s.place(1, 10*time.Minute))
	s.redis.advance(5 * time.Second)
	s.step(r)
	if n := s.counts(); n != 0 {
		t.Errorf("the index has %d entries before the bucket has ended, want 0", n)
	}
	s.redis.advance(55 * time.Second)
	s.step(r)
	s.fire(s.claims(0)[0])
	for range 8 {
		s.redis.advance(shopBucket)
		s.step(r)
		s.claims()
	}
	s.redis.advance(shopBucket)
	s.step(r)
	s.claims(1)
}

// An event that is not yet in the index of open events when Redis forgets everything is found
// before it is due.
func TestLag(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	s.table = table.New(table.Options{Now: s.now, Lag: func() time.Duration { return 20 * time.Second }})
	s.ledger = scheduler.NewTableLedger(s.table, s.index, nil)
	r := s.reconciler()
	s.step(r)
	e := s.place(0, 2*time.Minute)
	s.redis.flush()
	s.partitioned()
	s.step(r)
	if n := s.counts(); n != 0 {
		t.Fatalf("the index has %d entries, want 0", n)
	}
	for s.now().Before(e.Due) {
		s.redis.advance(shopCheck)
		s.step(r)
	}
	s.claims(0)
}

// A reconciler without anything to do sends one command to Redis in five seconds, and reads
// the table once a minute.
func TestReconcilerIdle(t *testing.T) {
	t.Parallel()
	redis := inReality(t)
	rdb := redis.connect()
	reads := 0
	records := table.New(table.Options{Hook: func(_ context.Context, _, _ string, carryOut func()) error {
		reads++
		carryOut()
		return nil
	}})
	now := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	r := scheduler.NewReconciler(records, agenda.NewIndex(rdb), scheduler.ReconcilerOptions{
		Bucket: shopBucket, Check: shopCheck, Now: func() time.Time { return now },
	})
	index := agenda.NewIndex(rdb)
	if err := index.SetPartitions(t.Context(), 0, shopPartitions); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	commands := func() int {
		info := rdb.Info(t.Context(), "stats").Val()
		_, after, _ := strings.Cut(info, "total_commands_processed:")
		line, _, _ := strings.Cut(after, "\r\n")
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const minutes, steps = 10, 12
	reads = 0
	before := commands()
	for range minutes * steps {
		now = now.Add(shopCheck)
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := commands() - before - 1; n > minutes*steps { // one is the INFO
		t.Errorf("%d commands in %d steps, want one each", n, minutes*steps)
	}
	if reads > minutes {
		t.Errorf("the table was read %d times in %d minutes", reads, minutes)
	}
}

// errLost is what a client learns when a request or a reply is lost.
var errLost = errors.New("connection lost")

// A call that stops between the table and the index is repaired: a Place by repeating it, others
// without help.
func TestStoppedHalfway(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	// stops ends the context as soon as the table has been written.
	stops := func(do func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.hook = func(_ context.Context, method, id string, carryOut func()) error {
			carryOut()
			if !slices.Contains([]string{"Get", "List", "Open"}, method) {
				cancel()
			}
			return nil
		}
		if err := do(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("the error is %v, want that the context has ended", err)
		}
		s.hook = nil
	}
	change := func(n int, c schedule.Change) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.ledger.Change(ctx, uuidOf(n), c, s.now())
			return err
		}
	}
	s.step(s.reconciler())
	first := s.event(0, time.Minute)
	stops(func(ctx context.Context) error {
		_, err := s.ledger.Place(ctx, []schedule.Event{first})
		return err
	})
	s.redis.advance(time.Minute)
	s.claims()
	placed, err := s.ledger.Place(t.Context(), []schedule.Event{first})
	if s.check(err); placed[0].Created {
		t.Error("the event was created twice")
	}
	claimed := s.claims(0)[0]
	end := schedule.Settled{ID: claimed.ID, Version: claimed.Version, Status: schedule.Fired, Attempts: 1}
	stops(func(ctx context.Context) error {
		took, err := s.ledger.Settle(ctx, 0, []schedule.Settled{end}, s.now())
		if !took[0] {
			t.Error("Settle does not say that the end was recorded")
		}
		return err
	})
	s.redis.advance(shopLease)
	s.claims()
	if n := s.counts(); n != 0 {
		t.Errorf("the index has %d entries, want 0", n)
	}

	now := s.now().Truncate(time.Millisecond)
	s.place(1, 5*time.Minute)
	s.place(2, 5*time.Minute)
	s.place(3, 5*time.Minute)
	stops(change(1, schedule.Change{Kind: schedule.Cancel}))
	stops(change(2, schedule.Change{Kind: schedule.Move, Due: now.Add(8 * time.Minute)}))
	stops(change(3, schedule.Change{Kind: schedule.Move, Due: now.Add(2 * time.Minute)}))
	r := s.reconciler()
	for due := map[int][]int{2: {3}, 5: nil, 8: {2}}; s.now().Before(now.Add(9 * time.Minute)); s.redis.advance(time.Minute) {
		s.step(r)
		for _, e := range s.claims(due[int(s.now().Sub(now).Minutes())]...) {
			s.fire(e)
		}
	}
	if n := s.counts(); n != 0 {
		t.Errorf("the index has %d entries, want 0", n)
	}
}

// An entry with a wrong time in the index is moved to the right one, and no other process loses the
// events that it holds.
func TestWrongEntries(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	e := s.place(0, time.Minute)
	of := func(p int) schedule.Claimed {
		t.Helper()
		claimed, err := s.ledger.Claim(t.Context(), schedule.Claim{Partition: p, Limit: 10, Owner: "p", Lease: shopLease})
		if s.check(err); len(claimed.Events) != 0 {
			t.Errorf("claimed are %v, want none", claimed.Events)
		}
		return claimed
	}
	later := schedule.Change{Kind: schedule.Move, Due: e.Due.Add(10 * time.Second)}.Apply(e, s.now())
	if took, err := s.table.Replace(t.Context(), later); err != nil || !took {
		t.Fatalf("Replace returns %v, %v", took, err)
	}
	s.redis.advance(time.Minute)
	if next := of(schedule.Partition(e.ID, shopPartitions)).Next; !next.Equal(later.Due) {
		t.Errorf("next is %s, want %s: when the event is due", next, later.Due)
	}
	s.redis.advance(10 * time.Second)
	now := s.now().Truncate(time.Millisecond)
	if _, err := s.table.Claim(t.Context(), []string{e.ID}, "other", now, now.Add(20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if next := of(schedule.Partition(e.ID, shopPartitions)).Next; !next.Equal(now.Add(20 * time.Second)) {
		t.Errorf("next is %s, want %s: the end of the lease", next, now.Add(20*time.Second))
	}
	s.redis.advance(20 * time.Second)
	first := s.claims(0)[0]
	s.redis.advance(shopLease)
	second := s.claims(0)[0]
	if s.fire(first) {
		t.Error("the end of a claim whose lease has ended took effect")
	}
	if n := s.counts(); n != 1 {
		t.Errorf("the index has %d entries while another process holds the event, want 1", n)
	}
	if !s.fire(second) {
		t.Error("the end of the second claim took no effect")
	}
}

// A change overtaken by another transition is decided again.
func TestOvertakenChange(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	e := s.place(0, time.Minute)
	s.redis.advance(time.Minute)
	s.hook = func(_ context.Context, method, id string, carryOut func()) error {
		if method == "Replace" {
			s.hook = nil
			s.claims(0)
		}
		carryOut()
		return nil
	}
	out, err := s.ledger.Change(t.Context(), e.ID, schedule.Change{Kind: schedule.Cancel}, s.now())
	if s.check(err); out.Code != schedule.Conflict || out.Event.Status != schedule.Firing {
		t.Errorf("the outcome is %+v, want a conflict with the FIRING event", out)
	}
}

// While the table does not respond for some events, the others are claimed, and the former are due again
// after a second. An event whose claim was carried out although the reply was lost is claimed again
// when the lease expires.
func TestTableAway(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	const n = 20
	for i := range n {
		s.place(i, time.Minute)
	}
	s.redis.advance(time.Minute)
	s.hook = func(_ context.Context, method, id string, carryOut func()) error {
		switch id {
		case uuidOf(n - 2): // lost request
			return errLost
		case uuidOf(n - 1): // lost reply
			carryOut()
			return errLost
		}
		carryOut()
		return nil
	}
	first := s.claimSome()
	s.hook = nil
	if len(first) == 0 || slices.Contains(first, uuidOf(n-1)) || slices.Contains(first, uuidOf(n-2)) {
		t.Errorf("claimed are %v: want others than the last two", first)
	}
	s.redis.advance(time.Second)
	all := append(first, s.claimSome()...)
	slices.Sort(all)
	if len(all) != n-1 || slices.Contains(all, uuidOf(n-1)) {
		t.Errorf("claimed are %v: want all but the last", all)
	}
	s.redis.advance(shopLease - time.Second)
	for _, e := range s.claim() {
		if e.Attempts != 1 { // it is unknown whether the first was published
			t.Errorf("event %s has %d attempts, want 1", e.ID, e.Attempts)
		}
		all = append(all, e.ID)
	}
	if !slices.Contains(all, uuidOf(n-1)) {
		t.Error("the event whose reply was lost is not claimed when its lease has ended")
	}
}

// claimSome claims what it can. If there is an error, there are no events.
func (s *shop) claimSome() (ids []string) {
	s.t.Helper()
	for p := range shopPartitions {
		claimed, err := s.ledger.Claim(s.t.Context(), schedule.Claim{Partition: p, Limit: 100, Owner: "p", Lease: shopLease})
		if err != nil && len(claimed.Events) > 0 {
			s.t.Errorf("%d claimed events are lost, because of %v", len(claimed.Events), err)
		}
		for _, e := range claimed.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// topic is a Feed that keeps what is sent to it, and fails for some events.
type topic struct {
	sent  []schedule.Event
	fails bool
}

func (f *topic) Send(_ context.Context, events []schedule.Event) []error {
	errs := make([]error, len(events))
	if f.fails {
		for i := range errs {
			errs[i] = errLost
		}
		return errs
	}
	f.sent = append(f.sent, events...)
	return errs
}

// With a feed, an event is due only when a consumer has placed it again, or the reconciler has found it.
func TestFeed(t *testing.T) {
	t.Parallel()
	feed := &topic{}
	s := newShop(t, feed)
	r := s.reconciler()
	s.step(r)
	s.place(0, time.Minute)
	feed.fails = true
	s.place(1, 2*time.Minute)
	if n := s.counts(); n != 0 {
		t.Errorf("the index has %d entries, want 0", n)
	}
	consumer := scheduler.NewTableLedger(s.table, s.index, nil)
	placed, err := consumer.Place(t.Context(), feed.sent)
	if s.check(err); len(placed) != 1 || placed[0].Created {
		t.Errorf("the consumer has placed %+v, want one event that was stored before", placed)
	}
	s.redis.advance(time.Minute)
	s.fire(s.claims(0)[0])
	s.step(r)
	s.redis.advance(time.Minute)
	s.claims(1)
}

// Whatever is lost and whichever process stops halfway, each event that was acknowledged and not
// cancelled is fired, never early, never after a successful Cancel, and nothing is left.
func TestFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			newFaults(t, seed).run()
		})
	}
}

// faults is a shop in which requests, replies and all of Redis are lost at random.
type faults struct {
	*shop

	rand      *rand.Rand
	quiet     bool
	reconcile *scheduler.Reconciler
	placed    map[string]schedule.Event // requested events
	acked     map[string]bool
	asked     map[string]bool // to cancel, perhaps with an answer that was lost
	cancelled map[string]bool
	fired     map[string]int
	held      []schedule.Event // claimed, and not settled
}

func newFaults(t *testing.T, seed uint64) *faults {
	t.Helper()
	f := &faults{
		shop: newShop(t, nil), rand: rand.New(rand.NewPCG(seed, 1)),
		placed: map[string]schedule.Event{}, acked: map[string]bool{}, asked: map[string]bool{}, cancelled: map[string]bool{}, fired: map[string]int{},
	}
	f.table = table.New(table.Options{
		Now: f.now, Lag: func() time.Duration { return time.Duration(f.rand.IntN(3)) * time.Second }, Hook: f.lose,
	})
	f.restart()
	return f
}

// restart replaces the process.
func (f *faults) restart() {
	f.index = agenda.NewIndex(f.redis.connect())
	f.ledger = scheduler.NewTableLedger(f.table, f.index, nil)
	f.reconcile = f.reconciler()
}

// cancelKey is the key of the function that ends a step's context, in the context itself.
type cancelKey struct{}

// lose loses a request or its reply, or ends the step after it.
func (f *faults) lose(ctx context.Context, _, _ string, carryOut func()) error {
	const often = 25
	n := f.rand.IntN(often)
	if f.quiet {
		n = often
	}
	switch n {
	case 0:
		return errLost
	case 1:
		carryOut()
		return errLost
	case 2:
		carryOut()
		if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
			cancel()
		}
		return nil
	}
	carryOut()
	return nil
}

func (f *faults) run() {
	f.t.Helper()
	const steps, events = 400, 40
	for range steps {
		ctx, cancel := context.WithCancel(f.t.Context())
		f.turn(context.WithValue(ctx, cancelKey{}, cancel), events)
		cancel()
	}
	f.quiet = true
	f.restart()
	f.held = nil
	for range 400 {
		f.partitioned()
		f.step(f.reconcile)
		f.work(f.t.Context())
		f.settleAll(f.t.Context())
		f.redis.advance(shopCheck)
	}
	for _, id := range slices.Sorted(maps.Keys(f.placed)) {
		if f.acked[id] && !f.asked[id] && f.fired[id] == 0 {
			f.t.Errorf("event %s was acknowledged and not cancelled, but it never fired", id)
		}
	}
	for _, e := range f.table.Events() {
		if fired := f.fired[e.ID] > 0; e.Status != schedule.Cancelled && !fired {
			f.t.Errorf("event %s is %s, but was never published", e.ID, e.Status)
		}
		if e.Status.Open() {
			f.t.Errorf("event %s is left %s", e.ID, e.Status)
		}
	}
	if n := f.counts(); n != 0 {
		f.t.Errorf("the index has %d entries in the end, want 0", n)
	}
}

// turn performs one random action.
func (f *faults) turn(ctx context.Context, events int) {
	n := f.rand.IntN(events)
	switch f.rand.IntN(12) {
	case 0, 1, 2:
		f.ask(ctx, n)
	case 3:
		f.asked[uuidOf(n)] = true
		out, err := f.ledger.Change(ctx, uuidOf(n), schedule.Change{Kind: schedule.Cancel}, f.now())
		if err == nil && (out.Code == schedule.Success || out.Code == schedule.NoContent) {
			f.cancelled[uuidOf(n)] = true
		}
	case 4:
		due := f.now().Truncate(time.Millisecond).Add(time.Duration(1+f.rand.IntN(10)) * time.Minute)
		_, _ = f.ledger.Change(ctx, uuidOf(n), schedule.Change{Kind: schedule.Move, Due: due}, f.now())
	case 5, 6:
		f.work(ctx)
	case 7:
		f.settleAll(ctx)
	case 8, 9:
		_, _ = f.reconcile.Step(ctx)
	case 10:
		f.redis.advance(time.Duration(f.rand.IntN(60)) * time.Second)
	case 11:
		switch f.rand.IntN(4) {
		case 0:
			f.redis.flush()
			f.partitioned()
		case 1:
			f.restart()
			f.held = nil
		}
	}
}

// ask places an event, perhaps again.
func (f *faults) ask(ctx context.Context, n int) {
	e, known := f.placed[uuidOf(n)]
	if !known {
		e = f.event(n, time.Minute+time.Duration(f.rand.IntN(600_000))*time.Millisecond)
		f.placed[e.ID] = e
	}
	if _, err := f.ledger.Place(ctx, []schedule.Event{e}); err == nil {
		f.acked[e.ID] = true
	}
}

// work claims events and publishes them.
func (f *faults) work(ctx context.Context) {
	f.t.Helper()
	for p := range shopPartitions {
		claimed, _ := f.ledger.Claim(ctx, schedule.Claim{Partition: p, Limit: 5, Owner: "p", Lease: shopLease})
		for _, e := range claimed.Events {
			if f.cancelled[e.ID] {
				f.t.Errorf("event %s is published after a Cancel that succeeded", e.ID)
			}
			if claimed.Now.Before(e.Due) {
				f.t.Errorf("event %s is published at %s, before %s", e.ID, claimed.Now, e.Due)
			}
			f.fired[e.ID]++
			f.held = append(f.held, e)
		}
	}
}

// settleAll records the outcomes of all publications, some of which must be repeated.
func (f *faults) settleAll(ctx context.Context) {
	for _, e := range f.held {
		end := schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: e.Attempts + 1}
		if !f.quiet && f.rand.IntN(4) == 0 { // FIRING, because it may be out
			end.Status, end.Next, end.Error = schedule.Firing, f.now().Add(time.Second), fmt.Sprint(errLost)
		}
		_, _ = f.ledger.Settle(ctx, schedule.Partition(e.ID, shopPartitions), []schedule.Settled{end}, f.now())
	}
	f.held = nil
}
