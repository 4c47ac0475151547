package playback

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/tui"
)

// fewChildren is the maximum number of child executions listed.
const fewChildren = 200

// find returns an execution that has begun by the shown moment, and its version.
func (pb *Playback) find(id string) (r *track, version int, err error) {
	if r = pb.byID[id]; r != nil {
		version = r.version(pb.playhead.n)
	}
	if version > 0 || r != nil && pb.playhead.n == 0 && r.index == 0 {
		return r, version, nil
	}
	return nil, 0, fmt.Errorf("execution %s: it has not begun at this moment", id)
}

// Execution returns an execution without its history.
func (pb *Playback) Execution(_ context.Context, id string) (tui.Execution, error) {
	pb.lock()
	defer pb.mu.Unlock()
	r, version, err := pb.find(id)
	if err != nil {
		return tui.Execution{}, err
	}
	out := tui.Execution{Row: pb.executionRow(r), Version: int64(version), Breaks: maps.Clone(pb.breaks)}
	if r.doc != nil {
		out.Document = r.doc.shown
	}
	if version == 0 {
		out.State = tui.Pending
		out.Problem = "it has not begun at this moment"
		return out, nil
	}
	pb.data(r, version, &out)
	pb.waits(r, version, &out)
	for _, child := range r.children {
		if len(out.Children) == fewChildren || child.version(pb.playhead.n) == 0 {
			break
		}
		out.Children = append(out.Children, pb.executionRow(child))
	}
	return out, nil
}

// Activities returns the open tasks of executions.
func (pb *Playback) Activities(_ context.Context, ids []string) ([]tui.Activity, error) {
	pb.lock()
	defer pb.mu.Unlock()
	out := make([]tui.Activity, len(ids))
	for i, id := range ids {
		r, version, err := pb.find(id)
		if err != nil || version == 0 {
			continue
		}
		out[i].Note = pb.failure(r, version)
		events := make([]event.Event, 0, latestEvents)
		for _, at := range r.frames[max(0, version-latestEvents):version] {
			events = append(events, pb.shown(pb.frames[at].Event))
		}
		out[i].Open = describe.Open(events)
	}
	return out, nil
}

// latestEvents is how many recent events Activities considers for each execution.
const latestEvents = 24

// failure returns the error that ended an execution by a version, "" if there is none.
func (pb *Playback) failure(r *track, version int) string {
	var ended event.Ended
	if at := r.ended(version); at > 0 && pb.read(&pb.frames[r.frames[at-1]], &ended) && ended.Error != nil {
		return ended.Error.Error()
	}
	return ""
}

// data adds the input, the output and the facts.
func (pb *Playback) data(r *track, version int, out *tui.Execution) {
	out.Data = append(out.Data, describe.Data("input", pb.redacted(r.started.Input))...)
	var ended event.Ended
	if at := r.ended(version); at > 0 && pb.read(&pb.frames[r.frames[at-1]], &ended) {
		out.Data = append(out.Data, describe.Data("output", ended.Output)...)
		if ended.Error != nil {
			out.Data = append(out.Data, describe.Data("error", event.Encode(ended.Error))...)
			out.Note = ended.Error.Error()
		}
	}
	document := ""
	if out.Document != nil {
		document = out.Document.Name
	}
	out.Facts = describe.Facts(
		[2]string{"tenant", pb.opts.Tenant},
		[2]string{"document", document},
		[2]string{"began", describe.Instant(r.begun.Time)},
		[2]string{"ended", describe.Instant(out.Until)},
		[2]string{"events", strconv.Itoa(version)},
		[2]string{"parent", strings.TrimSpace(r.started.Parent + " " + r.started.ParentTask)},
		[2]string{"error", describe.Problem(ended.Error, out.Document)},
	)
}

// waits adds the pending timers and what the execution waits for.
func (pb *Playback) waits(r *track, version int, out *tui.Execution) {
	timers, _ := pb.open()
	for _, t := range timers {
		if t.track == r {
			out.Timers = append(out.Timers, pb.timerRow(t))
		}
	}
	switch {
	case pb.differs.execution == r.id && pb.playhead.n == len(pb.frames):
		out.Problem = pb.differs.text
	case r.problem != "" && version >= r.problemFrom:
		out.Problem = "its state is unknown from here on: " + r.problem
	}
	s := pb.state(r, version)
	if s == nil {
		return
	}
	switch {
	case r.decided[version-1] < version && r.problem == "":
		out.Waits = []string{"the decision about event " + strconv.Itoa(version) + " is incomplete"}
	case !s.Status.Ended():
		for _, wait := range s.Awaits(nil) {
			out.Waits = append(out.Waits, string(pb.redacted([]byte(wait))))
		}
	}
	if s.Context.V != nil {
		out.Data = append(out.Data, describe.Data("context", pb.redacted(canonical.Encode(s.Context.V)))...)
	}
}

// historyPage is the maximum number of events that History returns.
const historyPage = 500

// History returns the first events of an execution after a version.
func (pb *Playback) History(_ context.Context, id string, after int64) ([]tui.Event, error) {
	pb.lock()
	defer pb.mu.Unlock()
	r, version, err := pb.find(id)
	if err != nil {
		return nil, err
	}
	from := min(max(0, after), int64(version))
	frames := r.frames[from:min(from+historyPage, int64(version))]
	out := make([]tui.Event, 0, len(frames))
	for i, at := range frames {
		out = append(out, describe.Event(from+int64(i)+1, pb.shown(pb.frames[at].Event)))
	}
	return out, nil
}

// Data returns the JSON data of an event in a history.
func (pb *Playback) Data(_ context.Context, id string, version int64) (string, error) {
	pb.lock()
	defer pb.mu.Unlock()
	r, last, err := pb.find(id)
	if err != nil {
		return "", err
	}
	if version < 1 || version > int64(last) {
		return "", fmt.Errorf("event %d of execution %s has not happened at this moment", version, id)
	}
	return string(pb.redacted(pb.frames[r.frames[version-1]].Data)), nil
}
