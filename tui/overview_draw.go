package tui

import (
	"strings"
	"time"
)

// wide is the minimum width for two columns.
const wide = 120

// draw draws the overview, in two columns if there is space.
func (s *overviewScreen) draw(a area, l look, now time.Time) {
	s.drawn = a
	if !s.loaded {
		a.put(2, 1, faint, "reading how it stands")
		return
	}
	y := s.counts(a, l)
	if a.w >= wide && a.h >= 30 {
		y = s.graphs(a, l, y+1)
	} else {
		y = s.sparks(a, l, y)
	}
	for _, note := range s.overview.Notes {
		x := a.put(0, y, warn|strong, l.pick("▲ ", "! "))
		a.put(x, y, warn, clip(note, a.w-x, l.more()))
		y++
	}
	if a.w >= wide {
		s.columns(a.part(0, y, a.w, a.h-y), l, now)
		return
	}
	y = s.services(a, l, y, false)
	s.stack(a.part(0, y, a.w, a.h-y), l, now, []int{dueList, runningList, failedList})
}

// columns draws services and failures on the left, due timers and running tasks on the right.
func (s *overviewScreen) columns(a area, l look, now time.Time) {
	half := a.w / 2
	left, right := a.part(0, 0, half-1, a.h), a.part(half+1, 0, a.w-half-1, a.h)
	workers := s.serviceLines() <= a.h/2
	y := s.services(left, l, 0, workers)
	s.stack(left.part(0, y, left.w, left.h-y), l, now, []int{failedList})
	s.stack(right, l, now, []int{dueList, runningList})
}

// counted is a number with its name.
type counted struct {
	state State
	n     int64
	what  string
}

// counts draws the counts, in one line or two.
func (s *overviewScreen) counts(a area, l look) int {
	c := s.overview.Counts
	first := []counted{{Running, c.Open, "open"}, {Completed, c.Completed, "completed"}, {Faulted, c.Faulted, "faulted"}, {Cancelled, c.Cancelled, "cancelled"}}
	timers := "timers"
	if c.Shared {
		timers = "timers of all tenants"
	}
	second := []counted{{Waiting, c.Timers, timers}, {Overdue, c.Overdue, "overdue"}, {Dead, c.Dead, "dead letters"}}
	if c.Scheduled > 0 {
		second = append(second, counted{Waiting, c.Scheduled, "scheduled events"})
	}
	x := drawCounts(a, l, 0, 0, first)
	if x+countsWidth(second) <= a.w {
		drawCounts(a, l, x+2, 0, second)
		return 1
	}
	drawCounts(a, l, 0, 1, second)
	return 2
}

func countsWidth(all []counted) int {
	n := 0
	for _, c := range all {
		n += 6 + len(count(c.n)) + len(c.what)
	}
	return n
}

func drawCounts(a area, l look, x, y int, all []counted) int {
	for _, c := range all {
		s := l.sign(c.state)
		how := s.ink
		if c.n == 0 {
			how = faint
		}
		x = a.put(x, y, how, s.glyph) + 1
		x = a.put(x, y, how|strong, count(c.n)) + 1
		x = a.put(x, y, faint, c.what) + 3
	}
	return x
}

// sparks draws the rates in one line.
func (s *overviewScreen) sparks(a area, l look, y int) int {
	half := a.w / 2
	drawSpark(a.part(0, y, half-1, 1), l, "events/s", s.overview.Events, &s.events)
	drawSpark(a.part(half+1, y, a.w-half-1, 1), l, "fires/s", s.overview.Fires, &s.fires)
	return y + 1
}

func drawSpark(a area, l look, what string, now float64, of *samples) {
	x := a.put(0, 0, faint, what) + 1
	number := rate(now)
	a.put(max(x, x+6-len(number)), 0, strong, number)
	from := x + max(6, len(number)) + 1
	of.draw(a.part(from, 0, a.w-from, 1), l)
}

// graphs draws the rates in a few rows.
func (s *overviewScreen) graphs(a area, l look, y int) int {
	half, h := a.w/2, 4
	if a.h >= 60 {
		h = 6
	}
	drawGraph(a.part(0, y, half-1, h+1), l, "Events", s.overview.Events, &s.events)
	drawGraph(a.part(half+1, y, a.w-half-1, h+1), l, "Timers fired", s.overview.Fires, &s.fires)
	return y + h + 2
}

func drawGraph(a area, l look, what string, now float64, of *samples) {
	l.rule(a, 0, what+" "+rate(now)+"/s, at most "+rate(of.peak(a.w))+"/s", accent)
	of.draw(a.part(0, 1, a.w, a.h-1), l)
}

// serviceLines is the number of lines of the services with their workers.
func (s *overviewScreen) serviceLines() int {
	n := 2
	for _, service := range s.overview.Services {
		n += 1 + len(service.Workers)
	}
	return n
}

// services draws the services, with their workers if there is space.
func (s *overviewScreen) services(a area, l look, y int, workers bool) int {
	if len(s.overview.Services) == 0 {
		return y
	}
	l.rule(a, y, "Services", accent)
	y++
	name := 0
	for _, service := range s.overview.Services {
		name = max(name, min(width(service.Name), 20))
	}
	for _, service := range s.overview.Services {
		drawService(a.part(0, y, a.w, 1), l, name, service)
		y++
		if !workers {
			continue
		}
		for _, w := range service.Workers {
			drawWorker(a.part(0, y, a.w, 1), l, w)
			y++
		}
	}
	if workers {
		y++
	}
	return y
}

func drawService(a area, l look, name int, s Service) {
	state, alive, how := Alive, count(int64(s.Alive))+" alive", plainInk
	if s.Alive == 0 {
		state, alive, how = Silent, "none alive", bad
	}
	sign := l.sign(state)
	a.put(0, 0, sign.ink, sign.glyph)
	x := l.field(a, 2, 0, name, strong, s.Name) + 2
	a.put(x, 0, how, alive)
	x += 12
	a.put(x, 0, plainInk, count(int64(s.Busy))+" busy")
	x += 10
	x = a.put(x, 0, loaded(s.Lag), "lag "+count(s.Lag)) + 2
	x = a.put(max(x, 2+name+2+12+10+12), 0, loaded(s.Pending), "pending "+count(s.Pending)) + 2
	a.put(x, 0, warn, clip(s.Note, a.w-x, l.more()))
}

// loaded returns the ink of a number that should be small.
func loaded(n int64) ink {
	switch {
	case n == 0:
		return faint
	case n >= 1000:
		return warn
	default:
		return plainInk
	}
}

func drawWorker(a area, l look, w Worker) {
	sign := l.sign(w.State)
	x := a.put(2, 0, sign.ink, sign.glyph+" "+string(w.State)) + 1
	x = max(x, 12)
	x = l.field(a, x, 0, min(40, a.w-x-26), plainInk, w.Name) + 1
	a.put(x, 0, plainInk, count(w.Busy)+" at hand")
	a.put(x+12, 0, faint, "seen "+age(w.Idle)+" ago")
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
func (s *samples) latest(avail int) []float64 {
	return s.values[max(0, len(s.values)-avail):]
}

func (s *samples) peak(avail int) float64 {
	peak := 0.0
	for _, v := range s.latest(avail) {
		peak = max(peak, v)
	}
	return peak
}

// draw draws the rates as columns, the latest at the right edge.
func (s *samples) draw(a area, l look) {
	latest, peak := s.latest(a.w), s.peak(a.w)
	steps := []rune(l.pick("▁▂▃▄▅▆▇█", ".:-=+*%#"))
	for i, v := range latest {
		x := a.w - len(latest) + i
		level := 0
		if peak > 0 && v > 0 {
			level = max(1, int(v/peak*float64(a.h*len(steps))+0.5))
		}
		if level == 0 {
			a.put(x, a.h-1, faint, string(steps[0]))
			continue
		}
		for y := a.h - 1; y >= 0 && level > 0; y-- {
			a.put(x, y, accent, string(steps[min(level, len(steps))-1]))
			level -= len(steps)
		}
	}
	if missing := a.w - len(latest); missing > 0 {
		a.put(0, a.h-1, faint, strings.Repeat(string(steps[0]), missing))
	}
}
