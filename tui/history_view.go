package tui

import (
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// historyView is a window over a history: it holds the events near the cursor, and knows which are
// missing.
type historyView struct {
	events []Event
	last   int64   // the newest version
	follow bool    // the window follows the end of the history
	above  []Event // read before the window, but not contiguous with it yet

	typed   string // the filter
	scanned int64  // how far the filter has searched
	matched int64  // matches so far

	canvas.List

	wanted  int64 // the event to show; 0: none in particular
	first   int64 // earlier events are dropped
	turn    int   // answers to earlier requests are ignored
	problem string
}

// Bounds of the events in memory, and the number read above a window.
const (
	maxEvents   = 4000
	eventsAbove = 500
)

func newHistoryView() *historyView {
	return &historyView{follow: true, List: canvas.List{Height: 1}}
}

// reset forgets the history.
func (v *historyView) reset() {
	*v = historyView{follow: v.follow, typed: v.typed, List: canvas.List{Height: v.Height}, turn: v.turn + 1}
}

// feed adds new events. A window elsewhere in the history does not move.
func (v *historyView) feed(events []Event) {
	if len(events) == 0 {
		return
	}
	joins := len(v.events) == 0 && v.last == 0 || len(v.events) > 0 && v.events[len(v.events)-1].Version == v.last
	v.last = max(v.last, events[len(events)-1].Version)
	switch {
	case v.typed != "":
		if v.scanned == events[0].Version-1 {
			v.scan(events)
		}
	case joins && (v.follow || len(v.events)+len(events) <= maxEvents):
		v.events = append(v.events, events...)
		v.trimHead()
	case v.follow:
		v.events = append(v.events[:0], events...)
	}
	if v.follow {
		v.Cursor = len(v.events) - 1
	}
	v.Fit(len(v.events))
}

// scan passes events to the filter, in order.
func (v *historyView) scan(events []Event) {
	words := strings.Fields(strings.ToLower(v.typed))
	for i := range events {
		e := &events[i]
		if e.Version <= v.scanned {
			continue
		}
		v.scanned = e.Version
		if matches(e, words) {
			v.matched++
			v.events = append(v.events, *e)
		}
	}
	v.last = max(v.last, v.scanned)
	v.trimHead()
	if v.follow {
		v.Cursor = len(v.events) - 1
	}
	v.Fit(len(v.events))
}

// matches reports whether an event contains all words.
func matches(e *Event, words []string) bool {
	for _, word := range words {
		if !contains(e.Type, word) && !contains(e.Task, word) && !contains(history.Task(e.Task), word) && !contains(e.Text, word) && !strings.Contains(string(e.State), word) {
			return false
		}
	}
	return true
}

// narrow sets the filter.
func (v *historyView) narrow(typed string) {
	if typed == v.typed {
		return
	}
	at := v.current().Version
	v.turn++
	v.typed, v.events, v.above, v.scanned, v.matched, v.Cursor, v.Offset = typed, nil, nil, 0, 0, 0, 0
	if typed != "" {
		return
	}
	// After a search, show the events around the match.
	v.wanted = max(1, v.last)
	if at > 0 {
		v.wanted, v.follow = at, false
	}
}

// current returns the event at the cursor.
func (v *historyView) current() Event {
	return canvas.At(v.events, v.Cursor)
}

// jump requests a window around an event.
func (v *historyView) jump(version int64) {
	v.turn++
	v.above = nil
	v.wanted = version
}

// Move moves the cursor by lines.
func (v *historyView) Move(lines int) {
	v.follow = false
	v.Cursor += lines
	v.Fit(len(v.events))
}

// Start goes to the first event.
func (v *historyView) Start() {
	v.follow, v.Cursor = false, 0
	if v.typed == "" && len(v.events) > 0 && v.events[0].Version > 1 {
		v.jump(1)
	}
	v.Fit(len(v.events))
}

// End goes to the last event, and follows the end.
func (v *historyView) End() {
	v.follow, v.Cursor = true, len(v.events)-1
	if n := len(v.events); v.typed == "" && n > 0 && v.events[n-1].Version < v.last {
		v.jump(v.last)
	}
	v.Fit(len(v.events))
}

// To puts the cursor on a line of the window.
func (v *historyView) To(line int) { v.Move(line - v.Cursor) }

// trimHead drops events far above the window.
func (v *historyView) trimHead() {
	if over := len(v.events) - maxEvents; over > maxEvents/4 || over > 0 && !v.follow {
		v.events = append(v.events[:0:0], v.events[over:]...)
		v.Cursor, v.Offset = v.Cursor-over, v.Offset-over
	}
}

// want returns the version after which events are missing, and whether any are missing.
func (v *historyView) want() (after int64, lacks bool) {
	switch n := len(v.events); {
	case v.typed != "":
		return v.scanned, v.scanned < v.last
	case v.wanted > 0:
		return max(0, v.wanted-eventsAbove/2), true
	case len(v.above) > 0:
		return v.above[len(v.above)-1].Version, true
	case v.last == 0 || n == 0:
		return 0, false
	case v.events[0].Version > max(1, v.first) && v.Cursor < 2*v.Height && !v.follow:
		return max(0, v.events[0].Version-1-eventsAbove), true
	case v.events[n-1].Version < v.last && v.Cursor+2*v.Height >= n:
		return v.events[n-1].Version, true
	default:
		return 0, false
	}
}

// take adds the events that want asked for.
func (v *historyView) take(after int64, events []Event) {
	v.problem = ""
	n := len(v.events)
	switch {
	case v.typed != "":
		if len(events) == 0 {
			v.scanned = v.last
		}
		v.scan(events)
		return
	case v.wanted > 0:
		v.jumped(events)
	case len(events) == 0:
		v.above = nil
		if n > 0 && after == v.events[n-1].Version {
			v.last = after
		} else if n > 0 {
			v.first = v.events[0].Version
		}
	case n > 0 && after == v.events[n-1].Version:
		v.events = append(v.events, events...)
		v.trimHead()
	case n > 0 && after < v.events[0].Version:
		v.prepend(events)
	}
	v.Fit(len(v.events))
}

// prepend adds events before the window once they reach it, and drops events far below.
func (v *historyView) prepend(events []Event) {
	first := v.events[0].Version
	for i := range events {
		if events[i].Version < first {
			v.above = append(v.above, events[i])
		}
	}
	if events[len(events)-1].Version < first-1 {
		return
	}
	v.Cursor, v.Offset = v.Cursor+len(v.above), v.Offset+len(v.above)
	v.events, v.above = append(v.above, v.events...), nil
	if len(v.events) > maxEvents {
		v.events = v.events[:max(maxEvents, min(len(v.events), v.Cursor+2*v.Height))]
	}
}

// jumped begins a window around the wanted event.
func (v *historyView) jumped(events []Event) {
	v.events, v.Cursor = events, 0
	for i := range events {
		if events[i].Version <= v.wanted {
			v.Cursor = i
		}
	}
	v.wanted, v.above, v.Offset = 0, nil, v.Cursor-v.Height/2
}

// draw draws the window, and a line about it.
func (v *historyView) draw(a canvas.Area, l canvas.Look, now time.Time, focus bool) {
	digits := max(3, len(strconv.FormatInt(v.last, 10)))
	v.Rows(a.Part(0, 0, a.W, a.H-1), len(v.events), cursorInk(focus), func(row canvas.Area, at int) {
		drawEvent(row, l, &v.events[at], now, digits)
	})
	if len(v.events) == 0 {
		l.Rest(a, 1, canvas.Faint, v.emptiness())
	}
	v.foot(a, l)
}

func drawEvent(a canvas.Area, l canvas.Look, e *Event, now time.Time, digits int) {
	number := strconv.FormatInt(e.Version, 10)
	x := digits + 1
	a.Put(x-1-len(number), 0, canvas.Faint, number)
	at := moment(now, e.At)
	if a.W < 70 && len(at) > 12 {
		at = at[len(at)-8:]
	}
	x = a.Put(x, 0, canvas.Faint, at) + 1
	s := signOf(l, e.State)
	x = a.Put(x, 0, s.ink, s.glyph) + 1
	x = l.Rest(a, x, s.ink, e.Type)
	x = max(x+1, min(digits+34, a.W/2))
	task := history.Task(e.Task)
	if canvas.Width(task) > a.W-x && e.Ref != "" {
		task = history.Run(lastName(e.Ref), e.Iteration, e.Attempt)
	}
	x = l.Rest(a, x, canvas.Normal, task)
	if e.Task != "" {
		x += 2
	}
	x = l.Rest(a, x, canvas.Faint, e.Text)
	if !e.Until.IsZero() && e.Text == "" {
		l.Rest(a, x+1, canvas.Calm, "until "+moment(now, e.Until))
	}
}

func (v *historyView) emptiness() string {
	switch {
	case v.problem != "":
		return v.problem
	case v.typed != "" && v.scanned < v.last:
		return "searching event " + history.Number(v.scanned) + " of " + history.Number(v.last)
	case v.typed != "":
		return "none of " + history.Number(v.last) + " events matches " + v.typed + " (esc: all)"
	case v.last > 0 || v.wanted > 0:
		return "reading the history"
	default:
		return "no events"
	}
}

// foot draws which events are shown, and how many there are.
func (v *historyView) foot(a canvas.Area, l canvas.Look) {
	text := "event " + history.Number(v.current().Version) + " of " + history.Number(v.last)
	if v.typed != "" {
		text += l.Pick(" · ", " | ") + "filter " + v.typed + ": " + history.Number(v.matched) + " found"
		if v.scanned < v.last {
			text += " so far"
		}
		if over := v.matched - int64(len(v.events)); over > 0 {
			text += ", the last " + history.Number(len(v.events)) + " are kept"
		}
	}
	if v.follow {
		text += l.Pick(" · ", " | ") + "follows"
	}
	a.Put(1, a.H-1, canvas.Faint, canvas.Clip(text, a.W-1, l.More()))
	if v.problem != "" && len(v.events) > 0 {
		a.Right(a.H-1, canvas.Bad, canvas.Clip(" "+v.problem, a.W/2, l.More()))
	}
}
