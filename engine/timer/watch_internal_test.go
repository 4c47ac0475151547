package timer

import (
	"testing"
	"time"
)

// noon is when the tests begin.
func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

const sleep = 4 * time.Second

// watched returns a watch after a poll at noon that found a timer.
func watched(after time.Duration) (w *Watch, a, b *Service) {
	w, a, b = NewWatch(), &Service{}, &Service{}
	w.begin(a, sleep)
	w.recordPoll(noon(), noon().Add(after))
	w.end()
	return w, a, b
}

// A service polls when a timer is due or the last poll is too long ago, and only one
// service at a time.
func TestWatchLooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		now  time.Duration // after noon
		do   func(*Watch)
		want bool
	}{
		{"nothing is due", time.Second, func(*Watch) {}, false},
		{"the timer is due", 2 * time.Second, func(*Watch) {}, true},
		{"an earlier one was set", time.Second, func(w *Watch) { w.recordSet(time.Time{}, noon().Add(time.Second)) }, true},
		{"a later one was set", time.Second, func(w *Watch) { w.recordSet(time.Time{}, noon().Add(time.Minute)) }, false},
		{"an unknown one was set", time.Second, (*Watch).invalidate, true},
		{"the clock ran backwards", -time.Second, func(*Watch) {}, true},
	} {
		w, a, b := watched(2 * time.Second)
		w.arrived(a, noon().Add(c.now))
		c.do(w)
		if got := w.begin(b, sleep); got != c.want {
			t.Errorf("%s: b polls is %t, want %t", c.name, got, c.want)
		}
		if c.want && w.begin(a, sleep) {
			t.Errorf("%s: both poll", c.name)
		}
	}
	w, a, _ := watched(time.Hour)
	w.arrived(a, noon().Add(sleep))
	if !w.begin(a, sleep) {
		t.Error("no service polls any more")
	}
}

// A timer that is set during a poll is kept when the poll ends.
func TestWatchKeepsTimersSetDuringALook(t *testing.T) {
	t.Parallel()
	w, a, _ := watched(0)
	w.begin(a, sleep)
	w.recordSet(time.Time{}, noon().Add(time.Second))
	w.recordPoll(noon(), noon().Add(time.Hour))
	if got := w.upcoming(a); !got.Equal(noon().Add(time.Second)) {
		t.Errorf("the next is at %v, want a second after noon", got)
	}
}

// One service waits for the next timer. Idle ones rest meanwhile, and busy ones block for
// their full time.
func TestWatchWaits(t *testing.T) {
	t.Parallel()
	w, a, b := watched(time.Second)
	o := Options{MaxSleep: sleep, Lookahead: 100 * time.Millisecond}
	o.Block = 2 * time.Second
	if patience, rest := w.blockFor(a, o); patience != 900*time.Millisecond || rest != nil {
		t.Errorf("a waits %v", patience)
	}
	if patience, rest := w.blockFor(b, o); patience != o.Block || rest != nil {
		t.Errorf("b, which was at work, waits %v", patience)
	}
	b.idle = true
	_, rest := w.blockFor(b, o)
	if rest == nil {
		t.Fatal("b does not rest")
	}
	w.recordSet(time.Time{}, noon().Add(50*time.Millisecond))
	if patience, rest := w.blockFor(b, o); patience != 50*time.Millisecond || rest != nil {
		t.Errorf("b knows of an earlier one and waits %v", patience)
	}
	w.arrived(b, noon().Add(50*time.Millisecond))
	select {
	case <-rest:
	default:
		t.Error("a resting service is not woken when another returns")
	}
	w.Close()
	if _, rest := w.blockFor(b, o); rest != nil {
		t.Error("b rests after Close")
	}
}

// A short read ends on time even if it is as long as Block.
func TestAlarms(t *testing.T) {
	t.Parallel()
	o := Options{Lookahead: 100 * time.Millisecond}
	o.Block = 100 * time.Millisecond
	o.Alarm = func(time.Duration) func() { return func() {} }
	if !o.alarms(o.Block) {
		t.Error("no alarm: Redis ends the read up to 100 ms after the timer is due")
	}
	if o.alarms(o.Lookahead + time.Millisecond) {
		t.Error("an alarm for a read that ends before the timer is due without one")
	}
}

// No service relies on a read that Redis may end after the timer is due, as it does up to 100 ms late
// without an alarm.
func TestWatchAllowsForLateReads(t *testing.T) {
	t.Parallel()
	w, a, b := watched(time.Second)
	o := Options{MaxSleep: sleep, Lookahead: 100 * time.Millisecond}
	o.Block = 2 * time.Second
	o.Alarm = func(time.Duration) func() { return func() {} }
	b.idle = true
	if patience, _ := w.blockFor(a, o); patience != 900*time.Millisecond {
		t.Fatalf("a waits %v", patience)
	}
	if _, rest := w.blockFor(b, o); rest == nil {
		t.Error("b does not rest, although a returns in time")
	}
	w.recordSet(time.Time{}, noon().Add(950*time.Millisecond))
	if patience, rest := w.blockFor(b, o); patience != 850*time.Millisecond || rest != nil {
		t.Errorf("b waits %v for a timer that is due before a may return, want 850ms", patience)
	}
}

// No service relies on another that began to wait before the time was known.
func TestWatchBeginsWithoutTime(t *testing.T) {
	t.Parallel()
	w, a, b := NewWatch(), &Service{}, &Service{}
	o := Options{MaxSleep: sleep, Lookahead: 100 * time.Millisecond}
	o.Block = 2 * time.Second
	w.begin(a, sleep)
	if patience, rest := w.blockFor(b, o); patience != o.Block || rest != nil {
		t.Errorf("b waits %v beside a, which polls", patience)
	}
	w.recordPoll(noon(), noon().Add(5*time.Millisecond))
	w.end()
	if patience, rest := w.blockFor(a, o); patience != 5*time.Millisecond || rest != nil {
		t.Errorf("a waits %v for a timer that is due in 5 ms", patience)
	}
}

// While one service is about to fire timers, others are not woken for them.
func TestWatchUpcoming(t *testing.T) {
	t.Parallel()
	w, a, b := watched(time.Second)
	if got, want := w.upcoming(b), noon().Add(time.Second); !got.Equal(want) {
		t.Errorf("the next timer is due at %v, want %v", got, want)
	}
	w.arrived(a, noon().Add(time.Second))
	w.begin(a, sleep)
	if got := w.upcoming(b); !got.IsZero() {
		t.Errorf("while another service polls, the next timer is at %v", got)
	}
	if got, want := w.upcoming(a), noon().Add(time.Second); !got.Equal(want) {
		t.Errorf("the polling service has to fire at %v, want %v", got, want)
	}
}
