package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// listScreen is one of the tables, with a filter and a pane for the row at the cursor.
type listScreen struct {
	m     *model
	table *table

	find    canvas.Input
	finding bool
	pane    *detailPane // nil while it is closed

	now        time.Time // the last refresh, by the machine's clock
	inFlight   bool      // a page is being read
	activities activityCache
	failedAt   time.Time
	outdated   bool // the rows are outdated

	rowsAt canvas.Area // where the table was drawn
	paneAt canvas.Area
}

func (s *listScreen) title() string { return tables[s.table.kind].title }

func (s *listScreen) typing() bool { return s.finding }

// refresh reads what the table lacks, again what is outdated, and the detail in the pane.
func (s *listScreen) refresh(now time.Time) tea.Cmd {
	s.now = now
	cmd := tea.Batch(s.next(), s.lookUp())
	if s.pane != nil {
		return tea.Batch(cmd, s.pane.follow(s.table.current(), now))
	}
	return cmd
}

// The polling intervals of a table.
const (
	rereadGoing  = 500 * time.Millisecond // while time advances
	rereadFailed = 2 * time.Second
)

// next reads the next page; only one at a time.
func (s *listScreen) next() tea.Cmd {
	if s.inFlight || s.now.Sub(s.failedAt) < rereadFailed {
		return nil
	}
	if r := s.table.want(); r != nil {
		return s.readPage(r)
	}
	if s.table.loaded && (s.outdated || s.table.stale(s.now) || s.m.overview.Clock.plays() && s.now.Sub(s.table.readAt) >= rereadGoing) {
		s.outdated = false
		return s.readPage(s.table.refresh())
	}
	return nil
}

func (s *listScreen) readPage(r *request) tea.Cmd {
	s.inFlight = true
	return ask(s, func(ctx context.Context) (func() tea.Cmd, error) {
		begun := s.m.options.Now() // the cost of a request does not depend on the source's time
		page, err := s.m.source.Page(ctx, r.query)
		r.took = s.m.options.Now().Sub(begun)
		return func() tea.Cmd { return s.takePage(r, page, err) }, err
	})
}

func (s *listScreen) outdate(moved bool) {
	s.outdated = true
	if moved {
		s.activities = activityCache{}
	}
}

// takePage adds a page.
func (s *listScreen) takePage(r *request, page Page, err error) tea.Cmd {
	s.inFlight = false
	if err != nil {
		s.table.fail(r, problemOf(err))
		if !errors.Is(err, ErrLost) {
			s.failedAt = s.now
		}
		return nil
	}
	s.failedAt = time.Time{}
	s.table.take(r, page, s.now)
	return s.next()
}

// draw draws the table, and the pane beside or below it.
func (s *listScreen) draw(a canvas.Area, theme canvas.Theme, now time.Time) {
	s.rowsAt, s.paneAt = a, canvas.Area{}
	if s.pane != nil {
		s.rowsAt, s.paneAt = split(a)
		s.drawPane(a, theme, now)
	}
	s.activities.show(s.table)
	s.table.draw(s.rowsAt, theme, now, tables[s.table.kind].total(s.m.overview.Counts))
	if s.finding {
		line := s.rowsAt.Part(0, s.rowsAt.H-1, s.rowsAt.W, 1)
		line.Clear()
		x := line.Put(0, 0, canvas.Accent|canvas.Strong, "/")
		s.find.Draw(line, x, 0)
		if problem := s.table.filter.Problem; problem != "" {
			x += canvas.Width(s.find.Text()) + 3
			theme.Rest(line, x, canvas.Warn, problem)
		}
	}
}

// split divides an area for a pane: beside a wide table, else below it.
func split(a canvas.Area) (rows, pane canvas.Area) {
	if a.W >= 120 {
		w := a.W * 3 / 5
		return a.Part(0, 0, w-2, a.H), a.Part(w, 0, a.W-w, a.H)
	}
	h := a.H / 2
	return a.Part(0, 0, a.W, h), a.Part(0, h, a.W, a.H-h)
}

func (s *listScreen) drawPane(a canvas.Area, theme canvas.Theme, now time.Time) {
	if a.W >= 120 {
		for y := range a.H {
			a.Put(s.paneAt.X-a.X-2, y, canvas.Faint, theme.Pick("│", "|"))
		}
	}
	s.pane.draw(s.paneAt, theme, now)
}

// click chooses a row, sorts by a column, or focuses the pane.
func (s *listScreen) click(x, y int, double bool) tea.Cmd {
	if s.pane != nil && s.paneAt.Holds(x, y) {
		s.pane.focus = true
		s.pane.click(x, y, double)
		return nil
	}
	if !s.rowsAt.Holds(x, y) {
		return nil
	}
	if s.pane != nil {
		s.pane.focus = false
	}
	line := y - s.rowsAt.Y
	at := s.table.Offset + line - 1
	switch {
	case line == 0:
		return s.sortAt(x - s.rowsAt.X)
	case line >= s.rowsAt.H-1 || at >= len(s.table.rows):
		return nil
	}
	s.table.Move(at - s.table.Cursor)
	if double {
		return s.enter()
	}
	return s.refresh(s.now)
}

// sortAt sorts by the column whose title is at a position, or reverses the order.
func (s *listScreen) sortAt(x int) tea.Cmd {
	widths, from := s.table.layout(s.rowsAt.W, s.now), s.table.gutter()
	for i, c := range tables[s.table.kind].columns {
		if widths[i] == 0 {
			continue
		}
		if x >= from && x < from+widths[i]+2 && c.sorts() {
			return s.sortBy(i + 1)
		}
		from += widths[i] + 2
	}
	return nil
}

func (s *listScreen) sortBy(column int) tea.Cmd {
	if number, _ := s.table.sorted(); number == column {
		s.table.reverse()
	} else {
		s.table.back = false
		s.table.order(column)
	}
	return s.next()
}

func (s *listScreen) wheel(lines int) {
	if s.pane != nil && s.pane.focus {
		s.pane.view.Move(lines)
		return
	}
	s.table.Move(lines)
}

// activityCache caches what the visible executions are doing. It is read again after a change.
type activityCache struct {
	known    map[string]cachedActivity
	inFlight bool
	failed   time.Time
}

// cachedActivity is the activity of an execution at a version.
type cachedActivity struct {
	version int64
	read    time.Time
	Activity
}

// activityMaxAge is the interval at which the activity of an open execution is read again: what
// it waits for may have disappeared without an event of its own.
const activityMaxAge = 10 * time.Second

// maxActivities is the maximum number of activities kept.
const maxActivities = 2000

// lookUp requests the unknown activities of the visible executions.
func (s *listScreen) lookUp() tea.Cmd {
	at := &s.activities
	if s.table.kind != Executions || at.inFlight || s.now.Sub(at.failed) < rereadFailed {
		return nil
	}
	var rows []Row
	var ids []string
	for _, r := range s.table.shown() {
		if k, ok := at.known[r.ID]; ok && k.version == r.Count && (r.State.Ended() || s.now.Sub(k.read) < activityMaxAge) || r.State.Ended() && r.State != Faulted {
			continue
		}
		rows, ids = append(rows, r), append(ids, r.ID)
	}
	if len(rows) == 0 {
		return nil
	}
	at.inFlight = true
	return ask(s, func(ctx context.Context) (func() tea.Cmd, error) {
		found, err := s.m.source.Activities(ctx, ids)
		return func() tea.Cmd {
			s.activities.take(rows, found, s.now, err)
			return nil
		}, err
	})
}

// take stores the activities of rows.
func (s *activityCache) take(rows []Row, found []Activity, now time.Time, err error) {
	s.inFlight, s.failed = false, time.Time{}
	if err != nil {
		s.failed = now
		return
	}
	if s.known == nil || len(s.known) > maxActivities {
		s.known = map[string]cachedActivity{}
	}
	for i, activity := range found[:min(len(found), len(rows))] {
		s.known[rows[i].ID] = cachedActivity{rows[i].Count, now, activity}
	}
}

// show fills in the activities of the visible rows. An outdated one is better than none,
// unless the execution has ended.
func (s *activityCache) show(t *table) {
	rows := t.shown()
	for i := range rows {
		r := &rows[i]
		r.Activity = nil
		if k, ok := s.known[r.ID]; ok && (!r.State.Ended() || k.version == r.Count) {
			r.Activity = &k.Activity
		}
	}
}

// detailPane shows a row in full.
type detailPane struct {
	source Source
	table  Table

	id      string // of the row shown
	detail  Detail
	loaded  bool
	problem string
	view    dataView

	inFlight bool
	readAt   time.Time
	focus    bool
	viewAt   canvas.Area
}

// rereadDetail is the polling interval of a detail.
const rereadDetail = 3 * time.Second

// follow reads the detail of the row at the cursor.
func (p *detailPane) follow(row Row, now time.Time) tea.Cmd {
	same := row.ID == p.id
	if p.inFlight || row.ID == "" || same && now.Sub(p.readAt) < rereadDetail {
		return nil
	}
	if !same {
		p.detail, p.loaded, p.problem = Detail{}, false, ""
		p.view.set("")
	}
	p.id, p.inFlight, p.readAt = row.ID, true, now
	source, table, id := p.source, p.table, row.ID
	return ask(nil, func(ctx context.Context) (func() tea.Cmd, error) {
		detail, err := detailOf(ctx, source, table, id)
		return func() tea.Cmd {
			p.take(detail, err)
			return nil
		}, err
	})
}

// detailOf reads a row in full.
func detailOf(ctx context.Context, source Source, table Table, id string) (Detail, error) {
	if table != Executions {
		return source.Detail(ctx, table, id)
	}
	e, err := source.Execution(ctx, id)
	d := e.Detail
	for _, wait := range e.Waits {
		d.Facts = append(d.Facts, [2]string{"waits", wait})
	}
	if e.Problem != "" {
		d.Facts = append(d.Facts, [2]string{"problem", e.Problem})
	}
	return d, err
}

// take stores the detail of the row.
func (p *detailPane) take(detail Detail, err error) {
	p.inFlight = false
	if err != nil {
		p.problem = err.Error()
		return
	}
	p.detail, p.loaded, p.problem = detail, true, ""
	p.view.set(joined(detail.Data))
}

// joined merges several values into one so that they fold together.
func joined(all []Data) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0].Text
	}
	var b bytes.Buffer
	for i, d := range all {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(d.Name)
		b.Write(name)
		b.WriteByte(':')
		if json.Valid([]byte(d.Text)) {
			b.WriteString(d.Text)
			continue
		}
		text, _ := json.Marshal(d.Text)
		b.Write(text)
	}
	b.WriteByte('}')
	return b.String()
}

// key handles the keys of the pane while it has the focus.
func (p *detailPane) key(k string) bool {
	v := &p.view
	if canvas.ScrollKey(k, v, v.Height) {
		return true
	}
	switch k {
	case "left", "h":
		v.fold(false)
	case "right", "l":
		v.fold(true)
	case "enter":
		v.toggleFold()
	case "esc", "backspace":
		p.focus = false
	default:
		return false
	}
	return true
}

// hints returns the keys of the focused pane, in addition to those of the table.
func (p *detailPane) hints(opens bool) []hint {
	hints := []hint{{"tab", "to the table", false}, {"esc", "to the table", true}}
	if len(p.view.lines) > 0 {
		hints = append(hints, hint{"↑ ↓", "line", false}, hint{"y", "copy the value", false})
	}
	if p.view.folds() {
		hints = append(hints, hint{"← →", "fold", false}, hint{"enter", "fold or unfold", true})
	}
	if opens {
		hints = append(hints, hint{"o", "open its execution", false})
	}
	return hints
}

// copied returns the value at the cursor, or the id if there is none.
func (p *detailPane) copied() (what, text string) {
	if what, text := p.view.value(); text != "" {
		return what, text
	}
	return "id of the " + tables[p.table].one, p.id
}

// click puts the cursor on a line, and folds it.
func (p *detailPane) click(x, y int, double bool) {
	if !p.viewAt.Holds(x, y) {
		return
	}
	p.view.To(p.view.Offset + y - p.viewAt.Y)
	if double {
		p.view.toggleFold()
	}
}

// draw draws the facts, and the data below them.
func (p *detailPane) draw(a canvas.Area, theme canvas.Theme, now time.Time) {
	style := canvas.Faint
	if p.focus {
		style = canvas.Accent
	}
	theme.Rule(a, 0, tables[p.table].one+" "+p.id, style)
	y := 1
	switch {
	case p.problem != "":
		for _, line := range canvas.Wrapped(p.problem, a.W-2) {
			a.Put(1, y, canvas.Bad, line)
			y++
		}
	case !p.loaded:
		a.Put(1, y, canvas.Faint, "reading")
	}
	y = p.facts(a, theme, y, now)
	if len(p.detail.Data) == 0 || y >= a.H {
		p.viewAt = canvas.Area{}
		return
	}
	theme.Rule(a, y, p.names(), style)
	p.viewAt = a.Part(1, y+1, a.W-1, a.H-y-1)
	p.view.draw(p.viewAt, theme, p.focus)
}

// facts draws the facts in the space that the data leaves.
func (p *detailPane) facts(a canvas.Area, theme canvas.Theme, y int, now time.Time) int {
	names := 0
	for _, f := range p.detail.Facts {
		names = max(names, min(canvas.Width(f[0]), 20))
	}
	limit := a.H
	if len(p.detail.Data) > 0 {
		limit = max(a.H*2/3, y+1)
	}
	for _, f := range p.detail.Facts {
		for i, line := range canvas.Wrapped(zoned(now, f[1]), max(10, a.W-names-4)) {
			if y >= limit {
				return y
			}
			if i == 0 {
				theme.Field(a, 1, y, names, canvas.Faint, f[0])
			}
			a.Put(names+3, y, canvas.Normal, line)
			y++
		}
	}
	return y
}

func (p *detailPane) names() string {
	var names []string
	for _, d := range p.detail.Data {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}
