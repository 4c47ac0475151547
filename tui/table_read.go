package tui

import (
	"slices"
	"time"
)

// request is what a table asks its source for.
type request struct {
	query Query
	turn  int
	fresh bool // the answer replaces the window
	took  time.Duration
}

// ask begins a request.
func (t *table) ask(after string, limit int, fresh bool) *request {
	t.turn++
	t.asked = true
	return &request{query: Query{Table: t.kind, Filter: t.filter, After: after, Limit: limit}, turn: t.turn, fresh: fresh}
}

// refresh reads the window again.
func (t *table) refresh() *request {
	t.pending, t.seen, t.goOn, t.used = nil, 0, "", 0
	return t.ask(t.head, t.size(), true)
}

// size is how many rows are read again.
func (t *table) size() int {
	most := mostRows
	if t.sort != 0 {
		most = mostSorted
	}
	return max(chunk, min(most, len(t.rows)))
}

// last asks for the end of the list, however far that is.
func (t *table) last() *request {
	r := t.ask("", mostRows/2, true)
	r.query.Back = true
	return r
}

// before asks for what is above the window.
func (t *table) before() *request {
	r := t.ask(t.up, chunk, false)
	r.query.Back = true
	return r
}

// stale reports whether the window should be read again.
func (t *table) stale(now time.Time) bool {
	every := 2 * time.Second
	if t.sort != 0 || len(t.rows) > 2*chunk {
		every = 5 * time.Second
	}
	return t.loaded && !t.asked && now.Sub(t.readAt) >= max(every, rest*t.cost)
}

// want is what the window lacks, if anything.
func (t *table) want() *request {
	switch {
	case t.asked:
		return nil
	case t.sort == 0 && t.toEnd:
		return t.last()
	case !t.loaded:
		return t.refresh()
	case t.goOn != "":
		return t.ask(t.goOn, max(1, t.size()-len(t.pending)), true)
	case t.sort != 0 && t.next != "" && len(t.rows) < mostSorted:
		return t.ask(t.next, 5*chunk, false)
	case t.sort != 0:
		return nil
	case t.next != "" && t.cursor+2*t.height >= len(t.rows):
		return t.ask(t.next, chunk, false)
	case t.head != "" && t.cursor < t.height:
		return t.before()
	default:
		return nil
	}
}

// take takes up an answer; what was asked for before something else is passed over.
func (t *table) take(r *request, p Page, at time.Time) {
	if r.turn != t.turn {
		return
	}
	known := t.loaded
	t.asked, t.loaded, t.problem, t.readAt = false, true, "", at
	switch {
	case r.query.Back && r.fresh:
		t.finish(p)
		t.cost = r.took
	case r.query.Back:
		t.prepend(p)
		t.cost += r.took
	case r.fresh:
		if t.gather(r, p); known && t.goOn != "" {
			t.put(t.soFar(p.Until))
			return
		}
		rows := t.pending
		t.looked, t.cost, t.next, t.pending, t.goOn = t.seen, t.used, p.Next, nil, ""
		t.put(rows)
	default:
		t.rows, t.next = append(t.rows, p.Rows...), p.Next
		t.after = max(0, t.after-len(p.Rows))
		t.looked += p.Looked
		t.cost += r.took
	}
	t.arrange()
	t.slide()
	if t.toEnd {
		t.cursor = len(t.rows) - 1
		t.toEnd = t.sort != 0 && t.next != "" && len(t.rows) < mostSorted
	}
	t.cursor, t.early = t.cursor+t.early, 0
	t.clamp()
}

// gather adds a page to what is read again, and notes where that goes on if it is not
// complete.
func (t *table) gather(r *request, p Page) {
	t.pending, t.goOn = append(t.pending, p.Rows...), ""
	t.seen, t.used = t.seen+p.Looked, t.used+r.took
	if p.Next != "" && len(p.Rows) < r.query.Limit {
		t.goOn = p.Next
	}
}

// soFar are the rows that were read again up to a moment, and the old ones behind it.
func (t *table) soFar(until time.Time) []Row {
	if until.IsZero() {
		return t.rows
	}
	known := map[string]bool{}
	for _, r := range t.pending {
		known[r.ID] = true
	}
	old := slices.DeleteFunc(slices.Clone(t.rows), func(r Row) bool {
		behind := r.At.Compare(until)
		if t.kind != Timers {
			behind = -behind
		}
		return behind <= 0 || known[r.ID]
	})
	return slices.Concat(t.pending, old)
}

// put puts rows in the place of the old ones. The cursor stays on its row, and the
// row where it is on the screen.
func (t *table) put(rows []Row) {
	kept, line := t.current().ID, t.cursor-t.offset
	t.rows = rows
	if t.head != "" && len(t.rows) > 0 {
		t.up = t.rows[0].Cursor
	}
	if !t.moved {
		t.cursor, t.offset = 0, 0
		return
	}
	t.arrange()
	if at := slices.IndexFunc(t.rows, func(r Row) bool { return r.ID == kept }); at >= 0 {
		t.cursor, t.offset = at, at-line
	}
}

// finish puts the window at the end of the list.
func (t *table) finish(p Page) {
	t.rows, t.looked, t.next, t.goOn = t.above(p), p.Looked, "", ""
	t.past, t.after, t.ended = 0, 0, t.head != ""
}

// prepend puts rows before the window, and leaves some at its end behind.
func (t *table) prepend(p Page) {
	rows := t.above(p)
	t.rows = slices.Concat(rows, t.rows)
	t.looked += p.Looked
	t.cursor, t.offset, t.past = t.cursor+len(rows), t.offset+len(rows), max(0, t.past-len(rows))
	if t.head == "" {
		t.past, t.ended = 0, false
	}
	if over := len(t.rows) - mostRows; over > 0 {
		t.rows = slices.Clone(t.rows[:mostRows])
		t.next, t.after = t.rows[mostRows-1].Cursor, t.after+over
	}
}

// above are rows that were read upwards. The first of them is left out if there are
// others before it: it is the one behind which the window begins.
func (t *table) above(p Page) []Row {
	t.head, t.up = p.Next, p.Next
	if len(p.Rows) < 2 || p.Rows[0].Cursor != p.Next {
		return p.Rows
	}
	t.up = p.Rows[1].Cursor
	return p.Rows[1:]
}

// slide leaves rows behind when there are too many.
func (t *table) slide() {
	for t.sort == 0 && len(t.rows) > mostRows && t.cursor >= 2*chunk {
		t.head, t.up = t.rows[chunk-1].Cursor, t.rows[chunk].Cursor
		t.rows = slices.Clone(t.rows[chunk:])
		t.cursor, t.offset, t.past = t.cursor-chunk, t.offset-chunk, t.past+chunk
	}
}

// fail notes that there is no answer.
func (t *table) fail(r *request, why string) {
	if r.turn == t.turn {
		t.asked, t.toEnd, t.problem = false, false, why
	}
}
