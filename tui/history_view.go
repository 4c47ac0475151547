package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// historyView shows the events of a history, or those that match a filter.
type historyView struct {
	all    []Event
	typed  string  // the filter
	shown  []Event // those of all that match it
	follow bool    // the cursor stays on the last event

	canvas.List
}

func newHistoryView() *historyView {
	return &historyView{follow: true, List: canvas.List{Height: 1}}
}

// reset forgets the events, and keeps the filter.
func (v *historyView) reset() {
	*v = historyView{follow: v.follow, typed: v.typed, List: canvas.List{Height: v.Height}}
}

// add adds later events.
func (v *historyView) add(events []Event) {
	v.all = append(v.all, events...)
	v.show(events)
}

// show adds the later events that match the filter to those shown.
func (v *historyView) show(later []Event) {
	words := strings.Fields(strings.ToLower(v.typed))
	if len(words) == 0 {
		v.shown = v.all
	} else {
		for i := range later {
			if e := &later[i]; containsAll(words, e.Type, e.Task, history.Task(e.Task), e.Text, string(e.State)) {
				v.shown = append(v.shown, later[i])
			}
		}
	}
	if v.follow {
		v.Cursor = len(v.shown) - 1
	}
	v.Fit(len(v.shown))
}

// narrow sets the filter. Without one, the events around the last match are shown.
func (v *historyView) narrow(typed string) {
	if typed == v.typed {
		return
	}
	match := v.current().Version
	v.typed, v.shown, v.Cursor = typed, nil, 0
	if typed == "" {
		v.Cursor = len(v.all) - 1
		if at := slices.IndexFunc(v.all, func(e Event) bool { return e.Version == match }); at >= 0 {
			v.follow, v.Cursor = false, at
		}
		v.Offset = v.Cursor - v.Height/2
	}
	v.show(v.all)
}

// current returns the event at the cursor.
func (v *historyView) current() Event { return canvas.At(v.shown, v.Cursor) }

// To puts the cursor on a line, and stops following.
func (v *historyView) To(line int) {
	v.follow = false
	v.List.To(line)
}

// Move moves the cursor by lines, and stops following.
func (v *historyView) Move(lines int) { v.To(v.Cursor + lines) }

// Start goes to the first event, and stops following.
func (v *historyView) Start() { v.To(0) }

// End goes to the last event, and follows the end.
func (v *historyView) End() {
	v.follow = true
	v.List.End()
}

// draw draws the visible events, and a line about them.
func (v *historyView) draw(a canvas.Area, theme canvas.Theme, now time.Time, focus bool) {
	newest := canvas.At(v.all, len(v.all)-1).Version
	digits := max(3, len(strconv.FormatInt(newest, 10)))
	v.Rows(a.Part(0, 0, a.W, a.H-1), len(v.shown), cursorStyle(focus), func(row canvas.Area, at int) {
		drawEvent(row, theme, &v.shown[at], now, digits)
	})
	foot := "event " + history.Number(v.current().Version) + " of " + history.Number(newest)
	switch {
	case len(v.all) == 0:
		theme.Rest(a, 1, canvas.Faint, "no events")
	case len(v.shown) == 0:
		theme.Rest(a, 1, canvas.Faint, "none of "+history.Number(newest)+" events matches "+v.typed+" (esc: all)")
	}
	if v.typed != "" {
		foot += theme.Pick(" · ", " | ") + "filter " + v.typed + ": " + history.Number(len(v.shown)) + " found"
	}
	if v.follow {
		foot += theme.Pick(" · ", " | ") + "follows"
	}
	a.Put(1, a.H-1, canvas.Faint, canvas.Clip(foot, a.W-1, theme.More()))
}

func drawEvent(a canvas.Area, theme canvas.Theme, e *Event, now time.Time, digits int) {
	number := strconv.FormatInt(e.Version, 10)
	x := digits + 1
	a.Put(x-1-len(number), 0, canvas.Faint, number)
	at := moment(now, e.At)
	if a.W < 70 && len(at) > 12 {
		at = at[len(at)-8:]
	}
	x = a.Put(x, 0, canvas.Faint, at) + 1
	s := signOf(theme, e.State)
	x = a.Put(x, 0, s.style, s.glyph) + 1
	x = theme.Rest(a, x, s.style, e.Type)
	x = max(x+1, min(digits+34, a.W/2))
	task := history.Task(e.Task)
	if canvas.Width(task) > a.W-x && e.Ref != "" {
		task = history.Run(history.TaskName(e.Ref), e.Iteration, e.Attempt)
	}
	x = theme.Rest(a, x, canvas.Normal, task)
	if e.Task != "" {
		x += 2
	}
	x = theme.Rest(a, x, canvas.Faint, e.Text)
	if !e.Until.IsZero() && e.Text == "" {
		theme.Rest(a, x+1, canvas.Calm, "until "+moment(now, e.Until))
	}
}
