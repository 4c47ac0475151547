package tui

import (
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// wide is the minimum width for two columns.
const wide = 120

// draw draws the overview, in two columns if there is space.
func (s *overviewScreen) draw(a canvas.Area, theme canvas.Theme, now time.Time) {
	if s.m.overviewAt.IsZero() {
		a.Put(2, 1, canvas.Faint, "reading the overview")
		return
	}
	y := s.counts(a, theme)
	if a.W >= wide && a.H >= 30 {
		y = s.rates(a, theme, y+1, a.H/10) + 1
	} else {
		y = s.rates(a, theme, y, 1)
	}
	for _, note := range s.m.overview.Notes {
		x := a.Put(0, y, canvas.Warn|canvas.Strong, theme.Pick("▲ ", "! "))
		a.Put(x, y, canvas.Warn, canvas.Clip(note, a.W-x, theme.More()))
		y++
	}
	if a.W >= wide {
		s.columns(a.Part(0, y, a.W, a.H-y), theme, now)
		return
	}
	all := []int{dueList, runningList, failedList}
	if s.serviceLines(false)+2*len(all) <= a.H-y {
		y = s.services(a, theme, y, false)
	}
	if 2*len(all) > a.H-y {
		all = []int{s.at} // its cursor must be visible
	}
	s.stack(a.Part(0, y, a.W, a.H-y), theme, now, all)
}

// columns draws services and failures on the left, due timers and running tasks on the right.
func (s *overviewScreen) columns(a canvas.Area, theme canvas.Theme, now time.Time) {
	half := a.W / 2
	left, right := a.Part(0, 0, half-1, a.H), a.Part(half+1, 0, a.W-half-1, a.H)
	workers := s.serviceLines(true) <= a.H/2
	y := s.services(left, theme, 0, workers)
	s.stack(left.Part(0, y, left.W, left.H-y), theme, now, []int{failedList})
	s.stack(right, theme, now, []int{dueList, runningList})
}

// counted is a number with its name.
type counted struct {
	state State
	n     int64
	what  string
}

// counts draws the counts, in one line or two.
func (s *overviewScreen) counts(a canvas.Area, theme canvas.Theme) int {
	c := s.m.overview.Counts
	first := []counted{{Running, c.Open, "open"}, {Completed, c.Completed, "completed"}, {Faulted, c.Faulted, "faulted"}, {Cancelled, c.Cancelled, "cancelled"}}
	timers := history.Plural(c.Timers, "timer")
	if c.Shared {
		timers += " of all tenants"
	}
	second := []counted{{Waiting, c.Timers, timers}, {Overdue, c.Overdue, "overdue"}, {Dead, c.Dead, history.Plural(c.Dead, "dead letter")}}
	if c.Scheduled > 0 {
		second = append(second, counted{Waiting, c.Scheduled, history.Plural(c.Scheduled, "scheduled event")})
	}
	x := drawCounts(a, theme, 0, 0, first)
	if x+countsWidth(second) <= a.W {
		drawCounts(a, theme, x+2, 0, second)
		return 1
	}
	drawCounts(a, theme, 0, 1, second)
	return 2
}

func countsWidth(all []counted) int {
	n := 0
	for _, c := range all {
		n += 6 + len(history.Number(c.n)) + len(c.what)
	}
	return n
}

func drawCounts(a canvas.Area, theme canvas.Theme, x, y int, all []counted) int {
	for _, c := range all {
		s := signOf(theme, c.state)
		style := s.style
		if c.n == 0 {
			style = canvas.Faint
		}
		x = a.Put(x, y, style, s.glyph) + 1
		x = a.Put(x, y, style|canvas.Strong, history.Number(c.n)) + 1
		x = a.Put(x, y, canvas.Faint, c.what) + 3
	}
	return x
}

// rates draws the rates of events and fired timers in a number of rows.
func (s *overviewScreen) rates(a canvas.Area, theme canvas.Theme, y, rows int) int {
	half := a.W / 2
	drawRate(a.Part(0, y, half-1, rows), theme, "events/s", s.m.overview.Events, &s.events)
	drawRate(a.Part(half+1, y, a.W-half-1, rows), theme, "fires/s", s.m.overview.Fires, &s.fires)
	return y + rows
}

func drawRate(a canvas.Area, theme canvas.Theme, what string, now float64, of *samples) {
	x, number := a.Put(0, 0, canvas.Faint, what)+1, rate(now)
	a.Put(max(x, x+6-len(number)), 0, canvas.Strong, number)
	from := x + max(6, len(number)) + 1
	graph := a.Part(from, 0, a.W-from, a.H)
	a.Put(0, 1, canvas.Faint, "at most "+rate(of.peak(graph.W)))
	of.draw(graph, theme)
}

// serviceLines is the number of lines that services draws.
func (s *overviewScreen) serviceLines(workers bool) int {
	n := 1 + len(s.m.overview.Services)
	for _, service := range s.m.overview.Services {
		if workers {
			n += len(service.Workers)
		}
	}
	return n + truth(workers)
}

// services draws the services, with their workers if there is space.
func (s *overviewScreen) services(a canvas.Area, theme canvas.Theme, y int, workers bool) int {
	if len(s.m.overview.Services) == 0 {
		return y
	}
	theme.Rule(a, y, "Services", canvas.Accent)
	y++
	name := 0
	for _, service := range s.m.overview.Services {
		name = max(name, min(canvas.Width(service.Name), 20))
	}
	for _, service := range s.m.overview.Services {
		drawService(a.Part(0, y, a.W, 1), theme, name, service)
		y++
		if !workers {
			continue
		}
		for _, w := range service.Workers {
			drawWorker(a.Part(0, y, a.W, 1), theme, w)
			y++
		}
	}
	if workers {
		y++
	}
	return y
}

func drawService(a canvas.Area, theme canvas.Theme, name int, s Service) {
	state, alive, style := Alive, history.Number(s.Alive)+" alive", canvas.Normal
	if s.Alive == 0 {
		state, alive, style = Silent, "none alive", canvas.Bad
	}
	sign := signOf(theme, state)
	a.Put(0, 0, sign.style, sign.glyph)
	x := theme.Field(a, 2, 0, name, canvas.Strong, s.Name) + 2
	a.Put(x, 0, style, alive)
	x += 12
	a.Put(x, 0, canvas.Normal, history.Number(s.Busy)+" busy")
	x += 10
	x = a.Put(x, 0, loaded(s.Lag), "lag "+history.Number(s.Lag)) + 2
	x = a.Put(max(x, 2+name+2+12+10+12), 0, loaded(s.Pending), "pending "+history.Number(s.Pending)) + 2
	theme.Rest(a, x, canvas.Warn, s.Note)
}

// loaded returns the style of a number that should be small.
func loaded(n int64) canvas.Style {
	switch {
	case n == 0:
		return canvas.Faint
	case n >= 1000:
		return canvas.Warn
	default:
		return canvas.Normal
	}
}

func drawWorker(a canvas.Area, theme canvas.Theme, w Worker) {
	sign := signOf(theme, w.State)
	x := a.Put(2, 0, sign.style, sign.glyph+" "+string(w.State)) + 1
	x = max(x, 12)
	x = theme.Field(a, x, 0, min(40, a.W-x-26), canvas.Normal, w.Name) + 1
	a.Put(x, 0, canvas.Normal, history.Number(w.Pending)+" pending")
	a.Put(x+12, 0, canvas.Faint, "seen "+age(w.Idle)+" ago")
}

// stack draws lists one below the other, and divides the space among them.
func (s *overviewScreen) stack(a canvas.Area, theme canvas.Theme, now time.Time, which []int) {
	heights := shares(a.H-len(which), s.needs(which))
	y := 0
	for i, at := range which {
		s.list(a.Part(0, y, a.W, heights[i]+1), theme, now, at)
		y += heights[i] + 1
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
func shares(space int, needs []int) []int {
	given := make([]int, len(needs))
	for more := true; more && space > 0; {
		more = false
		for i := range needs {
			if space > 0 && given[i] < needs[i] {
				given[i]++
				space--
				more = true
			}
		}
	}
	if n := len(given); space > 0 && n > 0 {
		for i := range given {
			given[i] += space / n
		}
	}
	return given
}

// list draws one of the lists below its title.
func (s *overviewScreen) list(a canvas.Area, theme canvas.Theme, now time.Time, at int) {
	list := &s.lists[at]
	style := canvas.Accent
	if at == failedList && len(list.rows) > 0 {
		style = canvas.Bad
	}
	theme.Rule(a, 0, list.title+list.share(a.H-1), style)
	list.area = a.Part(0, 1, a.W, a.H-1)
	list.Height = max(1, list.area.H)
	list.Fit(len(list.rows))
	if len(list.rows) == 0 {
		a.Put(2, 1, canvas.Faint, list.none)
	}
	widths := list.columns(now)
	cursor := canvas.Normal
	if at == s.at {
		cursor = canvas.Selected
	}
	list.Rows(list.area, len(list.rows), cursor, func(line canvas.Area, n int) {
		drawRow(line, theme, now, at, list.rows[n], widths)
	})
}

// share says how many of the rows are shown, if not all of them.
func (l *listing) share(width int) string {
	shown := min(width, len(l.rows))
	switch of := max(l.total, int64(len(l.rows))); {
	case shown <= 0, int64(shown) == of && l.total > 0, shown == len(l.rows) && l.total == 0:
		return ""
	case l.total == 0:
		return ", " + history.Number(shown) + " of " + history.Number(of) + " or more"
	default:
		return ", " + history.Number(shown) + " of " + history.Number(of)
	}
}

// drawRow draws a row of one of the lists.
func drawRow(a canvas.Area, theme canvas.Theme, now time.Time, list int, r Row, w listWidths) {
	sign := signOf(theme, r.State)
	a.Put(0, 0, sign.style, sign.glyph)
	if list == failedList {
		x := theme.Field(a, 2, 0, 8, canvas.Faint, since(now, r.Last())) + 1
		x = theme.Field(a, x, 0, 9, sign.style, string(r.State)) + 1
		x = theme.Field(a, x, 0, w.lead, canvas.Normal, subjectOf(r)) + 1
		theme.Rest(a, x, canvas.Bad, r.Note)
		return
	}
	text := since(now, r.At)
	if list == dueList {
		text = due(now, r)
	}
	x := theme.Field(a, 2, 0, w.time, sign.style, text) + 1
	x = theme.Field(a, x, 0, w.what, canvas.Faint, r.Kind) + 1
	x = theme.Field(a, x, 0, w.lead, canvas.Normal, r.Execution) + 1
	theme.Rest(a, x, canvas.Faint, history.Task(r.Task))
}

// listWidths are the widths of a time, a kind, and an execution.
type listWidths struct{ time, what, lead int }

// columns fits the columns to what a list shows; times may grow as they pass.
func (l *listing) columns(now time.Time) listWidths {
	widths := listWidths{9, 5, 8}
	for at := l.Offset; at < min(len(l.rows), l.Offset+l.area.H); at++ {
		r := l.rows[at]
		widths.time = max(widths.time, canvas.Width(due(now, r)))
		widths.what = max(widths.what, min(15, canvas.Width(r.Kind)))
		widths.lead = max(widths.lead, canvas.Width(subjectOf(r)))
	}
	widths.lead = min(widths.lead, max(8, (l.area.W-22)*3/5))
	return widths
}

// subjectOf names the subject of a row: its execution, or an event outside of any.
func subjectOf(r Row) string {
	if r.State == Dead && r.Execution == "" {
		return r.Kind
	}
	return executionIn(r)
}

// samples are rates, second by second.
type samples struct {
	values []float64
	last   time.Time
}

// maxSamples is the maximum number kept: more than a screen is wide.
const maxSamples = 400

// add adds a rate. Of two rates within a second it keeps the larger one.
func (s *samples) add(value float64, at time.Time) {
	if n := len(s.values); n > 0 && at.Sub(s.last) < 900*time.Millisecond {
		s.values[n-1] = max(s.values[n-1], value)
		return
	}
	s.last = at
	if len(s.values) >= maxSamples {
		s.values = append(s.values[:0], s.values[1:]...)
	}
	s.values = append(s.values, value)
}

// latest returns the last n rates.
func (s *samples) latest(width int) []float64 {
	return s.values[max(0, len(s.values)-width):]
}

func (s *samples) peak(width int) float64 {
	peak := 0.0
	for _, v := range s.latest(width) {
		peak = max(peak, v)
	}
	return peak
}

// draw draws the rates as columns, the latest at the right edge.
func (s *samples) draw(a canvas.Area, theme canvas.Theme) {
	latest, peak := s.latest(a.W), s.peak(a.W)
	steps := []rune(theme.Pick("▁▂▃▄▅▆▇█", ".:-=+*%#"))
	for i, v := range latest {
		x := a.W - len(latest) + i
		level := 0
		if peak > 0 && v > 0 {
			level = max(1, int(v/peak*float64(a.H*len(steps))+0.5))
		}
		if level == 0 {
			a.Put(x, a.H-1, canvas.Faint, string(steps[0]))
			continue
		}
		for y := a.H - 1; y >= 0 && level > 0; y-- {
			a.Put(x, y, canvas.Accent, string(steps[min(level, len(steps))-1]))
			level -= len(steps)
		}
	}
	if missing := a.W - len(latest); missing > 0 {
		a.Put(0, a.H-1, canvas.Faint, strings.Repeat(string(steps[0]), missing))
	}
}
