package tui

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// many is a source with so many timers.
func many(n int) *scripted {
	s := newScripted()
	s.rows[Timers] = nil
	for i := range n {
		s.rows[Timers] = append(s.rows[Timers], Row{ID: "t-" + strconv.Itoa(i), State: Waiting, Kind: "wait", Execution: "order-" + strconv.Itoa(i), At: when.Add(time.Duration(i) * time.Second)})
	}
	s.stand.Counts.Timers = int64(n)
	return s
}

// A long table is gone through without holding it, there and back, and misses no row.
func TestPaging(t *testing.T) {
	t.Parallel()
	const n = 6000
	p := playing(t, many(n), 80, 24, Options{}).keys("3")
	table := p.m.places[1+int(Timers)].(*listScreen).table
	check := func(want int) {
		t.Helper()
		if got := table.current().ID; got != "t-"+strconv.Itoa(want) {
			t.Fatalf("at %s, want t-%d", got, want)
		}
		if len(table.rows) > mostRows+5*chunk {
			t.Fatalf("%d rows are held", len(table.rows))
		}
	}
	at := 0
	for ; at+19 < n; at += 19 {
		check(at)
		p.keys("pgdown")
	}
	p.keys("G")
	check(n - 1)
	p.has(fmt.Sprintf("%s of %s", count(n), count(n)))
	for at = n - 1; at > 0; at = max(0, at-19) {
		check(at)
		p.keys("pgup").pass(restingTick)
	}
	p.keys("home")
	check(0)
	p.keys("end")
	check(n - 1)
	p.keys("g")
	check(0)
}

// The cursor stays on its row while rows come and go above it.
func TestCursorStays(t *testing.T) {
	t.Parallel()
	s := many(50)
	p := playing(t, s, 80, 24, Options{}).keys("3", "j", "j", "j")
	s.rows[Timers] = s.rows[Timers][2:]
	p.pass(6*time.Second).has("2 of 50", "»  ◔ in 3s")
	s.rows[Timers] = nil
	p.pass(6 * time.Second).has("no timers")
	p.keys("j", "f").has("nothing is chosen")
}
