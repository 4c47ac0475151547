package mock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/yaml"
)

// Event is a CloudEvent that arrives from outside. If it has attributes of an input (see
// event.InputAttributes), each execution of the run receives its own.
type Event struct {
	After time.Duration // since the start of the run

	ID, Type, Source, Subject   string
	Time                        time.Time // zero if the file has none
	DataContentType, DataSchema string
	Data                        any
	HasData                     bool
	Ext                         map[string]string // extension attributes
}

// Event returns the event as the engine receives it at the given time. If the file gives no
// id, it is derived from place, the index among the events.
func (e Event) Event(place int, at time.Time) event.Event {
	out := event.Event{
		ID: cmp.Or(e.ID, fmt.Sprintf("mock-%d", place+1)), Type: event.Type(e.Type), Source: cmp.Or(e.Source, "/mocks"),
		Time: e.Time, Ext: map[string]string{},
	}
	if out.Time.IsZero() {
		out.Time = at
	}
	if e.HasData {
		out.Data = json.RawMessage(jsonText(e.Data))
	}
	maps.Copy(out.Ext, e.Ext)
	for name, value := range map[string]string{
		"subject": e.Subject, "datacontenttype": e.DataContentType, "dataschema": e.DataSchema,
	} {
		if value != "" {
			out.Ext[name] = value
		}
	}
	return out
}

func readEvent(r *yaml.Reader, n *yaml3.Node) Event {
	var e Event
	text := func(name string, to *string) func(*yaml3.Node) {
		return func(n *yaml3.Node) { *to = r.Text(n, name) }
	}
	known := yaml.Fields{
		"after":           func(n *yaml3.Node) { e.After = Delay(r, n, "after") },
		"id":              text("id", &e.ID),
		"type":            text("type", &e.Type),
		"source":          text("source", &e.Source),
		"subject":         text("subject", &e.Subject),
		"datacontenttype": text("datacontenttype", &e.DataContentType),
		"dataschema":      text("dataschema", &e.DataSchema),
		"data":            func(n *yaml3.Node) { e.Data, e.HasData = r.Data(n), true },
		"specversion": func(n *yaml3.Node) {
			if n.Value != event.SpecVersion {
				r.Errorf(n, "specversion is %s, want %q", yaml.Spelled(n), event.SpecVersion)
			}
		},
		"time": func(n *yaml3.Node) {
			t, err := time.Parse(time.RFC3339Nano, n.Value)
			if err != nil {
				r.Errorf(n, "time is %s, want one such as 2026-01-31T08:00:00Z", yaml.Spelled(n))
			}
			e.Time = t
		},
	}
	typed := false
	r.Object(n, "event", known, func(key, value *yaml3.Node) {
		// A misspelled name would otherwise be accepted as an extension.
		if guess := known.Nearest(key.Value); guess != "" {
			r.Errorf(key, "event has no attribute %q, did you mean %q?", key.Value, guess)
			typed = typed || guess == "type"
			return
		}
		readExtension(r, &e, key, value)
	})
	if _, err := decide.InputRequest(e.Event(0, time.Time{}), "any", time.Time{}); err != nil {
		r.Errorf(n, "%v", err)
	}
	if e.Type == "" && !typed && n.Kind == yaml3.MappingNode {
		r.Errorf(n, "event has no type")
	}
	return e
}

// readExtension reads an extension attribute.
func readExtension(r *yaml.Reader, e *Event, key, value *yaml3.Node) {
	name := key.Value
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		r.Errorf(key, "attribute %q: want a name of lower-case letters and digits", name)
		return
	}
	if name == "execution" || slices.Contains(event.OwnAttributes(), name) {
		r.Errorf(key, "attribute %q is the engine's own: the engine sets it", name)
		return
	}
	if name == event.InputExecutionAttribute {
		r.Errorf(key, "attribute %q: an event of mocks is for every execution of the run; leave the attribute out", name)
		return
	}
	if e.Ext == nil {
		e.Ext = map[string]string{}
	}
	e.Ext[name] = r.Text(value, name)
}
