package tui

import (
	"time"

	"flunq.io/flunq/engine/history"
)

// stack draws lists one below the other, and divides the space among them.
func (s *overviewScreen) stack(a area, l look, now time.Time, which []int) {
	room := shares(a.h-len(which), s.needs(which))
	y := 0
	for i, at := range which {
		s.list(a.part(0, y, a.w, room[i]+1), l, now, at)
		y += room[i] + 1
	}
}

func (s *overviewScreen) needs(which []int) []int {
	var needs []int
	for _, at := range which {
		needs = append(needs, max(1, len(s.lists[at].rows)))
	}
	return needs
}

// shares divides the space equally, and gives what some do not need to the others.
func shares(room int, needs []int) []int {
	given := make([]int, len(needs))
	for more := true; more && room > 0; {
		more = false
		for i := range needs {
			if room > 0 && given[i] < needs[i] {
				given[i]++
				room--
				more = true
			}
		}
	}
	if n := len(given); room > 0 && n > 0 {
		for i := range given {
			given[i] += room / n
		}
	}
	return given
}

// list draws one of the lists below its title.
func (s *overviewScreen) list(a area, l look, now time.Time, at int) {
	list := &s.lists[at]
	title := list.title
	title += list.share(a.h - 1)
	how := accent
	if at == failedList && len(list.rows) > 0 {
		how = bad
	}
	l.rule(a, 0, title, how)
	list.space = a.part(0, 1, a.w, a.h-1)
	list.clamp()
	if len(list.rows) == 0 {
		a.put(2, 1, faint, list.none)
	}
	room := list.columns(now)
	for y := range list.space.h {
		if list.offset+y >= len(list.rows) {
			break
		}
		line := list.space.part(0, y, a.w, 1)
		s.row(line, l, now, rowOf{list.rows[list.offset+y], at, room})
		if at == s.at && list.offset+y == list.cursor {
			line.fill(0, selected)
		}
	}
}

// share says how many of all rows there is room for, if not for all of them.
func (l *listing) share(room int) string {
	shown := min(room, len(l.rows))
	switch of := max(l.total, int64(len(l.rows))); {
	case shown <= 0, int64(shown) == of && l.total > 0, shown == len(l.rows) && l.total == 0:
		return ""
	case l.total == 0:
		return ", " + count(int64(shown)) + " of " + count(of) + " or more"
	default:
		return ", " + count(int64(shown)) + " of " + count(of)
	}
}

// row shows a row of one of the lists.
func (*overviewScreen) row(a area, l look, now time.Time, of rowOf) {
	r, sign := of.row, l.sign(of.row.State)
	switch of.list {
	case dueList:
		how := calm
		if r.State == Overdue {
			how = warn
		}
		a.put(0, 0, how, sign.glyph)
		cells(a, l, []part{{of.space.time, how, due(now, r)}, {of.space.what, faint, r.Kind}, {of.space.lead, plainInk, r.Execution}, {a.w, faint, history.Task(r.Task)}})
	case runningList:
		a.put(0, 0, sign.ink, sign.glyph)
		cells(a, l, []part{{of.space.time, busy, since(now, r.At)}, {of.space.what, faint, r.Kind}, {of.space.lead, plainInk, r.Execution}, {a.w, faint, history.Task(r.Task)}})
	default:
		a.put(0, 0, sign.ink, sign.glyph)
		cells(a, l, []part{{8, faint, since(now, lastOf(r))}, {9, sign.ink, string(r.State)}, {of.space.lead, plainInk, subjectOf(r)}, {a.w, bad, r.Note}})
	}
}

// rowOf is a row and where it is shown.
type rowOf struct {
	row   Row
	list  int
	space listWidths
}

// listWidths is the room for a time, a kind, and an execution.
type listWidths struct{ time, what, lead int }

// columns fits the columns to what a list shows; times may grow as they pass.
func (l *listing) columns(now time.Time) listWidths {
	room := listWidths{9, 5, 8}
	for at := l.offset; at < min(len(l.rows), l.offset+l.space.h); at++ {
		r := l.rows[at]
		room.time = max(room.time, width(due(now, r)))
		room.what = max(room.what, min(15, width(r.Kind)))
		room.lead = max(room.lead, width(subjectOf(r)))
	}
	room.lead = min(room.lead, max(8, (l.space.w-22)*3/5))
	return room
}

// subjectOf names what a row is about: its execution, or the event that was in none.
func subjectOf(r Row) string {
	if r.State == Dead && r.Execution == "" {
		return r.Kind
	}
	return executionIn(r)
}

// lastOf is when something ended, or else when it was.
func lastOf(r Row) time.Time {
	if r.Until.IsZero() {
		return r.At
	}
	return r.Until
}

// part is a text in a column.
type part struct {
	space int
	ink   ink
	text  string
}

func cells(a area, l look, parts []part) {
	x := 2
	for _, p := range parts {
		l.field(a, x, 0, p.space, p.ink, p.text)
		x += p.space + 1
	}
}
