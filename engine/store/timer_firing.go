package store

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// firing is the call of fireScript for timers which are due from a microsecond on that
// each has: how many keys it has, and these with the arguments.
func (s *Store) firing(tenant, group string, due []Due, from func(*Due) int64) (keys int, list []any) {
	const own, reported, each = 3, 4, 6 // keys, and arguments of all timers and of most
	f := &firing{store: s, streams: map[string]int{}}
	f.list, f.texts = make([]any, 0, each*len(due)), make([]string, 0, 2+2*len(due))
	latest := int64(math.MinInt64)
	for i := range due {
		d := &due[i]
		latest = max(latest, from(d))
		if d.Err != nil {
			f.entry(s.keys.DeadLetters(tenant), "", "", s.deadLetter(d))
		} else {
			f.timer(d)
		}
	}
	h, keys, all := s.keysFor(tenant), own+len(f.to), f.list
	f.list = append(make([]any, beforeKeys, beforeKeys+keys+reported+len(f.to)+len(due)+len(all)), &h.timers, &h.timerKeys, &h.forgottenKeys)
	for i := range f.to {
		f.list = append(f.list, &f.to[i].key)
	}
	at := ""
	if len(due) > 0 {
		at = due[0].now.Format(time.RFC3339Nano)
	}
	f.add(at)
	f.list = append(f.list, latest, len(due))
	f.add(group)
	for i := range f.to {
		f.list = append(f.list, &f.to[i].tenant)
	}
	for i := range due {
		f.list = append(f.list, &due[i].Member)
	}
	return keys, append(f.list, all...)
}

// firing is what fireScript is told of each timer.
type firing struct {
	textList

	store   *Store
	streams map[string]int // their numbers
	to      []target

	last       string // tenant of the timer before …
	lastStream int    // … and the number of its stream
}

// target is a stream that is published to.
type target struct{ key, tenant string }

// stream is the number of a stream.
func (f *firing) stream(key, tenant string) int {
	n, known := f.streams[key]
	if !known {
		f.to = append(f.to, target{key, tenant})
		n = len(f.to)
		f.streams[key] = n
	}
	return n
}

// of is the number of a tenant's stream.
func (f *firing) of(tenant string) int {
	if f.lastStream == 0 || tenant != f.last {
		f.last, f.lastStream = tenant, f.stream(f.store.keysFor(tenant).stream, tenant)
	}
	return f.lastStream
}

// entry adds a timer that publishes just these fields.
func (f *firing) entry(key, tenant, name string, fields []string) {
	f.list = append(f.list, -f.stream(key, tenant), name, len(fields))
	f.add(fields...)
}

// timer adds a timer: a delivery publishes the entry that is to be delivered again,
// all others TimerFired.
func (f *firing) timer(d *Due) {
	name := noted(d.Timer)
	switch {
	case d.again != nil:
		f.entry(f.store.keysFor(d.Tenant).stream, d.Tenant, name, listed(d.again))
	case name != "" || d.Workflow == "" || d.Execution == "" || d.TaskID == "":
		f.entry(f.store.keysFor(d.Tenant).stream, d.Tenant, name, f.store.fields(event.Event{
			ID: d.eventID(), Source: "/flunq/timer", Type: event.TimerFired, Time: d.now,
			Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID, Data: json.RawMessage(d.firedText()),
		}))
	default:
		data := d.firedText()
		if f.store.sealer != nil {
			data = string(f.store.sealer.Seal(json.RawMessage(data)))
		}
		f.list = append(f.list, f.of(d.Tenant))
		f.add(d.eventID())
		f.list = append(f.list, &d.Workflow, &d.Execution, &d.TaskID)
		f.add(data)
	}
}

// eventID is that of the event that the timer publishes.
func (d *Due) eventID() string {
	out := make([]byte, 0, 128)
	out = append(append(append(append(append(append(out, d.Execution...), d.TaskID...), '/'), d.Kind...), d.Key...), '/')
	return string(strconv.AppendInt(out, d.FireAt.UnixNano(), 10))
}

// firedText is the data of TimerFired.
func (d *Due) firedText() string {
	if !d.plain || d.by != "" {
		return event.FiredText(&event.Fired{Timer: d.Timer, ScheduledFor: d.Due(), FiredAt: d.now, By: d.by})
	}
	const layout = time.RFC3339Nano
	out := append(make([]byte, 0, 384), d.Member[:len(d.Member)-1]...)
	out = d.Due().AppendFormat(append(out, `,"scheduled_for":"`...), layout)
	out = d.now.AppendFormat(append(out, `","fired_at":"`...), layout)
	return string(append(out, `"}`...))
}

// deadLetter is the dead letter of what cannot be a timer.
func (s *Store) deadLetter(d *Due) []string {
	at := d.now.Format(time.RFC3339Nano)
	return []string{
		"timer", d.Member, "reason", d.Err.Error(), "attempts", "1", "service", TimerGroup,
		"first_failure", at, "last_failure", at,
	}
}
