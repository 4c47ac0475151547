package playback

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/tui"
)

// maxScanned is how many rows a page searches if a filter matches few.
const maxScanned = 5000

// Page returns a part of a table: timers with the next one first, anything else with the latest one first.
func (pb *Playback) Page(_ context.Context, q tui.Query) (tui.Page, error) {
	pb.lock()
	defer pb.mu.Unlock()
	switch q.Table {
	case tui.Executions:
		return backwards(q, len(pb.begun()), func(at int) tui.Row { return pb.executionRow(pb.tracks[at]) })
	case tui.Timers:
		return pb.timers(q)
	case tui.DeadLetters:
		return backwards(q, before(pb.dead, pb.playhead.n), func(at int) tui.Row { return pb.deadLetterRow(pb.dead[at]) })
	default:
		return backwards(q, pb.playhead.n, pb.eventRow)
	}
}

// timers returns timers, the next one first.
func (pb *Playback) timers(q tui.Query) (tui.Page, error) {
	var page tui.Page
	all, _ := pb.open()
	from := 0
	switch {
	case q.After == "" && q.Back:
		from = len(all)
	case q.After != "":
		due, at, ok := strings.Cut(q.After, "/")
		nanos, err := strconv.ParseInt(due, 10, 64)
		frame, otherErr := strconv.Atoi(at)
		if !ok || err != nil || otherErr != nil {
			return page, fmt.Errorf("%q is not a position in the table", q.After)
		}
		// Rows before the timer exclude it, and so do rows after it.
		itself := -1
		if q.Back {
			itself = 1
		}
		from, _ = slices.BinarySearchFunc(all, 0, func(t *interval, _ int) int {
			return cmp.Or(cmp.Compare(t.timer.Due.UnixNano(), nanos), cmp.Compare(t.from, frame), itself)
		})
	}
	return filled(q, from, len(all), func(i int) tui.Row { return pb.timerRow(all[i]) }), nil
}

// backwards returns numbered rows, the last one first.
func backwards(q tui.Query, n int, row func(at int) tui.Row) (tui.Page, error) {
	from := 0
	switch {
	case q.After == "" && q.Back:
		from = n
	case q.After != "":
		at, err := strconv.Atoi(q.After)
		if err != nil || at < 0 {
			return tui.Page{}, fmt.Errorf("%q is not a position in the table", q.After)
		}
		from = n - min(n, at)
		if q.Back {
			from = max(0, from-1)
		}
	}
	return filled(q, from, n, func(i int) tui.Row {
		r := row(n - 1 - i)
		r.Cursor = strconv.Itoa(n - 1 - i)
		return r
	}), nil
}

// filled returns a page of matching rows from an index on, or back from it.
func filled(q tui.Query, from, many int, row func(i int) tui.Row) (page tui.Page) {
	step, end := 1, many
	if q.Back {
		from, step, end = from-1, -1, -1
		defer func() { slices.Reverse(page.Rows) }()
	}
	for i := from; i != end; i += step {
		r := row(i)
		page.Scanned++
		if q.Filter.Match(r) {
			page.Rows = append(page.Rows, r)
		}
		if (len(page.Rows) == q.Limit || page.Scanned == maxScanned) && i+step != end {
			page.Next = r.Cursor
			return page
		}
	}
	return page
}
