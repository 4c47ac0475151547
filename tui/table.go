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
	// A window is read again when so many times as long is over as that took.
	rest = 20
)

// table is a window over one of the lists: it holds what is near the cursor, and
// where to read on.
type table struct {
	kind Table

	rows  []Row
	head  string // behind which the window begins; "" at the beginning
	up    string // before which to read on upwards
	next  string // where to read on; "" at the end
	past  int    // rows before the window, about …
	after int    // … or those behind it, if it was come to from the end
	ended bool   // that is so

	typed  string // the filter …
	filter Filter // … as it is meant
	looked int
	sort   int // a column, by its number; 0 is the order of the source
	back   bool

	cursor, offset, height int
	space                  int  // cells that it was drawn into
	moved                  bool // somebody has moved the cursor
	early                  int  // … by so much, before there was what it moves in
	toEnd                  bool
	marked                 map[string]bool
	widths                 []int

	// What is read again takes the place of the window when it is complete: behind a
	// filter that takes many pages.
	pending []Row
	seen    int    // rows that were looked at for it
	goOn    string // where it goes on; "" if nothing is read again
	used    time.Duration
	cost    time.Duration // that the window took

	loaded, asked bool
	turn          int // of the last request: answers to older ones mean nothing
	readAt        time.Time
	problem       string
}

func newTable(kind Table) *table {
	return &table{kind: kind, marked: map[string]bool{}, height: 1}
}

// arrange sorts the window, if it is to be sorted.
func (t *table) arrange() {
	if t.sort == 0 {
		return
	}
	by := columnsOf(t.kind)[t.sort-1].order
	_, down := t.sorted()
	slices.SortStableFunc(t.rows, func(a, b Row) int {
		if down {
			a, b = b, a
		}
		return by(a, b)
	})
}

// sorted is the column, by its number, that the rows are sorted by, and whether the
// largest come first.
func (t *table) sorted() (number int, down bool) {
	if t.sort == 0 {
		return t.kind.naturally()
	}
	return t.sort, columnsOf(t.kind)[t.sort-1].down != t.back
}

// reverse sorts the other way round.
func (t *table) reverse() {
	number, down := t.sorted()
	t.back = columnsOf(t.kind)[number-1].down == down
	t.order(number)
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
	t.moved = true
	switch {
	case t.toEnd && t.sort == 0:
		t.early = min(0, t.early+lines)
	case !t.loaded:
		t.early = max(0, t.early+lines)
	default:
		t.toEnd = false
		t.cursor += lines
		t.clamp()
	}
}

// toStart goes to the beginning of the list, and stays there as it grows.
func (t *table) toStart() {
	t.moved, t.toEnd, t.cursor, t.offset, t.early = false, false, 0, 0, 0
	if t.head != "" {
		t.restart()
	}
}

// end goes to the end of the list, however far that is.
func (t *table) end() {
	t.moved, t.toEnd, t.early = true, t.next != "" || !t.loaded, 0
	t.cursor = len(t.rows) - 1
	t.clamp()
	if t.toEnd && t.sort == 0 {
		t.asked = false
		t.turn++
	}
}

// stay leaves the cursor where it is, if it was to go to the end.
func (t *table) stay() {
	t.toEnd, t.asked = false, false
	t.turn++
}

// restart forgets what was read, and begins at the beginning.
func (t *table) restart() {
	t.rows, t.head, t.up, t.next, t.past, t.after, t.ended = nil, "", "", "", 0, 0, false
	t.goOn, t.cost = "", 0
	t.toEnd, t.loaded, t.asked, t.looked, t.problem = false, false, false, 0, ""
	t.moved, t.cursor, t.offset, t.early = false, 0, 0, 0
	t.turn++
}

// narrow filters by what was typed.
func (t *table) narrow(typed string) {
	if typed == t.typed {
		return
	}
	t.typed, t.filter, t.widths = typed, ParseFilter(t.kind, typed), nil
	t.restart()
}

// order sorts by the next column, or the other way round.
func (t *table) order(column int) {
	n := len(columnsOf(t.kind)) + 1
	t.sort = (column + n) % n
	t.restart()
}

// orderNext sorts by the next column that is shown, or the one before.
func (t *table) orderNext(step int) {
	columns := columnsOf(t.kind)
	n, to := len(columns)+1, t.sort
	for range n {
		if to = (to + step + n) % n; to == 0 || t.space >= columns[to-1].needs && columns[to-1].order != nil {
			break
		}
	}
	t.back = false
	t.order(to)
}

// clamp keeps the cursor in the window and on the screen.
func (t *table) clamp() {
	t.cursor = max(0, min(t.cursor, len(t.rows)-1))
	t.offset = max(t.cursor-t.height+1, min(t.offset, t.cursor))
	t.offset = max(0, min(t.offset, len(t.rows)-t.height))
}
