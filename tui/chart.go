package tui

import (
	"cmp"
	"strings"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/axis"
	"flunq.io/flunq/tui/canvas"
)

// chart draws the lines of a tree on a time axis: when each worked and when it waited.
type chart struct {
	tree    *taskTree
	theme   canvas.Theme
	options treeOptions
	scale   *axis.Scale
	width   int  // cells of the axis
	ended   bool // no more events arrive, so the present is not drawn
}

// chartHead is the number of rows above the lines: the times and the ruler.
const chartHead = 2

// drawChart draws the visible lines as a chart, with the axis above it, and a legend below it if
// there is space.
func (t *taskTree) drawChart(a canvas.Area, theme canvas.Theme, options treeOptions) {
	if a.H <= chartHead {
		return
	}
	body := a.Part(0, chartHead, a.W, a.H-chartHead)
	if body.H >= 8 {
		body.H--
	}
	t.scroll(body.H)
	names, starts, times := max(12, min(a.W/3, 44)), 0, 0
	if a.W >= 70 {
		times = 10
	}
	if a.W >= 100 {
		starts = 9
	}
	c := &chart{tree: t, theme: theme, options: options, width: max(1, a.W-names-1-starts-times)}
	state := cmp.Or(options.top.State, t.runs[0].State)
	c.ended = state.Ended() || t.runs[0].Began.At.IsZero()
	cells := 100 / float64(c.width)
	c.scale = axis.New(c.stamps(), axis.Options{Wide: t.instant(), TickWidth: 9 * cells, BreakWidth: 9 * cells})
	c.head(a.Part(names+1, 0, c.width, chartHead))
	if starts > 0 {
		a.Part(0, 0, a.W-times, 1).Right(0, canvas.Faint, "start")
		a.Right(0, canvas.Faint, "took")
	}
	w := &t.window
	w.Rows(body, len(w.lines), canvas.Normal, func(row canvas.Area, at int) {
		line := &w.lines[at]
		text := t.text(theme, line, &options)
		x := t.drawName(row.Part(0, 0, names, 1), theme, line, &text)
		theme.Rest(row.Part(0, 0, names, 1), x+1, text.noted, text.notes)
		c.line(row.Part(names+1, 0, c.width, 1), line)
		if times > 0 {
			row.Right(0, canvas.Normal, text.time)
		}
		if starts > 0 {
			row.Part(0, 0, a.W-times, 1).Right(0, canvas.Faint, c.start(line))
		}
		if at == w.Cursor {
			row.Part(0, 0, names, 1).Fill(0, cursorStyle(options.focus))
		}
	})
	if body.H < a.H-chartHead {
		c.legend(a.Part(0, a.H-1, a.W, 1))
	}
	if len(w.lines) == 0 {
		body.Put(2, 1, canvas.Faint, canvas.Clip("nothing matches "+w.typed+" (esc: all)", a.W-2, theme.More()))
	}
}

// The symbols of a chart.
func workSign(theme canvas.Theme) string   { return theme.Pick("█", "#") }
func waitSign(theme canvas.Theme) string   { return theme.Pick("░", ".") }
func pauseSign(theme canvas.Theme) string  { return theme.Pick("▒", "%") }
func futureSign(theme canvas.Theme) string { return theme.Pick("╌", ":") }
func nowSign(theme canvas.Theme) string    { return theme.Pick("│", "|") }

// legend explains the symbols.
func (c *chart) legend(a canvas.Area) {
	theme, x := c.theme, 1
	for _, part := range []struct {
		style canvas.Style
		sign  string
		what  string
	}{
		{canvas.Good, workSign(theme), "works"},
		{canvas.Calm, waitSign(theme), "waits"},
		{canvas.Warn, pauseSign(theme), "suspended or retrying"},
		{canvas.Calm, futureSign(theme), "remaining wait"},
		{canvas.Strong, nowSign(theme), "now"},
	} {
		if x+canvas.Width(part.what)+4 > a.W || c.ended && (part.sign == nowSign(theme) || part.sign == futureSign(theme)) {
			return
		}
		x = a.Put(x, 0, part.style, part.sign+part.sign) + 1
		x = a.Put(x, 0, canvas.Faint, part.what) + 3
	}
}

// instant reports whether at least three of ten tasks take no time at all, as in a simulation.
func (t *runTree) instant() bool {
	none, all := 0, 0
	for i := range t.runs {
		if r := &t.runs[i]; i > 0 && len(r.turns) == 0 && r.State.Ended() {
			all++
			none += truth(!r.Ended.At.After(r.Began.At))
		}
	}
	return none*10 >= all*3
}

// maxCharted is the number of runs above which the axis covers only the visible ones.
const maxCharted = 2000

// stamps returns the moments at which something happens.
func (c *chart) stamps() []history.Moment {
	t := c.tree
	var out []history.Moment
	if len(t.runs) <= maxCharted {
		for at := range t.runs {
			out = c.momentsOf(out, int32(at))
		}
	} else {
		from := max(0, t.window.Cursor-maxCharted/2)
		for _, l := range t.window.lines[from:min(len(t.window.lines), from+maxCharted)] {
			switch l.kind {
			case runLine:
				out = c.momentsOf(out, l.run)
			case turnLine, rangeLine:
				runs := t.turnsAt(&l)
				out = c.momentsOf(c.momentsOf(out, runs[0].runs[0]), last(last(runs).runs))
			case plannedLine:
			}
		}
		out = c.momentsOf(out, 0)
	}
	if !c.ended && !t.runs[0].Began.At.IsZero() {
		out = append(out, c.now())
	}
	return out
}

// turnsAt returns the turns that a line stands for.
func (t *runTree) turnsAt(l *treeLine) []taskTurn {
	turns := t.runs[l.run].turns
	return turns[l.turn:min(int(l.turn+max(1, l.size)), len(turns))]
}

func last[T any](all []T) T { return all[len(all)-1] }

// start returns when a line began, relative to the start of the execution.
func (c *chart) start(l *treeLine) string {
	at := l.run
	switch l.kind {
	case plannedLine:
		return ""
	case turnLine, rangeLine:
		at = c.tree.turnsAt(l)[0].runs[0]
	case runLine:
	}
	r := &c.tree.runs[at]
	if r.Began.At.IsZero() {
		return ""
	}
	return "+" + history.Duration(r.Began.At.Sub(c.tree.runs[0].Began.At))
}

// momentsOf adds the moments of a run.
func (c *chart) momentsOf(out []history.Moment, at int32) []history.Moment {
	r := &c.tree.runs[at]
	if r.Began.At.IsZero() {
		return out
	}
	out = append(out, r.Began)
	if !r.Ended.At.IsZero() {
		out = append(out, r.Ended)
	}
	for _, w := range r.Waits {
		out = append(out, w.From)
		if !w.To.IsZero() {
			out = append(out, w.To)
		}
	}
	if until := c.until(r); !until.At.IsZero() {
		out = append(out, until)
	}
	return out
}

// now is after everything that has happened.
func (c *chart) now() history.Moment {
	return history.Moment{At: c.options.now, Version: c.tree.x.Version + 1}
}

// until returns when the wait of a run ends, if that is known and in the future.
func (c *chart) until(r *taskRun) (at history.Moment) {
	if c.ended || r.State != Waiting && r.State != Retrying {
		return at
	}
	until := r.Until
	if timer, ok := c.options.timers[r.String()]; ok {
		until = timer.At
	}
	if until.After(c.options.now) {
		at = history.Moment{At: until, Version: c.tree.x.Version + 2}
	}
	return at
}

// cell returns the position of a moment on the axis.
func (c *chart) cell(at history.Moment) int {
	return max(0, min(c.width-1, int(c.scale.X(at)*float64(c.width)/100)))
}

// head draws the times, and the ruler with its breaks and the present moment.
func (c *chart) head(a canvas.Area) {
	theme := c.theme
	a.Put(0, 1, canvas.Faint, strings.Repeat(theme.Pick("─", "-"), a.W))
	end := 0
	for _, t := range c.scale.Ticks {
		x := int(t.X * float64(c.width) / 100)
		if x < end || x+canvas.Width(t.Label) > a.W {
			continue
		}
		end = a.Put(x, 0, canvas.Faint, t.Label) + 1
		a.Put(x, 1, canvas.Faint, theme.Pick("┬", "+"))
	}
	for _, b := range c.scale.Breaks {
		from, to := int(b.From*float64(c.width)/100)+1, int(b.To*float64(c.width)/100)
		text := theme.Pick("≈", "~") + history.Duration(b.Long)
		if canvas.Width(text) > to-from {
			text = theme.Pick("≈", "~")
		}
		a.Part(from, 1, to-from, 1).Clear()
		a.Put(from+max(0, to-from-canvas.Width(text))/2, 1, canvas.Accent, text)
	}
	if !c.ended {
		a.Put(c.cell(c.now()), 1, canvas.Strong, theme.Pick("▼", "v"))
	}
}

// line draws a line of the tree.
func (c *chart) line(a canvas.Area, line *treeLine) {
	for _, b := range c.scale.Breaks {
		a.Put(int((b.From+b.To)/2*float64(c.width)/100), 0, canvas.Faint, c.theme.Pick("╎", " "))
	}
	c.present(a)
	left := maxInside
	switch line.kind {
	case plannedLine:
	case runLine:
		c.run(a, line.run, line.folds && line.open, &left)
	case turnLine, rangeLine:
		c.turns(a, c.tree.turnsAt(line), &left)
	}
}

// present marks the present.
func (c *chart) present(a canvas.Area) {
	if !c.ended {
		a.Put(c.cell(c.now()), 0, canvas.Strong, nowSign(c.theme))
	}
}

// maxInside is the maximum number of runs drawn in a folded line.
const maxInside = 500

// run draws a run: as a frame around the lines below it, or with everything inside it.
func (c *chart) run(a canvas.Area, at int32, open bool, left *int) {
	r := &c.tree.runs[at]
	if r.Began.At.IsZero() || r.State == Skipped {
		return
	}
	if at > 0 && len(r.turns) == 0 {
		c.bar(a, r)
		return
	}
	theme := c.theme
	from, to := c.ends(r)
	a.Put(from, 0, canvas.Faint, strings.Repeat(theme.Pick("─", "-"), to-from+1))
	a.Put(from, 0, canvas.Faint, theme.Pick("├", "|"))
	if r.State.Ended() {
		a.Put(to, 0, canvas.Faint, theme.Pick("┤", "|"))
	}
	c.waits(a, r)
	if !open {
		c.turns(a, r.turns, left)
	}
	c.present(a)
}

// turns draws all runs of turns in the line of the run around them.
func (c *chart) turns(a canvas.Area, turns []taskTurn, left *int) {
	for _, turn := range turns {
		for _, at := range turn.runs {
			r := &c.tree.runs[at]
			if *left--; *left < 0 || r.Began.At.IsZero() || r.State == Skipped {
				continue
			}
			if len(r.turns) == 0 {
				c.bar(a, r)
				continue
			}
			c.turns(a, r.turns, left)
			c.waits(a, r)
		}
	}
}

// ends returns the first and last cell of a run; an open run extends to the present.
func (c *chart) ends(r *taskRun) (from, to int) {
	from = c.cell(r.Began)
	end := c.now()
	switch {
	case !r.Ended.At.IsZero():
		end = r.Ended
	case c.ended:
		end = history.Moment{At: c.tree.runs[0].Ended.At, Version: c.tree.x.Version}
	}
	return from, max(from, c.cell(end))
}

// bar draws a run without runs inside.
func (c *chart) bar(a canvas.Area, r *taskRun) {
	from, to := c.ends(r)
	sign, style := workSign(c.theme), signOf(c.theme, r.State).style
	if r.State == Waiting || r.State == Retrying {
		style = canvas.Busy
	}
	if kind := c.tree.tasks.at(r.task).Kind; kind == "listen" || kind == "run" {
		sign = waitSign(c.theme) // its work happens elsewhere
		if r.State == Completed {
			style = canvas.Calm
		}
	}
	// The last cell belongs to whatever begins at that moment.
	a.Put(from, 0, style, strings.Repeat(sign, max(1, to-from)))
	c.waits(a, r)
	if r.State == Faulted || r.State == Cancelled {
		a.Put(max(from, to-1), 0, style, workSign(c.theme))
	}
}

// waits draws the times in which a run was idle, and its remaining wait.
func (c *chart) waits(a canvas.Area, r *taskRun) {
	for _, w := range r.Waits {
		from, to := c.cell(w.From), c.cell(c.now())
		switch {
		case !w.To.IsZero():
			to = c.cell(w.To)
		case c.ended:
			_, to = c.ends(r)
		}
		sign, style := waitSign(c.theme), canvas.Calm
		if w.State != Waiting {
			sign, style = pauseSign(c.theme), canvas.Warn
		}
		a.Put(from, 0, style, strings.Repeat(sign, max(1, to-from)))
	}
	if until := c.until(r); !until.At.IsZero() {
		from, to := c.cell(c.now())+1, c.cell(until)
		a.Put(from, 0, canvas.Calm, strings.Repeat(futureSign(c.theme), max(0, to-from+1)))
	}
}

// chartLine returns the line of the tree at a row of a chart.
func (t *taskTree) chartLine(row int) (line int, ok bool) {
	line = t.window.Offset + row - chartHead
	return line, row >= chartHead && line < len(t.window.lines) && row-chartHead < t.window.Height
}

// charts reports whether the timeline is shown, where the keys are those of the tree.
func (s *executionScreen) charts() bool { return s.pane == timelinePane }
