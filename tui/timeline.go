package tui

import (
	"fmt"
	"strconv"
	"time"
)

// timeline shows how far a time that can be moved has come, in one row.
type timeline struct {
	start, end  time.Time
	from, space int // of the bar, when it was drawn
	events      int // that it stands for, where all happens at one moment
}

// draw shows the clock: whether it goes and how fast, the time, a bar with the
// timers on it, and what is left.
func (t *timeline) draw(a area, l look, c Clock, now time.Time) {
	t.start, t.end = c.Start, extent(c, now)
	t.from, t.space, t.events = 0, 0, 0
	if c.Seeks && !t.end.After(t.start) {
		t.events = c.Of
	}
	if a.h < 1 {
		return
	}
	x := t.pace(a, l, c)
	if !c.Start.IsZero() {
		// The bar begins where it began before.
		x = max(a.put(x, 0, strong, passed(now.Sub(c.Start))), x+7) + 1
	}
	right := a.w
	if a.w >= 60 {
		right = a.right(0, faint, " "+now.Format("2006-01-02 15:04:05.000Z07:00"))
	}
	whole := " " + passed(t.end.Sub(c.Start))
	if c.Of > 0 {
		of := count(int64(c.Of))
		whole = fmt.Sprintf(" %*s/%s%s", len(of), count(int64(c.At)), of, whole)
	}
	if c.Seeks && right-x > width(whole)+12 {
		right -= width(whole)
		a.put(right, 0, faint, whole)
	}
	if right-x < 8 {
		return
	}
	t.from, t.space = x, right-x
	t.bar(a, l, c, now)
}

// times is a speed, for people.
func times(speed float64) string {
	if speed >= 100 {
		return count(int64(speed + 0.5))
	}
	return strconv.FormatFloat(speed, 'g', 4, 64)
}

// extent is until when a bar goes: as far as something is known.
func extent(c Clock, now time.Time) time.Time {
	end := c.End
	if end.IsZero() {
		for _, mark := range c.Marks {
			if mark.After(end) {
				end = mark
			}
		}
	}
	if now.After(end) {
		end = now
	}
	return end
}

// pace says whether time goes, and how fast.
func (*timeline) pace(a area, l look, c Clock) int {
	sign, word, i := l.pick("▸", ">"), "playing", good
	if c.Paused {
		sign, word, i = l.pick("‖", "="), "paused", warn
	}
	x := a.put(0, 0, i|strong, sign+" ")
	if a.w >= 50 {
		x = a.put(x, 0, i, word+" ")
	}
	if c.Speed != 0 && c.Speed != 1 {
		x = a.put(x, 0, i, times(c.Speed)+l.pick("× ", "x "))
	}
	return x
}

func (t *timeline) bar(a area, l look, c Clock, now time.Time) {
	head := t.cell(now)
	if t.events > 0 {
		head = c.At * (t.space - 1) / t.events
	}
	for x := range t.space {
		if x <= head {
			a.put(t.from+x, 0, accent, l.pick("━", "="))
		} else {
			a.put(t.from+x, 0, faint, l.pick("─", "-"))
		}
	}
	for _, mark := range c.Marks {
		if mark.Before(t.start) || mark.After(t.end) || t.events > 0 {
			continue
		}
		i := warn
		if !mark.After(now) {
			i = accent
		}
		a.put(t.from+t.cell(mark), 0, i, l.pick("┃", "|"))
	}
	a.put(t.from+head, 0, strong, l.pick("●", "O"))
}

// cell is where on the bar a time is.
func (t *timeline) cell(at time.Time) int {
	whole := t.end.Sub(t.start)
	if whole <= 0 || t.space <= 1 {
		return 0
	}
	part := float64(at.Sub(t.start)) / float64(whole)
	return max(0, min(t.space-1, int(part*float64(t.space-1)+0.5)))
}

// at is the move to what a place on the row stands for, if it is on the bar.
func (t *timeline) at(x int) (Move, bool) {
	if x < t.from || x >= t.from+t.space || t.space <= 1 {
		return Move{}, false
	}
	if t.events > 0 {
		return Move{Verb: Seek, To: t.start, Event: t.events * (x - t.from) / (t.space - 1)}, true
	}
	whole := t.end.Sub(t.start)
	to := t.start.Add(time.Duration(float64(whole) * float64(x-t.from) / float64(t.space-1)))
	return Move{Verb: Seek, To: to}, true
}

// passed is a time since the beginning.
func passed(d time.Duration) string {
	switch {
	case d <= 0:
		return "+0s"
	case d < time.Minute:
		return "+" + took(d)
	}
	return "+" + age(d)
}
