package tui

import (
	"slices"
	"time"
)

// How much of a table is read at once, kept, and sorted.
const (
	chunk      = 200
	mostRows   = 1000
	mostSorted = 5000
	// A filter that looks at more rows than that is not read again by itself.
	mostLooks = 10_000
)

// table is a window over one of the lists: it holds what is near the cursor, and
// where to read on.
type table struct {
	kind Table

	rows  []Row
	head  string   // where the window begins
	next  string   // where to read on; "" at the end
	above []string // heads of the windows that were left behind
	past  int      // rows before the window, about

	typed  string // the filter …
	filter Filter // … as it is meant
	looked int
	sort   int // a column, by its number; 0 is the order of the source
	back   bool

	cursor, offset, height int
	moved                  bool // somebody has moved the cursor
	early                  int  // … by so much, before there was anything
	toEnd                  bool
	marked                 map[string]bool
	widths                 []int

	loaded, asked bool
	turn          int // of the last request: answers to older ones mean nothing
	readAt        time.Time
	problem       string
}

// request is what a table asks its source for.
type request struct {
	query Query
	turn  int
	fresh bool // the answer replaces the window
}

func newTable(kind Table) *table {
	return &table{kind: kind, marked: map[string]bool{}, height: 1}
}

// ask begins a request.
func (t *table) ask(after string, limit int, fresh bool) *request {
	t.turn++
	t.asked = true
	return &request{Query{Table: t.kind, Filter: t.filter, After: after, Limit: limit}, t.turn, fresh}
}

// refresh reads the window again.
func (t *table) refresh() *request {
	most := mostRows
	if t.sort != 0 {
		most = mostSorted
	}
	return t.ask(t.head, max(chunk, min(most, len(t.rows))), true)
}

// want is what the window lacks, if anything.
func (t *table) want() *request {
	switch {
	case t.asked:
		return nil
	case !t.loaded:
		return t.refresh()
	case t.next != "" && t.lacks():
		return t.ask(t.next, chunk*t.stride(), false)
	case len(t.above) > 0 && t.cursor < t.height && !t.toEnd:
		return t.ask(t.above[len(t.above)-1], min(mostRows, len(t.rows)+chunk), true)
	default:
		return nil
	}
}

// lacks reports whether more rows are wanted than there are.
func (t *table) lacks() bool {
	return t.toEnd || t.cursor+2*t.height >= len(t.rows) || t.sort != 0 && len(t.rows) < mostSorted
}

// stride is how many chunks are read at once.
func (t *table) stride() int {
	if t.toEnd || t.sort != 0 {
		return 5
	}
	return 1
}

// take takes up an answer; what was asked for before something else is passed over.
func (t *table) take(r *request, p Page, at time.Time) {
	if r.turn != t.turn {
		return
	}
	t.asked, t.loaded, t.problem, t.readAt = false, true, "", at
	if r.fresh {
		t.replace(r, p)
	} else {
		t.rows = append(t.rows, p.Rows...)
		t.looked += p.Looked
	}
	t.next = p.Next
	t.arrange()
	t.slide()
	t.cursor, t.early = t.cursor+t.early, 0
	if t.toEnd {
		t.cursor = len(t.rows) - 1
		t.toEnd = t.next != ""
	}
	t.clamp()
}

// fail notes that there is no answer.
func (t *table) fail(r *request, why string) {
	if r.turn == t.turn {
		t.asked, t.toEnd, t.problem = false, false, why
	}
}

// replace puts a new window in the place of the old one. The cursor stays on its
// row, and the row where it is on the screen.
func (t *table) replace(r *request, p Page) {
	kept, line := t.current().ID, t.cursor-t.offset
	if n := len(t.above); n > 0 && r.query.After == t.above[n-1] && r.query.After != t.head {
		t.above = t.above[:n-1]
		t.past = max(0, t.past-chunk)
	}
	t.head, t.rows, t.looked = r.query.After, p.Rows, p.Looked
	if !t.moved {
		t.cursor, t.offset = 0, 0
		return
	}
	t.arrange()
	if at := slices.IndexFunc(t.rows, func(r Row) bool { return r.ID == kept }); at >= 0 {
		t.cursor, t.offset = at, at-line
	}
}

// slide leaves rows behind when there are too many.
func (t *table) slide() {
	for t.sort == 0 && len(t.rows) > mostRows && (t.cursor >= 2*chunk || t.toEnd) {
		t.above = append(t.above, t.head)
		t.head = t.rows[chunk-1].Cursor
		t.rows = slices.Clone(t.rows[chunk:])
		t.cursor, t.offset, t.past = t.cursor-chunk, t.offset-chunk, t.past+chunk
	}
}

// arrange sorts the window, if it is to be sorted.
func (t *table) arrange() {
	if t.sort == 0 {
		return
	}
	by := columnsOf(t.kind)[t.sort-1].order
	slices.SortStableFunc(t.rows, func(a, b Row) int {
		if t.back {
			a, b = b, a
		}
		return by(a, b)
	})
}

// current is the row at the cursor; none in an empty table.
func (t *table) current() Row {
	if t.cursor < 0 || t.cursor >= len(t.rows) {
		return Row{}
	}
	return t.rows[t.cursor]
}

// chosen are the ids that an action is about: those that are marked, else the
// current one.
func (t *table) chosen() []string {
	var ids []string
	for id := range t.marked {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if id := t.current().ID; len(ids) == 0 && id != "" {
		ids = []string{id}
	}
	return ids
}

// mark marks the current row, or takes the mark from it, and goes on.
func (t *table) mark() {
	id := t.current().ID
	if id == "" {
		return
	}
	if t.marked[id] {
		delete(t.marked, id)
	} else {
		t.marked[id] = true
	}
	t.move(1)
}

// move moves the cursor.
func (t *table) move(lines int) {
	t.moved, t.toEnd = true, false
	if !t.loaded {
		t.early = max(0, t.early+lines)
		return
	}
	t.cursor += lines
	t.clamp()
}

// home goes to the beginning of the list, and stays there as it grows.
func (t *table) home() {
	t.moved, t.toEnd, t.cursor, t.offset, t.early = false, false, 0, 0, 0
	if len(t.above) > 0 || t.head != "" {
		t.restart()
	}
}

// end goes to the end of the list, however far that is.
func (t *table) end() {
	t.moved, t.toEnd = true, t.next != "" || !t.loaded
	t.cursor = len(t.rows) - 1
	t.clamp()
}

// restart forgets what was read, and begins at the beginning.
func (t *table) restart() { t.jump("") }

// jump begins behind a cursor.
func (t *table) jump(cursor string) {
	t.rows, t.head, t.next, t.above, t.past = nil, cursor, "", nil, 0
	t.loaded, t.asked, t.looked, t.problem = false, false, 0, ""
	t.moved, t.cursor, t.offset, t.early = false, 0, 0, 0
	t.turn++
}

// narrow filters by what was typed.
func (t *table) narrow(typed string) {
	if typed == t.typed {
		return
	}
	t.typed, t.filter, t.widths = typed, ParseFilter(typed), nil
	t.restart()
}

// order sorts by the next column, or the other way round.
func (t *table) order(column int) {
	n := len(columnsOf(t.kind)) + 1
	t.sort = (column + n) % n
	t.restart()
}

// clamp keeps the cursor in the window and on the screen.
func (t *table) clamp() {
	t.cursor = max(0, min(t.cursor, len(t.rows)-1))
	t.offset = max(t.cursor-t.height+1, min(t.offset, t.cursor))
	t.offset = max(0, min(t.offset, len(t.rows)-t.height))
}

// stale reports whether the window should be read again.
func (t *table) stale(now time.Time) bool {
	every := 2 * time.Second
	if t.sort != 0 || len(t.rows) > 2*chunk {
		every = 5 * time.Second
	}
	return t.loaded && !t.asked && t.looked <= mostLooks && now.Sub(t.readAt) >= every
}
