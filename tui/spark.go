package tui

import (
	"strings"
	"time"
)

// samples are how often something happened, second by second.
type samples struct {
	values []float64
	last   time.Time
}

// mostSamples is how many are kept: more than a screen is wide.
const mostSamples = 400

// add notes a rate. Two within a second are one.
func (s *samples) add(value float64, at time.Time) {
	if n := len(s.values); n > 0 && at.Sub(s.last) < 900*time.Millisecond {
		s.values[n-1] = max(s.values[n-1], value)
		return
	}
	s.last = at
	if len(s.values) >= mostSamples {
		s.values = append(s.values[:0], s.values[1:]...)
	}
	s.values = append(s.values, value)
}

// latest are the last ones, as many as there is room for.
func (s *samples) latest(room int) []float64 {
	return s.values[max(0, len(s.values)-room):]
}

func (s *samples) peak(room int) float64 {
	peak := 0.0
	for _, v := range s.latest(room) {
		peak = max(peak, v)
	}
	return peak
}

// draw shows them as columns, the latest at the right edge.
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
