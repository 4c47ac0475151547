package tui

import (
	"strings"
	"time"
)

// paneList is a cursor in a short list.
type paneList struct{ cursor, offset, height, length int }

func (p *paneList) fit(length, height int) {
	p.length, p.height = length, max(1, height)
	p.cursor = max(0, min(p.cursor, length-1))
	p.offset = max(p.cursor-p.height+1, min(p.offset, p.cursor))
	p.offset = max(0, min(p.offset, length-p.height))
}

func (p *paneList) to(line int) {
	p.cursor = line
	p.fit(p.length, p.height)
}

func (p *paneList) move(lines int) { p.to(p.cursor + lines) }
func (p *paneList) end()           { p.to(p.length - 1) }

// rows draws the visible rows of a list.
func (p *paneList) rows(a area, length int, focus bool, row func(a area, at int)) {
	p.fit(length, a.h)
	for y := 0; y < a.h && p.offset+y < length; y++ {
		row(a.part(0, y, a.w, 1), p.offset+y)
		if p.offset+y == p.cursor && focus {
			a.fill(y, selected)
		}
	}
}

// paneTitle returns a pane's name and the number of its entries.
func (s *executionScreen) paneTitle(p pane) string {
	n := 0
	switch p {
	case timersPane:
		n = len(s.now.Timers)
	case childrenPane:
		n = len(s.now.Children)
	case dataPane, timelinePane, documentPane, historyPane, factsPane, paneCount:
	}
	name := [...]string{"Data", "Timeline", "Document", "History", "Timers", "Facts", "Children"}[p]
	if n > 0 {
		name += " " + count(int64(n))
	}
	return name
}

// drawPane draws a pane into an area.
func (s *executionScreen) drawPane(p pane, a area, l look, now time.Time) {
	focus := s.inPane && p == s.pane
	switch p {
	case timelinePane:
		how := s.look(now)
		how.focus = true
		s.tree.drawChart(a, l, how)
	case documentPane:
		s.document.show(s.tree.chosenTask().Line)
		s.document.draw(a, l, s.states(), focus)
	case historyPane:
		s.history.draw(a, l, now, focus)
	case timersPane:
		s.drawTimers(a, l, now, focus)
	case factsPane:
		s.drawFacts(a, l, now, focus)
	case childrenPane:
		s.drawChildren(a, l, now, focus)
	case dataPane, paneCount:
		s.drawData(a, l, focus)
	}
}

func (s *executionScreen) drawData(a area, l look, focus bool) {
	s.data.want(s)
	title := s.dataTitle()
	if focus {
		if path := s.data.view.label(); path != "" && path != "." {
			title += "  " + path
		}
	}
	i := accent
	if s.data.problem != "" {
		i = bad
	}
	a.put(0, 0, i, clip(title, a.w, l.more()))
	rest := a.part(0, 1, a.w, a.h-1)
	if made := s.madeCall(); made != "" && a.h > 2 {
		a.put(0, 1, plainInk, clip(made, a.w, l.more()))
		rest = a.part(0, 2, a.w, a.h-2)
	}
	if (s.data.found || s.data.fixed != nil) && s.data.view.text != "" {
		s.data.view.draw(rest, l, focus)
	}
}

func (s *executionScreen) drawTimers(a area, l look, now time.Time, focus bool) {
	if len(s.now.Timers) == 0 {
		a.put(1, 0, faint, clip("no timers", a.w-1, l.more()))
	}
	s.due.rows(a, len(s.now.Timers), focus, func(a area, at int) {
		r := s.now.Timers[at]
		sign := l.sign(r.State)
		a.put(0, 0, sign.ink, sign.glyph)
		how := plainInk
		if r.State == Overdue {
			how = warn
		}
		x := l.field(a, 2, 0, 12, how, due(now, r))
		x = l.field(a, x+1, 0, 9, plainInk, r.Kind)
		x = l.rest(a, x+1, plainInk, s.taskName(r.Task)) + 2
		x = l.rest(a, x, faint, moment(now, r.At)) + 2
		l.rest(a, x, faint, r.ID)
	})
}

// taskName names a run by its task, which is shorter.
func (s *executionScreen) taskName(run string) string {
	if run == "" {
		return "the workflow"
	}
	return shortRun(run)
}

func (s *executionScreen) drawChildren(a area, l look, now time.Time, focus bool) {
	if len(s.now.Children) == 0 {
		a.put(1, 0, faint, clip("no children", a.w-1, l.more()))
	}
	s.children.rows(a, len(s.now.Children), focus, func(a area, at int) {
		r := s.now.Children[at]
		sign := l.sign(r.State)
		x := a.put(0, 0, sign.ink, sign.glyph+" ")
		x = l.field(a, x, 0, 10, sign.ink, string(r.State)) + 1
		x = l.rest(a, x, plainInk, r.ID) + 2
		x = l.rest(a, x, faint, r.Workflow) + 2
		x = l.rest(a, x, faint, s.taskName(r.Task)) + 2
		l.rest(a, x, faint, since(now, r.At))
	})
}

// fact is a line of the facts.
type fact struct {
	name, text string
	ink        ink
	data       *Data
}

// allFacts returns what is known of the execution: what it is, what it waits for, its data.
func (s *executionScreen) allFacts() []fact {
	var all []fact
	if s.now.Problem != "" {
		all = append(all, fact{name: "not known", text: s.now.Problem, ink: bad})
	}
	for _, wait := range s.now.Waits {
		all = append(all, fact{name: "waits for", text: wait, ink: calm})
	}
	for _, f := range s.now.Facts {
		all = append(all, fact{name: f[0], text: f[1]})
	}
	for i := range s.now.Data {
		d := &s.now.Data[i]
		all = append(all, fact{name: d.Name, text: d.Text[:min(len(d.Text), 1000)], ink: good, data: d})
	}
	return all
}

func (s *executionScreen) drawFacts(a area, l look, now time.Time, focus bool) {
	all := s.allFacts()
	if len(all) == 0 {
		a.put(1, 0, faint, clip("nothing is known", a.w-1, l.more()))
	}
	room := 0
	for _, f := range all {
		room = max(room, min(width(f.name), 20))
	}
	s.facts.rows(a, len(all), focus, func(a area, at int) {
		f := all[at]
		x := l.field(a, 0, 0, room, faint, f.name) + 2
		l.rest(a, x, f.ink, strings.ReplaceAll(zoned(now, f.text), "\n", " "))
	})
}
