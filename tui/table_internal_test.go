package tui

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"flunq.io/flunq/engine/history"
)

// many is a source with this many timers.
func many(n int) *scripted {
	s := newScripted()
	s.rows[Timers] = nil
	for i := range n {
		s.rows[Timers] = append(s.rows[Timers], Row{ID: "t-" + strconv.Itoa(i), State: Waiting, Kind: "wait", Execution: "order-" + strconv.Itoa(i), At: when.Add(time.Duration(i) * time.Second)})
	}
	s.overview.Counts.Timers = int64(n)
	return s
}

// A long table can be scrolled to its end and back without keeping it in memory, and no row is
// missed.
func TestLongTableIsScrolledInPages(t *testing.T) {
	t.Parallel()
	const n = 6000
	s := many(n)
	p := playing(t, s, 80, 24, Options{}).keys("3")
	table := p.m.places[1+int(Timers)].(*listScreen).table
	check := func(want int) {
		t.Helper()
		if got := table.current().ID; got != "t-"+strconv.Itoa(want) {
			t.Fatalf("the cursor is at %s, want t-%d", got, want)
		}
		if len(table.rows) > maxRows+5*chunk {
			t.Fatalf("%d rows are in memory, want at most %d", len(table.rows), maxRows+5*chunk)
		}
	}
	at := 0
	for ; at+19 < n; at += 19 {
		check(at)
		p.keys("pgdown")
	}
	p.keys("g", "j")
	check(1)
	asked := s.asked
	p.keys("G")
	check(n - 1)
	if s.asked > asked+1 {
		t.Errorf("going to the end read %d pages, want one at most", s.asked-asked)
	}
	p.has(fmt.Sprintf("%s of %s", history.Number(n), history.Number(n)))
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

// The end of a filtered table is its last match; that of a sorted table is the last loaded row.
func TestEndIsTheLastMatchOrTheLastLoadedRow(t *testing.T) {
	t.Parallel()
	p := playing(t, many(6000), 80, 24, Options{}).keys("3", "/", "'order-11", "enter", "G").has("order-1199", "111 of 111")
	p.keys("/", "ctrl+u", "'order-", "enter", "G").has("order-5999", "the last one")
	p.keys("k").has("1 row before the end").pass(10 * time.Second).has("1 row before the end")
	p.keys("g").has("1 of 200 or more")
	p.keys("esc", "s", "s", "G").has("sorted by kind among the first 5,200", "5,200 of 6,000")
	p.keys("S", "S").has("1 of 6,000").keys("G", "k", "k").has("5,998 of 6,000", "order-5999")
}

// stingy is a source that examines few rows for a page.
type stingy struct{ *scripted }

func (s stingy) Page(ctx context.Context, q Query) (Page, error) {
	filter := q.Filter
	q.Filter, q.Limit = Filter{}, 500
	p, err := s.scripted.Page(ctx, q)
	p.Rows = slices.DeleteFunc(p.Rows, func(r Row) bool { return !filter.Match(r) })
	return p, err
}

// The matches of a filter in a long table are reread automatically, and shown once the read is
// complete.
func TestFilteredRowsAreReread(t *testing.T) {
	t.Parallel()
	s := many(12_000)
	p := playing(t, stingy{s}, 80, 24, Options{}).keys("3", "/", "'order-1177", "enter").has("order-11776", "1 of 11", "12,000 looked at")
	table := p.m.places[1+int(Timers)].(*listScreen).table
	s.rows[Timers] = s.rows[Timers][5000:]
	p.pass(3*time.Second).has("1 of 10", "7,000 looked at")

	// A partial answer replaces nothing.
	table.take(table.refresh(), Page{Next: "500", Scanned: 500}, when)
	p.has("1 of 10")

	// A reread that failed continues where it was.
	table.fail(table.want(), "cannot read")
	if got := table.want().query.After; got != "500" {
		t.Errorf("the reread continues from %q, want 500", got)
	}
}

// The cursor stays on its row while rows above it appear and disappear.
func TestCursorStays(t *testing.T) {
	t.Parallel()
	s := many(50)
	p := playing(t, s, 80, 24, Options{}).keys("3", "j", "j", "j")
	s.rows[Timers] = s.rows[Timers][2:]
	p.pass(6*time.Second).has("2 of 50", "»  ◔ in 3s")
	s.rows[Timers] = nil
	p.pass(6 * time.Second).has("no timers")
	p.keys("j", "F").has("nothing is selected")
}
