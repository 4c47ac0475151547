package report

import (
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// The number of events listed from the start and from the end.
const (
	firstEvents = 1000
	lastEvents  = 300
)

// eventsView is the list of events in order.
type eventsView struct {
	Rows []eventView
	All  string
}

type eventView struct {
	Number  int
	After   string
	At      string
	Kind    string
	Class   string
	Name    string
	Text    string
	Ref     string
	Row     int
	Data    int
	Left    string // number of events omitted here
	Differs bool
}

// list builds the list of events.
func (r *Recording) list(p *pool) eventsView {
	out := eventsView{All: history.Count(len(r.events), "event")}
	for i, h := range r.events {
		if i >= firstEvents && i < len(r.events)-lastEvents {
			if i == firstEvents {
				left := len(r.events) - lastEvents - firstEvents
				out.Rows = append(out.Rows, eventView{Left: history.Count(left, "further event") + " not in this file: the filter does not find them"})
			}
			continue
		}
		out.Rows = append(out.Rows, r.event(h, p))
	}
	return out
}

func (r *Recording) event(h *eventEntry, p *pool) eventView {
	v := eventView{
		Number: h.n, After: r.after(h.at), At: stampText(h.at), Kind: strings.TrimPrefix(string(h.typ), event.Prefix),
		Class: eventClass(h), Text: h.text, Data: p.add(h.data), Differs: r.Difference != nil && r.Difference.Event == h.n,
	}
	if h.run != nil {
		v.Name, v.Ref, v.Row = short(h.run.title(), 48), h.run.link(), h.run.row // what fits
	}
	return v
}

// eventClass returns the CSS class of an event.
func eventClass(h *eventEntry) string {
	switch h.typ {
	case event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		if h.run != nil {
			return string(h.run.status)
		}
	case event.TimerScheduled, event.TimerFired, event.TimerCancelled:
		return "timer"
	case event.EventReceived:
		return "came"
	default:
	}
	return "begun"
}
