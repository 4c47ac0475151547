package tui

import (
	"strconv"
	"time"

	"flunq.io/flunq/engine/history"
)

// draw draws the window, and a line about it.
func (v *historyView) draw(a area, l look, now time.Time, focus bool) {
	v.height = max(1, a.h-1)
	v.clamp()
	digits := max(3, len(strconv.FormatInt(v.last, 10)))
	for y := range v.height {
		at := v.offset + y
		if at >= len(v.events) {
			break
		}
		v.drawEvent(a.part(0, y, a.w, 1), l, &v.events[at], eventLook{now, digits})
		if at == v.cursor {
			a.fill(y, cursorInk(focus))
		}
	}
	if len(v.events) == 0 {
		a.put(1, 0, faint, clip(v.emptiness(), a.w-1, l.more()))
	}
	v.foot(a, l)
}

type eventLook struct {
	now    time.Time
	digits int
}

func (*historyView) drawEvent(a area, l look, e *Event, how eventLook) {
	number := strconv.FormatInt(e.Version, 10)
	x := how.digits + 1
	a.put(x-1-len(number), 0, faint, number)
	at := moment(how.now, e.At)
	if a.w < 70 && len(at) > 12 {
		at = at[len(at)-8:]
	}
	x = a.put(x, 0, faint, at) + 1
	s := l.sign(e.State)
	x = a.put(x, 0, s.ink, s.glyph) + 1
	x = a.put(x, 0, s.ink, clip(e.Type, a.w-x, l.more()))
	x = max(x+1, min(how.digits+34, a.w/2))
	task := history.Task(e.Task)
	if width(task) > a.w-x && e.Ref != "" {
		task = history.Run(lastName(e.Ref), e.Iteration, e.Attempt)
	}
	x = l.rest(a, x, plainInk, task)
	if e.Task != "" {
		x += 2
	}
	x = l.rest(a, x, faint, e.Text)
	if !e.Until.IsZero() && e.Text == "" {
		l.rest(a, x+1, calm, "until "+moment(how.now, e.Until))
	}
}

func (v *historyView) emptiness() string {
	switch {
	case v.problem != "":
		return v.problem
	case v.typed != "" && v.scanned < v.last:
		return "looking at event " + count(v.scanned) + " of " + count(v.last)
	case v.typed != "":
		return "none of " + count(v.last) + " events matches " + v.typed + " (esc: all)"
	case v.last > 0 || v.wanted > 0:
		return "reading the history"
	default:
		return "nothing has happened"
	}
}

// foot tells which events are shown, and how many there are.
func (v *historyView) foot(a area, l look) {
	text := "event " + count(v.current().Version) + " of " + count(v.last)
	if v.typed != "" {
		text += l.pick(" · ", " | ") + "filter " + v.typed + ": " + count(v.matched) + " found"
		if v.scanned < v.last {
			text += " so far"
		}
		if over := v.matched - int64(len(v.events)); over > 0 {
			text += ", the last " + count(int64(len(v.events))) + " are kept"
		}
	}
	if v.follow {
		text += l.pick(" · ", " | ") + "follows"
	}
	a.put(1, a.h-1, faint, clip(text, a.w-1, l.more()))
	if v.problem != "" && len(v.events) > 0 {
		a.right(a.h-1, bad, clip(" "+v.problem, a.w/2, l.more()))
	}
}
