package tui

import (
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/tui/canvas"
)

// The numbers of rows that are read in one request, kept, and sorted.
const (
	chunk     = 200
	maxRows   = 1000
	maxSorted = 5000
	// pauseFactor is the pause between two reads of a window, as a multiple of the time that
	// the last one took.
	pauseFactor = 20
)

// table is one of the lists. It holds a window of the rows around the cursor.
type table struct {
	kind Table

	typed  string // the filter as typed
	filter Filter // typed, parsed
	sort   int    // number of the column to sort by; 0 keeps the order of the source
	back   bool   // in the other direction than usual

	canvas.List // the cursor, among the rows of the window
	window

	reading *request // the request in flight; nil if there is none
	readAt  time.Time
	marked  map[string]bool

	width  int   // width that it was last drawn with
	widths []int // of the columns
}

// window is a part of a list, and the positions from which to read more.
type window struct {
	rows     []Row
	first    string // position before the first row; "" at the beginning of the list
	previous string // position from which to read backwards
	next     string // position from which to read forwards; "" at the end of the list
	past     int    // estimated number of rows before the window
	after    int    // estimated number of rows after the window
	ended    bool   // the window was reached from the end: after counts, not past

	scanned int           // rows examined for it
	cost    time.Duration // time that reading it took
	loaded  bool
	problem string // why it could not be read

	moved bool // the user has moved the cursor
	toEnd bool // the cursor goes to the end when that is read

	// A reread replaces the window when it is complete, which takes many pages if a filter is set.
	reread *window // nil if none is in progress; it continues from next
}

func newTable(kind Table) *table {
	return &table{kind: kind, marked: map[string]bool{}, List: canvas.List{Height: 1}}
}

// arrange sorts the rows, if a column is chosen.
func (t *table) arrange() {
	if t.sort == 0 {
		return
	}
	column := &tables[t.kind].columns[t.sort-1]
	_, down := t.sorted()
	slices.SortStableFunc(t.rows, func(a, b Row) int {
		if down {
			a, b = b, a
		}
		return column.compare(a, b)
	})
}

// sorted returns the number of the column that the rows are sorted by, and whether the
// order is descending.
func (t *table) sorted() (number int, down bool) {
	kind := &tables[t.kind]
	if t.sort == 0 { // as the source sorts them
		return 1 + slices.IndexFunc(kind.columns, func(c column) bool { return c.title == kind.sorted }), kind.back
	}
	return t.sort, kind.columns[t.sort-1].down != t.back
}

// reverse reverses the order of the rows.
func (t *table) reverse() {
	number, down := t.sorted()
	t.back = tables[t.kind].columns[number-1].down == down
	t.order(number)
}

// current returns the row at the cursor, an empty one if there are no rows.
func (t *table) current() Row {
	return canvas.At(t.rows, t.Cursor)
}

// chosen returns the ids that an action applies to: the marked ones, or else the current
// one.
func (t *table) chosen() []string {
	ids := slices.Sorted(maps.Keys(t.marked))
	if id := t.current().ID; len(ids) == 0 && id != "" {
		ids = []string{id}
	}
	return ids
}

// mark marks or unmarks the current row, and moves to the next one.
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
	t.Move(1)
}

// Move moves the cursor by lines.
func (t *table) Move(lines int) {
	if !t.loaded || t.toEnd && t.sort == 0 {
		return // the rows to move among are being read
	}
	t.moved, t.toEnd = true, false
	t.Cursor += lines
	t.Fit(len(t.rows))
}

// Start moves to the beginning of the list, and stays there as the list grows.
func (t *table) Start() {
	t.moved, t.toEnd, t.Cursor, t.Offset = false, false, 0, 0
	if t.first != "" {
		t.restart()
	}
}

// End moves to the end of the list.
func (t *table) End() {
	t.moved, t.toEnd = true, t.next != "" || !t.loaded
	t.Cursor = len(t.rows) - 1
	t.Fit(len(t.rows))
	if t.toEnd && t.sort == 0 {
		t.reading = nil
	}
}

// stay stops a move to the end.
func (t *table) stay() {
	t.toEnd, t.reading = false, nil
}

// restart discards all rows and begins at the beginning.
func (t *table) restart() {
	t.window, t.reading, t.Cursor, t.Offset = window{}, nil, 0, 0
}

// narrow sets the filter.
func (t *table) narrow(typed string) {
	if typed == t.typed {
		return
	}
	t.typed, t.filter, t.widths = typed, ParseFilter(t.kind, typed), nil
	t.restart()
}

// order sorts by the column of a number.
func (t *table) order(column int) {
	n := len(tables[t.kind].columns) + 1
	t.sort = (column + n) % n
	t.restart()
}

// orderNext sorts by the next visible column, or the previous one if step is -1.
func (t *table) orderNext(step int) {
	columns := tables[t.kind].columns
	n, to := len(columns)+1, t.sort
	for range n {
		if to = (to + step + n) % n; to == 0 || t.width >= columns[to-1].needs && columns[to-1].sorts() {
			break
		}
	}
	t.back = false
	t.order(to)
}

// request is a table's request to its source.
type request struct {
	query Query
	fresh bool // the response replaces the window
	took  time.Duration
}

// ask returns a request for a query. Answers to earlier requests are ignored from now on.
func (t *table) ask(q Query, fresh bool) *request {
	q.Table, q.Filter = t.kind, t.filter
	t.reading = &request{query: q, fresh: fresh}
	return t.reading
}

// refresh begins to read the window again.
func (t *table) refresh() *request {
	t.reread = &window{next: t.first}
	return t.rereadNext()
}

// rereadNext returns a request for what a reread lacks.
func (t *table) rereadNext() *request {
	limit := maxRows
	if t.sort != 0 {
		limit = maxSorted
	}
	size := max(chunk, min(limit, len(t.rows)))
	return t.ask(Query{After: t.reread.next, Limit: max(1, size-len(t.reread.rows))}, true)
}

// stale reports whether the window should be read again.
func (t *table) stale(now time.Time) bool {
	every := 2 * time.Second
	if t.sort != 0 || len(t.rows) > 2*chunk {
		every = 5 * time.Second
	}
	return t.loaded && now.Sub(t.readAt) >= max(every, pauseFactor*t.cost)
}

// want returns a request for the rows that the window lacks; nil if it lacks none.
func (t *table) want() *request {
	switch {
	case t.sort == 0 && t.toEnd:
		return t.ask(Query{Limit: maxRows / 2, Back: true}, true)
	case !t.loaded:
		return t.refresh()
	case t.reread != nil:
		return t.rereadNext()
	case t.sort != 0 && t.next != "" && len(t.rows) < maxSorted:
		return t.ask(Query{After: t.next, Limit: 5 * chunk}, false)
	case t.sort != 0:
		return nil
	case t.next != "" && t.Cursor+2*t.Height >= len(t.rows):
		return t.ask(Query{After: t.next, Limit: chunk}, false)
	case t.first != "" && t.Cursor < t.Height:
		return t.ask(Query{After: t.previous, Limit: chunk, Back: true}, false)
	default:
		return nil
	}
}

// take takes a response, unless a newer request has been made.
func (t *table) take(r *request, p Page, at time.Time) {
	if r != t.reading {
		return
	}
	known := t.loaded
	t.reading, t.loaded, t.problem, t.readAt = nil, true, "", at
	switch {
	case r.query.Back && r.fresh:
		t.rows, t.scanned, t.next, t.reread = t.above(p), p.Scanned, "", nil
		t.past, t.after, t.ended, t.cost = 0, 0, t.first != "", r.took
	case r.query.Back:
		t.prepend(p)
		t.cost += r.took
	case r.fresh:
		t.reread.add(p, r.took)
		if p.Next != "" && len(p.Rows) < r.query.Limit && known {
			return
		}
		read := t.reread
		t.scanned, t.cost, t.next, t.reread = read.scanned, read.cost, read.next, nil
		t.put(read.rows)
	default:
		t.add(p, r.took)
		t.after = max(0, t.after-len(p.Rows))
		t.arrange()
	}
	t.slide()
	if t.toEnd {
		t.Cursor = len(t.rows) - 1
		t.toEnd = t.sort != 0 && t.next != "" && len(t.rows) < maxSorted
	}
	t.Fit(len(t.rows))
}

// add adds the page that follows.
func (w *window) add(p Page, took time.Duration) {
	w.rows, w.next = append(w.rows, p.Rows...), p.Next
	w.scanned, w.cost = w.scanned+p.Scanned, w.cost+took
}

// put replaces the rows. The cursor stays on its row, and that row at its place on the
// screen.
func (t *table) put(rows []Row) {
	kept, line := t.current().ID, t.Cursor-t.Offset
	t.rows = rows
	if t.first != "" && len(t.rows) > 0 {
		t.previous = t.rows[0].Cursor
	}
	t.arrange()
	if !t.moved {
		t.Cursor, t.Offset = 0, 0
		return
	}
	if at := slices.IndexFunc(t.rows, func(r Row) bool { return r.ID == kept }); at >= 0 {
		t.Cursor, t.Offset = at, at-line
	}
}

// prepend adds rows before the window, and drops rows at its end if there are too many.
func (t *table) prepend(p Page) {
	rows := t.above(p)
	t.rows = slices.Concat(rows, t.rows)
	t.scanned += p.Scanned
	t.Cursor, t.Offset, t.past = t.Cursor+len(rows), t.Offset+len(rows), max(0, t.past-len(rows))
	if t.first == "" {
		t.past, t.ended = 0, false
	}
	if over := len(t.rows) - maxRows; over > 0 {
		t.rows = slices.Clone(t.rows[:maxRows])
		t.next, t.after = t.rows[maxRows-1].Cursor, t.after+over
	}
}

// above returns the rows of a page that was read backwards. If the list has more rows before
// them, it leaves out the first: its position becomes the head of the window.
func (t *table) above(p Page) []Row {
	t.first, t.previous = p.Next, p.Next
	if len(p.Rows) < 2 || p.Rows[0].Cursor != p.Next {
		return p.Rows
	}
	t.previous = p.Rows[1].Cursor
	return p.Rows[1:]
}

// slide drops rows at the beginning of the window when there are too many.
func (t *table) slide() {
	for t.sort == 0 && len(t.rows) > maxRows && t.Cursor >= 2*chunk {
		t.first, t.previous = t.rows[chunk-1].Cursor, t.rows[chunk].Cursor
		t.rows = slices.Clone(t.rows[chunk:])
		t.Cursor, t.Offset, t.past = t.Cursor-chunk, t.Offset-chunk, t.past+chunk
	}
}

// fail records that a request failed.
func (t *table) fail(r *request, why string) {
	if r == t.reading {
		t.reading, t.toEnd, t.problem = nil, false, why
	}
}

// shown returns the visible rows.
func (t *table) shown() []Row {
	from := max(0, min(t.Offset, len(t.rows)))
	return t.rows[from:min(from+t.Height, len(t.rows))]
}
