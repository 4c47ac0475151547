package tui

import (
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// overviewScreen shows counts, rates, services, the next timers, running tasks and recent failures.
type overviewScreen struct {
	m      *model
	events samples
	fires  samples

	lists [3]listing
	at    int // the list with the cursor
}

// listing is a short list with a cursor, which stays on its row.
type listing struct {
	title, none string
	rows        []Row
	total       int64       // 0 if unknown
	area        canvas.Area // where it was drawn

	canvas.List
}

// The lists of the overview.
const (
	dueList = iota
	runningList
	failedList
)

func newOverviewScreen(m *model) *overviewScreen {
	return &overviewScreen{m: m, lists: [3]listing{
		{title: "Due next", none: "no timers"},
		{title: "Running now", none: "nothing runs"},
		{title: "Failed last", none: "nothing has failed"},
	}}
}

func (*overviewScreen) title() string { return "Overview" }

// refresh reads nothing: the model reads the overview for all screens.
func (*overviewScreen) refresh(time.Time) tea.Cmd { return nil }

// outdate does nothing: the model reads the overview.
func (*overviewScreen) outdate(bool) {}

// update takes the rates and the lists of an overview that was read.
func (s *overviewScreen) update() {
	o, at := &s.m.overview, s.m.overviewAt
	s.events.add(o.Events, at)
	s.fires.add(o.Fires, at)
	s.lists[dueList].take(o.Due, o.Of.Due)
	s.lists[runningList].take(o.Running, o.Of.Running)
	s.lists[failedList].take(o.Failed, o.Of.Failed)
	if len(s.lists[s.at].rows) == 0 {
		s.jump(1)
	}
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
		return s.open(row), true
	case "y":
		return s.m.copy("id of the "+s.oneOf(row), row.ID), true
	case "Y":
		return s.m.copy("id of the execution", executionIn(row)), true
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
	return s.m.actionKey(k, table, row.ID)
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
		return tables[table].one
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

// open shows the execution of a row, or the table of dead letters for a dead letter without an execution.
func (s *overviewScreen) open(row Row) tea.Cmd {
	switch {
	case row.ID == "": // there is none
		return nil
	case row.State == Dead && row.Execution == "":
		return s.m.openPlace(1 + int(DeadLetters))
	default:
		return s.m.open(executionIn(row))
	}
}

// move moves the cursor by a row, up (-1) or down (1), at the end of a list into the next one.
func (s *overviewScreen) move(step int) {
	l := &s.lists[s.at]
	if to := l.Cursor + step; to >= 0 && to < len(l.rows) {
		l.To(to)
		return
	}
	for at := s.at + step; at >= 0 && at < len(s.lists); at += step {
		if next := &s.lists[at]; len(next.rows) > 0 {
			s.at = at
			if next.Start(); step < 0 {
				next.End()
			}
			return
		}
	}
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
		if !l.area.Holds(x, y) || l.Offset+y-l.area.Y >= len(l.rows) {
			continue
		}
		s.at, l.Cursor = i, l.Offset+y-l.area.Y
		if double {
			return s.open(l.current())
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
		for _, d := range offered(s.m.source, table, row) {
			hints = append(hints, hint{d.key, d.what, d.verb == Record})
		}
	}
	return append(hints, hint{"1–5", "places", false}, hint{":", "command", false})
}
