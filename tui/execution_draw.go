package tui

import (
	"slices"
	"strings"
	"time"
)

// executionPlaces are the positions of drawn parts, for the mouse.
type executionPlaces struct {
	tree, tabs, pane, third rect
	ends                    [paneCount]int // of the tabs
	beside                  pane           // what is drawn in the third column
	seen                    [paneCount]bool
}

// rect is a part of the drawn area.
type rect struct{ x, y, w, h int }

func (r rect) has(x, y int) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }

func (r rect) of(a area) area { return a.part(r.x, r.y, r.w, r.h) }

// The minimum sizes for further columns, and of two rows.
const (
	twoColumns   = 120
	threeColumns = 160
	twoRows      = 11
)

// seen reports whether a pane is visible.
func (rd *executionReader) seen(p pane) bool { return rd.places.seen[p] }

// draw draws the screen.
func (s *executionScreen) draw(a area, l look, now time.Time) {
	head := s.head(a, l, now)
	s.arrange(rect{0, head, a.w, a.h - head})
	if s.places.tree.h > 0 {
		s.tree.draw(s.places.tree.of(a), l, s.look(now))
		s.drawTreeEdge(a, l)
	}
	if s.places.pane.h > 0 {
		s.tabs(s.places.tabs.of(a), l)
		s.drawPane(s.pane, s.places.pane.of(a), l, now)
	}
	if third := s.places.third; third.h > 0 {
		l.rule(rect{third.x, third.y - 1, third.w, 1}.of(a), 0, s.paneTitle(s.places.beside), faint)
		s.drawPane(s.places.beside, third.of(a), l, now)
		edge(a, l, third.x-1, third.y-1, third.h+1)
	}
}

// drawTreeEdge draws the line between the tree and the pane beside it.
func (s *executionScreen) drawTreeEdge(a area, l look) {
	if tree := s.places.tree; s.places.tabs.x > 0 && tree.h > 0 {
		edge(a, l, tree.x+tree.w, tree.y, tree.h)
	}
}

func edge(a area, l look, x, y, h int) {
	for row := range h {
		a.put(x, y+row, faint, l.pick("│", "|"))
	}
}

// arrange determines the positions of the tree and the panes.
func (s *executionScreen) arrange(all rect) {
	p := &s.places
	*p = executionPlaces{beside: historyPane}
	if s.pane == historyPane {
		p.beside = documentPane
	}
	switch {
	case s.charts():
		p.tabs = rect{all.x, all.y, all.w, 1}
		p.pane = rect{all.x, all.y + 1, all.w, all.h - 1}
	case all.w >= twoColumns:
		p.tree = rect{all.x, all.y, max(60, all.w*45/100), all.h}
		right := rect{p.tree.w + 1, all.y, all.w - p.tree.w - 1, all.h}
		if all.w >= threeColumns {
			p.tree.w = max(64, all.w*2/5)
			right = rect{p.tree.w + 1, all.y, (all.w - p.tree.w) / 2, all.h}
			x := right.x + right.w + 1
			p.third = rect{x, all.y + 1, all.w - x, all.h - 1}
		}
		p.tabs = rect{right.x, right.y, right.w, 1}
		p.pane = rect{right.x, right.y + 1, right.w, right.h - 1}
	case all.h < twoRows && s.inPane:
		p.tabs = rect{all.x, all.y, all.w, 1}
		p.pane = rect{all.x, all.y + 1, all.w, all.h - 1}
	case all.h < twoRows:
		p.tree = all
	default:
		p.tree = rect{all.x, all.y, all.w, all.h * 11 / 20}
		y := all.y + p.tree.h
		p.tabs = rect{all.x, y, all.w, 1}
		p.pane = rect{all.x, y + 1, all.w, all.h - p.tree.h - 1}
	}
	p.seen[s.pane] = p.pane.h > 0
	p.seen[p.beside] = p.seen[p.beside] || p.third.h > 0
}

// tabs draws the names of the panes.
func (s *executionScreen) tabs(a area, l look) {
	x, apart := a.put(0, 0, faint, l.pick("─", "-")), " "
	if a.w < s.tabsWidth() {
		apart = ""
	}
	for p := range paneCount {
		i := faint
		if p == s.pane {
			i = accent | strong
			if s.inPane || s.charts() {
				i |= selected
			}
		}
		x = a.put(x, 0, faint, " ")
		x = a.put(x, 0, i, s.paneTitle(p))
		s.places.ends[p] = x
		x = a.put(x, 0, faint, apart)
	}
	if x < a.w {
		a.put(x, 0, faint, strings.Repeat(l.pick("─", "-"), a.w-x))
	}
}

// tabsWidth is the width of the names of the panes.
func (s *executionScreen) tabsWidth() int {
	avail := 2
	for p := range paneCount {
		avail += width(s.paneTitle(p)) + 2
	}
	return avail
}

// head draws two rows about the execution and its state, and the filter.
func (s *executionScreen) head(a area, l look, now time.Time) int {
	if !s.known {
		text := "reading " + s.id
		if s.reads.problem != "" {
			text = s.reads.problem
		}
		a.put(1, 0, faint, clip(text, a.w-1, l.more()))
		return 1
	}
	sign := l.sign(s.now.State)
	x := a.put(0, 0, sign.ink|strong, sign.glyph+" "+string(s.now.State)) + 2
	right := a.right(0, faint, " "+s.progress(now))
	row := a.part(0, 0, max(x, right), 1)
	x = l.rest(row, x, strong, s.id) + 2
	l.rest(row, x, faint, s.now.Workflow)
	if a.h < 6 {
		return 1
	}
	if s.typed.on {
		s.typed.draw(a, a.put(0, 1, accent|strong, "/"), 1)
		return 2
	}
	i, text := s.say(now)
	a.put(0, 1, i, clip(text, a.w, l.more()))
	return 2
}

// progress tells how far the execution has come, and how long that took.
func (rd *executionReader) progress(now time.Time) string {
	text := some(int(rd.now.Version), "event")
	if rd.tree.version < rd.now.Version {
		text = count(rd.tree.version) + " of " + text + " read"
	}
	switch {
	case rd.now.At.IsZero():
	case rd.now.State.Ended() && !rd.now.Until.IsZero():
		text += "  took " + took(rd.now.Until.Sub(rd.now.At))
	default:
		text += "  " + since(now, rd.now.At) + " old"
	}
	return text
}

// say returns the most important message.
func (s *executionScreen) say(now time.Time) (ink, string) {
	switch {
	case s.reads.problem != "":
		return bad, s.reads.problem
	case s.now.Problem != "":
		return bad, s.now.Problem
	case s.tree.window.typed != "" && !s.inPane:
		return accent, "filter " + s.tree.window.typed + ": " + some(s.tree.window.found, "run") + " of " +
			count(int64(len(s.tree.runs)-1)) + " (esc: all)"
	case s.now.State == Faulted:
		return bad, s.now.Note
	case s.now.State.Ended():
		return faint, s.now.Note
	default:
		return plainInk, s.working(now)
	}
}

// working describes what is running, and what is waited for.
func (rd *executionReader) working(now time.Time) string {
	var parts []string
	for _, at := range rd.tree.atWork(4) {
		r := &rd.tree.runs[at]
		part := rd.tree.nameOf(r) + " " + string(r.state)
		how := treeLook{timers: rd.timers, now: now}
		if text := rd.tree.timeOf(r, &how); text != "" {
			part += " " + text
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = append(parts, rd.now.Waits...)
	}
	if rd.tree.window.follow {
		parts = append(parts, "(follows)")
	}
	return strings.Join(parts, "  ")
}

// atWork returns the innermost running runs.
func (t *runTree) atWork(most int) []int32 {
	around := map[int32]bool{}
	for at := range t.active {
		around[t.runs[at].parent] = true
	}
	var all []int32
	for at := range t.active {
		if !around[at] {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all[:min(most, len(all))]
}

// paneList is a cursor in a short list.
type paneList struct {
	listPosition

	length int
}

func (p *paneList) fit(length, height int) {
	p.length, p.height = length, max(1, height)
	p.clamp(length)
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
	s.data.want(&s.executionReader)
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
	avail := 0
	for _, f := range all {
		avail = max(avail, min(width(f.name), 20))
	}
	s.facts.rows(a, len(all), focus, func(a area, at int) {
		f := all[at]
		x := l.field(a, 0, 0, avail, faint, f.name) + 2
		l.rest(a, x, f.ink, strings.ReplaceAll(zoned(now, f.text), "\n", " "))
	})
}
