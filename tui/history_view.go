package tui

import (
	"strings"

	"flunq.io/flunq/engine/history"
)

// historyView is a window over a history: it holds the events near the cursor, and tells which are
// missing.
type historyView struct {
	events []Event
	last   int64   // the newest version
	follow bool    // the window follows the end of the history
	above  []Event // read before the window, but not contiguous with it yet

	typed   string // the filter
	scanned int64  // how far the filter has searched
	matched int64  // matches so far

	cursor, offset, height int
	wanted                 int64 // the event to show; 0: none in particular
	first                  int64 // earlier events are dropped
	turn                   int   // answers to earlier requests are ignored
	problem                string
}

// Bounds of the events in memory, and the number read above a window.
const (
	mostEvents  = 4000
	eventsAbove = 500
)

func newHistoryView() *historyView { return &historyView{follow: true, height: 1} }

// reset forgets the history.
func (v *historyView) reset() {
	*v = historyView{follow: v.follow, typed: v.typed, height: v.height, turn: v.turn + 1}
}

// feed adds events as they come. A window elsewhere stays there.
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
	case joins && (v.follow || len(v.events)+len(events) <= mostEvents):
		v.events = append(v.events, events...)
		v.trimHead()
	case v.follow:
		v.events = append(v.events[:0], events...)
	}
	if v.follow {
		v.cursor = len(v.events) - 1
	}
	v.clamp()
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
		if e.match(words) {
			v.matched++
			v.events = append(v.events, *e)
		}
	}
	v.last = max(v.last, v.scanned)
	v.trimHead()
	if v.follow {
		v.cursor = len(v.events) - 1
	}
	v.clamp()
}

// match reports whether an event contains all words.
func (e *Event) match(words []string) bool {
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
	v.typed, v.events, v.above, v.scanned, v.matched, v.cursor, v.offset = typed, nil, nil, 0, 0, 0, 0
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
	if v.cursor < 0 || v.cursor >= len(v.events) {
		return Event{}
	}
	return v.events[v.cursor]
}

// show goes to an event.
func (v *historyView) show(version int64) {
	if version <= 0 || v.typed != "" {
		return
	}
	v.follow = false
	for i := range v.events {
		if v.events[i].Version == version {
			v.cursor = i
			v.clamp()
			return
		}
	}
	v.jump(version)
}

// jump requests a window around an event.
func (v *historyView) jump(version int64) {
	v.turn++
	v.above = nil
	v.wanted = version
}

func (v *historyView) move(lines int) {
	v.follow = false
	v.cursor += lines
	v.clamp()
}

// toStart goes to the first event.
func (v *historyView) toStart() {
	v.follow, v.cursor = false, 0
	if v.typed == "" && len(v.events) > 0 && v.events[0].Version > 1 {
		v.jump(1)
	}
	v.clamp()
}

// end goes to the last event, and follows the end.
func (v *historyView) end() {
	v.follow, v.cursor = true, len(v.events)-1
	if n := len(v.events); v.typed == "" && n > 0 && v.events[n-1].Version < v.last {
		v.jump(v.last)
	}
	v.clamp()
}

func (v *historyView) clamp() {
	v.cursor = max(0, min(v.cursor, len(v.events)-1))
	v.offset = max(v.cursor-v.height+1, min(v.offset, v.cursor))
	v.offset = max(0, min(v.offset, len(v.events)-v.height))
}

// to puts the cursor on a line of the window.
func (v *historyView) to(line int) { v.move(line - v.cursor) }
