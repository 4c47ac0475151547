package tui

import (
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// overviewScreen shows counts, rates, services, the next timers, running tasks and recent failures.
type overviewScreen struct {
	source   Source
	overview Overview
	loaded   bool
	events   samples
	fires    samples

	lists [3]listing
	at    int // the list with the cursor
}

// listing is a short list with a cursor, which stays on its row.
type listing struct {
	title, none string
	rows        []Row
	total       int64       // 0 if unknown
	space       canvas.Area // where it was drawn

	canvas.List
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
	if at := slices.IndexFunc(rows, func(r Row) bool { return r.ID == kept.ID }); at >= 0 && l.Cursor > 0 {
		l.Cursor = at
	}
	l.Fit(len(rows))
}

func (l *listing) current() Row {
	return canvas.At(l.rows, l.Cursor)
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
		return s.actionKey(k, row)
	}
	return nil, true
}

// actionKey handles the keys of actions on the row at the cursor.
func (s *overviewScreen) actionKey(k string, row Row) (cmd tea.Cmd, handled bool) {
	table, ok := s.tableOf(row)
	if !ok || row.ID == "" {
		return nil, false
	}
	return wantOf(k, table, row.ID)
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

// executionIn returns the execution that a row of the overview is, or belongs to.
func executionIn(row Row) string {
	if row.State == Faulted { // the others are timers, tasks in progress and dead letters
		return row.ID
	}
	return row.Execution
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
	to, before := l.Cursor+lines, s.at
	switch {
	case to < 0 && s.at > 0:
		if s.jump(-1); s.at > before { // there is none before it
			s.at = before
		} else if s.at < before {
			s.lists[s.at].Cursor = len(s.lists[s.at].rows) - 1
		}
	case to >= len(l.rows) && s.at < len(s.lists)-1:
		if s.jump(1); s.at < before {
			s.at = before
		} else if s.at > before {
			s.lists[s.at].Cursor = 0
		}
	default:
		l.Cursor = to
	}
	s.lists[s.at].To(s.lists[s.at].Cursor)
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
	for i := range s.lists {
		l := &s.lists[i]
		if !l.space.Holds(x, y) || l.Offset+y-l.space.Y >= len(l.rows) {
			continue
		}
		s.at, l.Cursor = i, l.Offset+y-l.space.Y
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
func (s *overviewScreen) stack(a canvas.Area, l canvas.Look, now time.Time, which []int) {
	avail := shares(a.H-len(which), s.needs(which))
	y := 0
	for i, at := range which {
		s.list(a.Part(0, y, a.W, avail[i]+1), l, now, at)
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

// shares divides the space equally, and gives unused space to the others.
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
func (s *overviewScreen) list(a canvas.Area, l canvas.Look, now time.Time, at int) {
	list := &s.lists[at]
	how := canvas.Accent
	if at == failedList && len(list.rows) > 0 {
		how = canvas.Bad
	}
	l.Rule(a, 0, list.title+list.share(a.H-1), how)
	list.space = a.Part(0, 1, a.W, a.H-1)
	list.Height = max(1, list.space.H)
	list.Fit(len(list.rows))
	if len(list.rows) == 0 {
		a.Put(2, 1, canvas.Faint, list.none)
	}
	avail := list.columns(now)
	cursor := canvas.Normal
	if at == s.at {
		cursor = canvas.Selected
	}
	list.Rows(list.space, len(list.rows), cursor, func(line canvas.Area, n int) {
		s.row(line, l, now, rowOf{list.rows[n], at, avail})
	})
}

// share says how many of the rows are shown, if not all of them.
func (l *listing) share(avail int) string {
	shown := min(avail, len(l.rows))
	switch of := max(l.total, int64(len(l.rows))); {
	case shown <= 0, int64(shown) == of && l.total > 0, shown == len(l.rows) && l.total == 0:
		return ""
	case l.total == 0:
		return ", " + history.Number(shown) + " of " + history.Number(of) + " or more"
	default:
		return ", " + history.Number(shown) + " of " + history.Number(of)
	}
}

// row draws a row of one of the lists.
func (*overviewScreen) row(a canvas.Area, l canvas.Look, now time.Time, of rowOf) {
	r, sign := of.row, signOf(l, of.row.State)
	switch of.list {
	case dueList:
		how := canvas.Calm
		if r.State == Overdue {
			how = canvas.Warn
		}
		a.Put(0, 0, how, sign.glyph)
		cells(a, l, []part{{of.space.time, how, due(now, r)}, {of.space.what, canvas.Faint, r.Kind}, {of.space.lead, canvas.Normal, r.Execution}, {a.W, canvas.Faint, history.Task(r.Task)}})
	case runningList:
		a.Put(0, 0, sign.ink, sign.glyph)
		cells(a, l, []part{{of.space.time, canvas.Busy, since(now, r.At)}, {of.space.what, canvas.Faint, r.Kind}, {of.space.lead, canvas.Normal, r.Execution}, {a.W, canvas.Faint, history.Task(r.Task)}})
	default:
		a.Put(0, 0, sign.ink, sign.glyph)
		cells(a, l, []part{{8, canvas.Faint, since(now, r.Last())}, {9, sign.ink, string(r.State)}, {of.space.lead, canvas.Normal, subjectOf(r)}, {a.W, canvas.Bad, r.Note}})
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
	for at := l.Offset; at < min(len(l.rows), l.Offset+l.space.H); at++ {
		r := l.rows[at]
		avail.time = max(avail.time, canvas.Width(due(now, r)))
		avail.what = max(avail.what, min(15, canvas.Width(r.Kind)))
		avail.lead = max(avail.lead, canvas.Width(subjectOf(r)))
	}
	avail.lead = min(avail.lead, max(8, (l.space.W-22)*3/5))
	return avail
}

// subjectOf names the subject of a row: its execution, or an event outside of any.
func subjectOf(r Row) string {
	if r.State == Dead && r.Execution == "" {
		return r.Kind
	}
	return executionIn(r)
}

// part is the text of a column.
type part struct {
	space int
	ink   canvas.Ink
	text  string
}

func cells(a canvas.Area, l canvas.Look, parts []part) {
	x := 2
	for _, p := range parts {
		l.Field(a, x, 0, p.space, p.ink, p.text)
		x += p.space + 1
	}
}
