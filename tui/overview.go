package tui

import (
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
)

// overviewScreen shows counts, rates, services, and what is due next, running now and failed last.
type overviewScreen struct {
	source   Source
	overview Overview
	loaded   bool
	events   samples
	fires    samples

	lists [3]listing
	at    int  // the list with the cursor
	drawn area // where the screen was drawn
}

// listing is a short list with a cursor, which stays on its row.
type listing struct {
	title, none string
	rows        []Row
	total       int64 // 0 if unknown
	space       area  // where it was drawn

	listPosition
}

// The lists of the overview.
const (
	dueList = iota
	runningList
	failedList
)

func newOverviewScreen(source Source) *overviewScreen {
	return &overviewScreen{source: source, lists: [3]listing{
		{title: "Due next", none: "no timers"},
		{title: "Running now", none: "nothing runs"},
		{title: "Failed last", none: "nothing has failed"},
	}}
}

func (*overviewScreen) title() string { return "Overview" }

// refresh reads nothing: the model reads the overview for all screens.
func (*overviewScreen) refresh(time.Time) tea.Cmd { return nil }

func (s *overviewScreen) take(msg tea.Msg) tea.Cmd {
	r, ok := msg.(overviewRead)
	if !ok || r.err != nil {
		return nil
	}
	s.overview, s.loaded = r.overview, true
	s.events.add(r.overview.Events, r.at)
	s.fires.add(r.overview.Fires, r.at)
	of := r.overview.Of
	s.lists[dueList].take(r.overview.Due, of.Due)
	s.lists[runningList].take(r.overview.Running, of.Running)
	s.lists[failedList].take(r.overview.Failed, of.Failed)
	if len(s.lists[s.at].rows) == 0 {
		s.jump(1)
	}
	return nil
}

// take stores the current rows.
func (l *listing) take(rows []Row, total int64) {
	kept := l.current()
	l.rows, l.total = rows, total
	if at := slices.IndexFunc(rows, func(r Row) bool { return r.ID == kept.ID }); at >= 0 && l.cursor > 0 {
		l.cursor = at
	}
	l.clamp()
}

func (l *listing) current() Row {
	if l.cursor < 0 || l.cursor >= len(l.rows) {
		return Row{}
	}
	return l.rows[l.cursor]
}

func (l *listing) clamp() {
	l.height = max(1, l.space.h)
	l.listPosition.clamp(len(l.rows))
}

func (s *overviewScreen) key(k string) (cmd tea.Cmd, handled bool) {
	row := s.lists[s.at].current()
	switch k {
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "left", "h", "pgup", "shift+tab":
		s.jump(-1)
	case "right", "l", "pgdown", "tab":
		s.jump(1)
	case "enter", "o":
		return openOf(row), true
	case "y":
		return give(wantCopy{"id of the " + s.oneOf(row), row.ID}), true
	case "Y":
		return give(wantCopy{"id of the execution", executionIn(row)}), true
	default:
		return s.actKey(k, row)
	}
	return nil, true
}

// actKey handles the keys of actions on the row at the cursor.
func (s *overviewScreen) actKey(k string, row Row) (cmd tea.Cmd, handled bool) {
	table, ok := s.tableOf(row)
	if !ok || row.ID == "" {
		return nil, false
	}
	for _, d := range actions(table) {
		if d.key == k {
			return give(wantAction{Action{Verb: d.verb, Table: table, IDs: []string{row.ID}}}), true
		}
	}
	return nil, false
}

// tableOf returns the table of the row at the cursor.
func (s *overviewScreen) tableOf(row Row) (Table, bool) {
	switch {
	case s.at == dueList:
		return Timers, true
	case s.at == failedList && row.State == Dead:
		return DeadLetters, true
	case s.at == failedList:
		return Executions, true
	default:
		return 0, false
	}
}

// oneOf names the kind of a row of the current list.
func (s *overviewScreen) oneOf(row Row) string {
	if table, ok := s.tableOf(row); ok {
		return table.one()
	}
	return "message"
}

// executionIn returns the execution that a row is, or belongs to.
func executionIn(row Row) string {
	if row.Execution != "" {
		return row.Execution
	}
	return row.ID
}

// openOf opens the execution of a row; a dead letter without one is shown in its table.
func openOf(row Row) tea.Cmd {
	if row.State == Dead && row.Execution == "" {
		return give(wantCommand{"dlq"})
	}
	return give(wantOpen{executionIn(row)})
}

// move moves the cursor, at the end of a list into the next one.
func (s *overviewScreen) move(lines int) {
	l := &s.lists[s.at]
	to, before := l.cursor+lines, s.at
	switch {
	case to < 0 && s.at > 0:
		if s.jump(-1); s.at > before { // there is none before it
			s.at = before
		} else if s.at < before {
			s.lists[s.at].cursor = len(s.lists[s.at].rows) - 1
		}
	case to >= len(l.rows) && s.at < len(s.lists)-1:
		if s.jump(1); s.at < before {
			s.at = before
		} else if s.at > before {
			s.lists[s.at].cursor = 0
		}
	default:
		l.cursor = to
	}
	s.lists[s.at].clamp()
}

// jump goes to the next list that is not empty, from the last one to the first.
func (s *overviewScreen) jump(step int) {
	n := len(s.lists)
	for i := 1; i < n; i++ {
		if to := (s.at + i*step + n*n) % n; len(s.lists[to].rows) > 0 {
			s.at = to
			return
		}
	}
}

func (s *overviewScreen) click(x, y int, double bool) tea.Cmd {
	x, y = x+s.drawn.x, y+s.drawn.y
	for i := range s.lists {
		l := &s.lists[i]
		if !l.space.holds(x, y) || l.offset+y-l.space.y >= len(l.rows) {
			continue
		}
		s.at, l.cursor = i, l.offset+y-l.space.y
		if double {
			return openOf(l.current())
		}
	}
	return nil
}

func (s *overviewScreen) wheel(lines int) {
	s.move(lines / notches)
}

func (s *overviewScreen) hints() []hint {
	var hints []hint
	row, filled := s.lists[s.at].current(), 0
	for i := range s.lists {
		filled += truth(len(s.lists[i].rows) > 0)
	}
	if row.ID != "" {
		hints = append(hints, hint{"↑ ↓", "row", false})
	}
	if filled > 1 || filled == 1 && row.ID == "" {
		hints = append(hints, hint{"tab", "list", false}, hint{"← →", "list", true})
	}
	if row.ID != "" {
		hints = append(hints, hint{"enter", "open", false})
	}
	if table, ok := s.tableOf(row); ok && row.ID != "" {
		for _, d := range offered(s.source, table, row) {
			hints = append(hints, hint{d.key, d.what, d.verb == Record})
		}
	}
	return append(hints, hint{"1–5", "places", false}, hint{":", "command", false})
}

// stack draws lists one below the other, and divides the space among them.
func (s *overviewScreen) stack(a area, l look, now time.Time, which []int) {
	avail := shares(a.h-len(which), s.needs(which))
	y := 0
	for i, at := range which {
		s.list(a.part(0, y, a.w, avail[i]+1), l, now, at)
		y += avail[i] + 1
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
func shares(avail int, needs []int) []int {
	given := make([]int, len(needs))
	for more := true; more && avail > 0; {
		more = false
		for i := range needs {
			if avail > 0 && given[i] < needs[i] {
				given[i]++
				avail--
				more = true
			}
		}
	}
	if n := len(given); avail > 0 && n > 0 {
		for i := range given {
			given[i] += avail / n
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
	avail := list.columns(now)
	for y := range list.space.h {
		if list.offset+y >= len(list.rows) {
			break
		}
		line := list.space.part(0, y, a.w, 1)
		s.row(line, l, now, rowOf{list.rows[list.offset+y], at, avail})
		if at == s.at && list.offset+y == list.cursor {
			line.fill(0, selected)
		}
	}
}

// share says how many of the rows are shown, if not all of them.
func (l *listing) share(avail int) string {
	shown := min(avail, len(l.rows))
	switch of := max(l.total, int64(len(l.rows))); {
	case shown <= 0, int64(shown) == of && l.total > 0, shown == len(l.rows) && l.total == 0:
		return ""
	case l.total == 0:
		return ", " + count(int64(shown)) + " of " + count(of) + " or more"
	default:
		return ", " + count(int64(shown)) + " of " + count(of)
	}
}

// row draws a row of one of the lists.
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

// rowOf is a row and its position.
type rowOf struct {
	row   Row
	list  int
	space listWidths
}

// listWidths are the widths of a time, a kind, and an execution.
type listWidths struct{ time, what, lead int }

// columns fits the columns to what a list shows; times may grow as they pass.
func (l *listing) columns(now time.Time) listWidths {
	avail := listWidths{9, 5, 8}
	for at := l.offset; at < min(len(l.rows), l.offset+l.space.h); at++ {
		r := l.rows[at]
		avail.time = max(avail.time, width(due(now, r)))
		avail.what = max(avail.what, min(15, width(r.Kind)))
		avail.lead = max(avail.lead, width(subjectOf(r)))
	}
	avail.lead = min(avail.lead, max(8, (l.space.w-22)*3/5))
	return avail
}

// subjectOf names the subject of a row: its execution, or an event outside of any.
func subjectOf(r Row) string {
	if r.State == Dead && r.Execution == "" {
		return r.Kind
	}
	return executionIn(r)
}

// lastOf returns when a row ended, or else its time.
func lastOf(r Row) time.Time {
	if r.Until.IsZero() {
		return r.At
	}
	return r.Until
}

// part is the text of a column.
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
