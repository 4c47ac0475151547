package tui

// trimHead drops events far above the window.
func (v *historyView) trimHead() {
	if over := len(v.events) - mostEvents; over > mostEvents/4 || over > 0 && !v.follow {
		v.events = append(v.events[:0:0], v.events[over:]...)
		v.cursor, v.offset = v.cursor-over, v.offset-over
	}
}

// want returns the version after which events are missing, and whether any are.
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
	case v.events[0].Version > max(1, v.first) && v.cursor < 2*v.height && !v.follow:
		return max(0, v.events[0].Version-1-eventsAbove), true
	case v.events[n-1].Version < v.last && v.cursor+2*v.height >= n:
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
	v.clamp()
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
	v.cursor, v.offset = v.cursor+len(v.above), v.offset+len(v.above)
	v.events, v.above = append(v.above, v.events...), nil
	if len(v.events) > mostEvents {
		v.events = v.events[:max(mostEvents, min(len(v.events), v.cursor+2*v.height))]
	}
}

// jumped begins a window around the wanted event.
func (v *historyView) jumped(events []Event) {
	v.events, v.cursor = events, 0
	for i := range events {
		if events[i].Version <= v.wanted {
			v.cursor = i
		}
	}
	v.wanted, v.above, v.offset = 0, nil, v.cursor-v.height/2
}
