package tui

import (
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// executionAreas records where each part was drawn, for the mouse. A part without space is empty.
type executionAreas struct {
	tree, tabs, pane, third canvas.Area
	ends                    [paneCount]int // of the tabs
	beside                  pane           // what is drawn in the third column, below its title
}

// The minimum widths for two and three columns, and the minimum height for two rows.
const (
	twoColumns   = 120
	threeColumns = 160
	twoRows      = 11
)

// draw draws the screen.
func (s *executionScreen) draw(a canvas.Area, theme canvas.Theme, now time.Time) {
	head := s.head(a, theme, now)
	s.arrange(a.Part(0, head, a.W, a.H-head))
	p := &s.areas
	if p.tree.H > 0 {
		s.tree.draw(p.tree, theme, s.treeOptions(now))
	}
	if p.pane.H > 0 {
		s.tabs(p.tabs, theme)
		s.drawPane(s.pane, p.pane, theme, now)
	}
	if p.third.H > 0 {
		theme.Rule(p.third, 0, s.paneTitle(p.beside), canvas.Faint)
		s.drawPane(p.beside, p.third.Part(0, 1, p.third.W, p.third.H-1), theme, now)
	}
	for _, column := range []canvas.Area{p.tabs, p.third} {
		for y := head; column.X > a.X && y < a.H; y++ {
			a.Put(column.X-a.X-1, y, canvas.Faint, theme.Pick("│", "|"))
		}
	}
}

// arrange lays out the tree and the panes.
func (s *executionScreen) arrange(all canvas.Area) {
	p := &s.areas
	*p = executionAreas{beside: historyPane}
	if s.pane == historyPane {
		p.beside = documentPane
	}
	panes := all // without the tree
	switch {
	case s.charts():
	case all.W >= threeColumns:
		p.tree = all.Part(0, 0, max(64, all.W*2/5), all.H)
		panes = all.Part(p.tree.W+1, 0, (all.W-p.tree.W)/2, all.H)
		p.third = all.Part(p.tree.W+1+panes.W+1, 0, all.W, all.H)
	case all.W >= twoColumns:
		p.tree = all.Part(0, 0, max(60, all.W*45/100), all.H)
		panes = all.Part(p.tree.W+1, 0, all.W, all.H)
	case all.H < twoRows && s.inPane:
	case all.H < twoRows:
		p.tree, panes = all, canvas.Area{}
	default:
		p.tree = all.Part(0, 0, all.W, all.H*11/20)
		panes = all.Part(0, p.tree.H, all.W, all.H)
	}
	p.tabs, p.pane = panes.Part(0, 0, panes.W, 1), panes.Part(0, 1, panes.W, panes.H-1)
}

// tabs draws the titles of the panes.
func (s *executionScreen) tabs(a canvas.Area, theme canvas.Theme) {
	x, apart, first := a.Put(0, 0, canvas.Faint, theme.Pick("─", "-")), " ", pane(0)
	if a.W < s.tabsWidth(0, paneCount-1)+int(paneCount) {
		apart = ""
	}
	for first < s.pane && a.W < s.tabsWidth(first, s.pane) {
		first++ // the chosen pane must be visible
	}
	for p := first; p < paneCount; p++ {
		i := canvas.Faint
		if p == s.pane {
			i = canvas.Accent | canvas.Strong
			if s.inPane || s.charts() {
				i |= canvas.Selected
			}
		}
		x = a.Put(x, 0, canvas.Faint, " ")
		x = a.Put(x, 0, i, s.paneTitle(p))
		s.areas.ends[p] = x
		x = a.Put(x, 0, canvas.Faint, apart)
	}
	if x < a.W {
		a.Put(x, 0, canvas.Faint, strings.Repeat(theme.Pick("─", "-"), a.W-x))
	}
}

// tabsWidth returns the width of the titles of panes, without space between them.
func (s *executionScreen) tabsWidth(from, to pane) int {
	width := 1
	for p := from; p <= to; p++ {
		width += 1 + canvas.Width(s.paneTitle(p))
	}
	return width
}

// head draws up to two rows about the execution, its state and the filter, and returns their number.
func (s *executionScreen) head(a canvas.Area, theme canvas.Theme, now time.Time) int {
	if !s.known {
		if s.reads.problem != "" {
			theme.Rest(a, 1, canvas.Bad, s.reads.problem)
		} else {
			theme.Rest(a, 1, canvas.Faint, "reading "+s.id)
		}
		return 1
	}
	sign := signOf(theme, s.execution.State)
	x := a.Put(0, 0, sign.style|canvas.Strong, sign.glyph+" "+string(s.execution.State)) + 2
	right := a.Right(0, canvas.Faint, " "+s.progress(now))
	row := a.Part(0, 0, max(x, right), 1)
	x = theme.Rest(row, x, canvas.Strong, s.id) + 2
	theme.Rest(row, x, canvas.Faint, s.execution.Workflow)
	if a.H < 6 {
		return 1
	}
	if s.typed.on {
		s.typed.Draw(a, a.Put(0, 1, canvas.Accent|canvas.Strong, "/"), 1)
		return 2
	}
	i, text := s.message(now)
	a.Put(0, 1, i, canvas.Clip(text, a.W, theme.More()))
	return 2
}

// progress returns the number of events so far and how long they took.
func (s *executionScreen) progress(now time.Time) string {
	text := history.Count(s.execution.Version, "event")
	if s.tree.x.Version < s.execution.Version {
		text = history.Number(s.tree.x.Version) + " of " + text + " read"
	}
	switch {
	case s.execution.At.IsZero():
	case s.execution.State.Ended() && !s.execution.Until.IsZero():
		text += "  took " + history.Duration(s.execution.Until.Sub(s.execution.At))
	default:
		text += "  " + since(now, s.execution.At) + " old"
	}
	return text
}

// message returns the most important message.
func (s *executionScreen) message(now time.Time) (canvas.Style, string) {
	switch {
	case s.reads.problem != "":
		return canvas.Bad, s.reads.problem
	case s.execution.Problem != "":
		return canvas.Bad, s.execution.Problem
	case s.tree.window.typed != "" && !s.inPane:
		return canvas.Accent, "filter " + s.tree.window.typed + ": " + history.Count(s.tree.window.found, "run") + " of " +
			history.Number(len(s.tree.runs)-1) + " (esc: all)"
	case s.execution.State == Faulted:
		return canvas.Bad, s.execution.Note
	case s.execution.State.Ended():
		return canvas.Faint, s.execution.Note
	default:
		return canvas.Normal, s.activity(now)
	}
}

// activity says which tasks are running, or what the execution waits for.
func (s *executionScreen) activity(now time.Time) string {
	var parts []string
	open := s.tree.x.Innermost()
	for _, run := range open[:min(4, len(open))] {
		r := &s.tree.runs[run.Index]
		part := s.tree.nameOf(r) + " " + string(r.State)
		options := treeOptions{timers: s.timers, now: now}
		if text := s.tree.timeOf(r, &options); text != "" {
			part += " " + text
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = append(parts, s.execution.Waits...)
	}
	if s.tree.window.follow {
		parts = append(parts, "(follows)")
	}
	return strings.Join(parts, "  ")
}

// paneTitle returns a pane's name and the number of its entries.
func (s *executionScreen) paneTitle(p pane) string {
	n := 0
	switch p {
	case timersPane:
		n = len(s.execution.Timers)
	case childrenPane:
		n = len(s.execution.Children)
	case dataPane, timelinePane, documentPane, historyPane, factsPane, paneCount:
	}
	name := [...]string{"Data", "Timeline", "Document", "History", "Timers", "Facts", "Children"}[p]
	if n > 0 {
		name += " " + history.Number(n)
	}
	return name
}

// drawPane draws a pane into an area.
func (s *executionScreen) drawPane(p pane, a canvas.Area, theme canvas.Theme, now time.Time) {
	focus, cursor := s.inPane && p == s.pane, canvas.Normal
	if focus {
		cursor = canvas.Selected
	}
	switch p {
	case timelinePane:
		options := s.treeOptions(now)
		options.focus = true
		s.tree.drawChart(a, theme, options)
	case documentPane:
		s.document.show(s.tree.chosenTask().Line)
		s.document.draw(a, theme, s.states(), focus)
	case historyPane:
		s.history.draw(a, theme, now, focus)
	case timersPane:
		s.drawTimers(a, theme, now, cursor)
	case factsPane:
		s.drawFacts(a, theme, now, cursor)
	case childrenPane:
		s.drawChildren(a, theme, now, cursor)
	case dataPane, paneCount:
		s.drawData(a, theme, focus)
	}
}

func (s *executionScreen) drawTimers(a canvas.Area, theme canvas.Theme, now time.Time, cursor canvas.Style) {
	if len(s.execution.Timers) == 0 {
		theme.Rest(a, 1, canvas.Faint, "no timers")
	}
	s.due.Rows(a, len(s.execution.Timers), cursor, func(a canvas.Area, at int) {
		r := s.execution.Timers[at]
		sign := signOf(theme, r.State)
		a.Put(0, 0, sign.style, sign.glyph)
		style := canvas.Normal
		if r.State == Overdue {
			style = canvas.Warn
		}
		x := theme.Field(a, 2, 0, 12, style, due(now, r))
		x = theme.Field(a, x+1, 0, 9, canvas.Normal, r.Kind)
		x = theme.Rest(a, x+1, canvas.Normal, s.taskName(r.Task)) + 2
		x = theme.Rest(a, x, canvas.Faint, moment(now, r.At)) + 2
		theme.Rest(a, x, canvas.Faint, r.ID)
	})
}

// taskName returns a short name for a run: that of its task.
func (s *executionScreen) taskName(run string) string {
	if run == "" {
		return "the workflow"
	}
	return shortRun(run)
}

func (s *executionScreen) drawChildren(a canvas.Area, theme canvas.Theme, now time.Time, cursor canvas.Style) {
	if len(s.execution.Children) == 0 {
		theme.Rest(a, 1, canvas.Faint, "no children")
	}
	s.children.Rows(a, len(s.execution.Children), cursor, func(a canvas.Area, at int) {
		r := s.execution.Children[at]
		sign := signOf(theme, r.State)
		x := a.Put(0, 0, sign.style, sign.glyph+" ")
		x = theme.Field(a, x, 0, 10, sign.style, string(r.State)) + 1
		x = theme.Rest(a, x, canvas.Normal, r.ID) + 2
		x = theme.Rest(a, x, canvas.Faint, r.Workflow) + 2
		x = theme.Rest(a, x, canvas.Faint, s.taskName(r.Task)) + 2
		theme.Rest(a, x, canvas.Faint, since(now, r.At))
	})
}

// fact is a line of the facts.
type fact struct {
	name, text string
	style      canvas.Style
	data       *Data
}

// allFacts returns the facts about the execution, what it waits for, and its data.
func (s *executionScreen) allFacts() []fact {
	var all []fact
	if s.execution.Problem != "" {
		all = append(all, fact{name: "not known", text: s.execution.Problem, style: canvas.Bad})
	}
	for _, wait := range s.execution.Waits {
		all = append(all, fact{name: "waits for", text: wait, style: canvas.Calm})
	}
	for _, f := range s.execution.Facts {
		all = append(all, fact{name: f[0], text: f[1]})
	}
	for i := range s.execution.Data {
		d := &s.execution.Data[i]
		all = append(all, fact{name: d.Name, text: d.Text[:min(len(d.Text), 1000)], style: canvas.Good, data: d})
	}
	return all
}

func (s *executionScreen) drawFacts(a canvas.Area, theme canvas.Theme, now time.Time, cursor canvas.Style) {
	all := s.allFacts()
	if len(all) == 0 {
		theme.Rest(a, 1, canvas.Faint, "no facts")
	}
	width := 0
	for _, f := range all {
		width = max(width, min(canvas.Width(f.name), 20))
	}
	s.facts.Rows(a, len(all), cursor, func(a canvas.Area, at int) {
		f := all[at]
		x := theme.Field(a, 0, 0, width, canvas.Faint, f.name) + 2
		theme.Rest(a, x, f.style, strings.ReplaceAll(zoned(now, f.text), "\n", " "))
	})
}
