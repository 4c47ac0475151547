// Package axis places moments on the time axis of a chart so that milliseconds remain
// distinguishable beside weeks of waiting.
package axis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"flunq.io/flunq/engine/history"
)

// Options configure an axis.
type Options struct {
	Wide       bool    // moments with several steps are wide so that their order is visible
	TickWidth  float64 // minimum distance between ticks, on a scale of 100
	BreakWidth float64 // minimum width of a break, on a scale of 100, unless there are many
}

// Scale maps moments to positions on an axis, from 0 to 100.
//
// In a simulation, many things happen at the same moment, so a moment is as wide as its number of
// steps, and their order is visible. An idle stretch that would shrink everything else to nothing
// becomes a break.
type Scale struct {
	Breaks []Break
	Bands  []Band
	Ticks  []Tick

	opts    Options
	moments []moment // in order
}

// moment is a time at which something happens, and its position.
type moment struct {
	at       time.Time
	seqs     []int64 // of what happens at it, in order
	from, to float64
	broken   bool // the time after it is a break
}

// Break is a stretch of the axis that is not to scale.
type Break struct {
	From, To float64
	Long     time.Duration
}

// Band is a moment that is drawn wide.
type Band struct {
	From, To float64
	Steps    int
}

// Tick is a position on the axis with its time.
type Tick struct {
	X     float64
	Label string
	At    time.Time
	Major bool // at the start of a stretch
}

// The widths of the elements of an axis, before it is scaled to 100.
const (
	stepWidth    = 12.0
	maxSteps     = 720.0
	breakWidth   = 58.0
	stretchWidth = 130.0
	gapWidth     = 22.0
	edgeWidth    = 5.0
)

// New returns an axis for the moments at which something happens.
func New(stamps []history.Moment, opts Options) *Scale {
	s := &Scale{opts: opts, moments: momentsOf(stamps)}
	if len(s.moments) == 0 {
		return s
	}
	s.findBreaks()
	s.place()
	s.mark()
	return s
}

func momentsOf(stamps []history.Moment) []moment {
	stamps = slices.Clone(stamps)
	slices.SortFunc(stamps, func(a, b history.Moment) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Version, b.Version)) })
	var out []moment
	for _, s := range stamps {
		if len(out) == 0 || !out[len(out)-1].at.Equal(s.At) {
			out = append(out, moment{at: s.At})
		}
		last := &out[len(out)-1]
		if n := len(last.seqs); n == 0 || last.seqs[n-1] != s.Version {
			last.seqs = append(last.seqs, s.Version)
		}
	}
	return out
}

// maxBreaks is the maximum number of breaks.
const maxBreaks = 8

// findBreaks finds the long idle stretches.
func (s *Scale) findBreaks() {
	left := maxBreaks
	var within func(from, to int)
	within = func(from, to int) {
		longest := s.longest(from, to)
		if len(longest) == 0 || len(longest) > left {
			return
		}
		left -= len(longest)
		slices.Sort(longest)
		for _, i := range longest {
			s.moments[i].broken = true
			within(from, i)
			from = i + 1
		}
		within(from, to)
	}
	within(0, len(s.moments)-1)
}

// idle is how long a stretch must be idle to become a break between wide moments.
const idle = time.Hour

// longest returns the stretches between two moments that would shrink all others to nothing.
func (s *Scale) longest(from, to int) []int {
	gaps := make([]int, 0, to-from)
	rest := time.Duration(0)
	for i := from; i < to; i++ {
		gaps = append(gaps, i)
		rest += s.gap(i)
	}
	slices.SortStableFunc(gaps, func(a, b int) int { return cmp.Compare(s.gap(b), s.gap(a)) })
	for k, i := range gaps {
		rest -= s.gap(i)
		all := k == len(gaps)-1
		if all && (!s.opts.Wide || s.gap(i) < idle) {
			return nil
		}
		if rest < s.gap(i)/12 { // a twelfth is still visible
			return gaps[:k+1]
		}
	}
	return nil
}

func (s *Scale) gap(i int) time.Duration { return s.moments[i+1].at.Sub(s.moments[i].at) }

// place determines the position of every moment.
func (s *Scale) place() {
	step := 0.0
	if s.opts.Wide {
		steps := 0
		for _, m := range s.moments {
			steps += len(m.seqs) - 1
		}
		step = min(stepWidth, maxSteps/float64(max(steps, 1)))
	}
	width := s.placeAll(step, breakWidth)
	if n := float64(len(s.Breaks)); n > 0 && s.opts.BreakWidth > 100*breakWidth/width {
		share := min(s.opts.BreakWidth/100, 0.5/n)
		width = s.placeAll(step, max(breakWidth, share*(width-n*breakWidth)/(1-n*share)))
	}
	s.multiply(100 / width)
}

// placeAll places every moment, with breaks of a width, and returns the total width.
func (s *Scale) placeAll(step, breakSpace float64) (width float64) {
	s.Breaks = nil
	x := edgeWidth
	for from := 0; from < len(s.moments); {
		to := from
		for to < len(s.moments)-1 && !s.moments[to].broken {
			to++
		}
		x = s.placeStretch(from, to, x, step)
		if to < len(s.moments)-1 {
			s.Breaks = append(s.Breaks, Break{x, x + breakSpace, s.gap(to)})
			x += breakSpace
		}
		from = to + 1
	}
	return x + edgeWidth
}

// placeStretch places the moments between two breaks in proportion to time.
func (s *Scale) placeStretch(from, to int, x, step float64) float64 {
	long := s.moments[to].at.Sub(s.moments[from].at)
	width := stretchWidth + gapWidth*float64(min(to-from, 20)) // more moments need no more space
	for i := from; i <= to; i++ {
		m := &s.moments[i]
		m.from = x
		m.to = x + step*float64(len(m.seqs)-1)
		x = m.to
		if i < to {
			x += width * float64(s.gap(i)) / float64(long)
		}
	}
	return x
}

// multiply scales all positions, and adds the bands.
func (s *Scale) multiply(by float64) {
	for i := range s.moments {
		m := &s.moments[i]
		m.from, m.to = m.from*by, m.to*by
		if m.to > m.from && len(m.seqs) > 2 { // a start and an end need no band
			s.Bands = append(s.Bands, Band{m.from, m.to, len(m.seqs)})
		}
	}
	for i := range s.Breaks {
		s.Breaks[i].From, s.Breaks[i].To = s.Breaks[i].From*by, s.Breaks[i].To*by
	}
}

// X returns the position of a moment.
func (s *Scale) X(at history.Moment) float64 {
	if len(s.moments) == 0 {
		return 0
	}
	i, found := slices.BinarySearchFunc(s.moments, at.At, func(m moment, t time.Time) int { return m.at.Compare(t) })
	switch {
	case found:
		return s.moments[i].within(at.Version)
	case i == 0:
		return s.moments[0].from
	case i == len(s.moments):
		return s.moments[i-1].to
	}
	before, behind := s.moments[i-1], s.moments[i]
	share := float64(at.At.Sub(before.at)) / float64(behind.at.Sub(before.at))
	return before.to + (behind.from-before.to)*share
}

// within returns the offset of a step within its moment.
func (m moment) within(seq int64) float64 {
	if len(m.seqs) < 2 || m.to == m.from { // one step
		return m.from
	}
	i, _ := slices.BinarySearch(m.seqs, seq)
	return m.from + (m.to-m.from)*float64(min(i, len(m.seqs)-1))/float64(len(m.seqs)-1)
}

// mark adds the ticks: at the start of each stretch, and at round times.
func (s *Scale) mark() {
	start := s.moments[0].at
	for from := 0; from < len(s.moments); {
		to := from
		for to < len(s.moments)-1 && !s.moments[to].broken {
			to++
		}
		first := s.moments[from]
		s.tick(Tick{first.from, "+" + history.Duration(first.at.Sub(start)), first.at, true})
		s.round(from, to)
		from = to + 1
	}
}

// round adds ticks at round times of a stretch.
func (s *Scale) round(from, to int) {
	a, b := s.moments[from], s.moments[to]
	long := b.at.Sub(a.at)
	if long <= 0 {
		return
	}
	step := roundStep(time.Duration(float64(long) / max((b.to-a.from)/s.opts.TickWidth, 1)))
	for d := step; d <= long; d += step {
		at := a.at.Add(d)
		label := "+" + history.Duration(at.Sub(s.moments[0].at))
		if from > 0 {
			label = "…" + history.Duration(d)
		}
		s.tick(Tick{s.X(history.Moment{At: at}), label, at, false})
	}
	if last := s.Ticks[len(s.Ticks)-1]; b.from-last.X > s.opts.TickWidth && from == 0 {
		s.tick(Tick{b.from, "+" + history.Duration(b.at.Sub(s.moments[0].at)), b.at, false})
	}
}

// tick adds a tick if there is space.
func (s *Scale) tick(t Tick) {
	if n := len(s.Ticks); n > 0 && t.X-s.Ticks[n-1].X < s.opts.TickWidth {
		if !t.Major || s.Ticks[n-1].Major {
			return
		}
		s.Ticks = s.Ticks[:n-1]
	}
	s.Ticks = append(s.Ticks, t)
}

// roundStep returns a round duration that is at least d.
func roundStep(d time.Duration) time.Duration {
	const day = 24 * time.Hour
	if d < time.Second {
		unit := math.Pow(10, math.Floor(math.Log10(float64(max(d, 1))))) // a power of ten
		for _, n := range []float64{1, 2, 5, 10} {
			if float64(d) <= n*unit {
				return max(time.Duration(n*unit), time.Microsecond)
			}
		}
	}
	for _, step := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 5 * day, 7 * day, 14 * day, 30 * day, 60 * day, 90 * day, 180 * day,
	} {
		if d <= step {
			return step
		}
	}
	const year = 365 * day
	return d.Truncate(year) + year
}
