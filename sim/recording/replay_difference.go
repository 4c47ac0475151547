package recording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// Difference is the first place where a replay differs from the recording, described from
// both sides.
type Difference struct {
	// What is the kind of difference: event (its data differs), missing (from the recording),
	// unexpected (the replay has no such event), computed (the result of a task differs),
	// request (a call sends something else), exchange (the recording has no response), arrival
	// (an event from outside), input, document, result, hash or order.
	What string `json:"what"`

	Execution string `json:"execution,omitempty"`
	Task      string `json:"task,omitempty"` // its reference
	Name      string `json:"name,omitempty"`
	Run       string `json:"run,omitempty"` // the id of the task run
	Iteration string `json:"iteration,omitempty"`
	Attempt   string `json:"attempt,omitempty"`
	Event     int    `json:"event,omitempty"` // number of the history event, from 1
	Line      int    `json:"line,omitempty"`  // of the recording

	Recorded      string          `json:"recorded"`
	Replayed      string          `json:"replayed"`
	Path          string          `json:"path,omitempty"` // to the first difference in the data
	RecordedValue json.RawMessage `json:"recorded_value,omitempty"`
	ReplayedValue json.RawMessage `json:"replayed_value,omitempty"`

	RecordedAt *Place `json:"recorded_at,omitempty"` // in the recorded document
	ReplayedAt *Place `json:"replayed_at,omitempty"` // in the document to replay with, if it differs
	Hint       string `json:"hint,omitempty"`

	task string // the task run for RecordedAt
	now  string // the task run for ReplayedAt
}

// Place is a line of a document.
type Place struct {
	Document  string `json:"document"`
	Recording string `json:"recording,omitempty"` // the file that contains the document
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Text      string `json:"text"`
}

// differs records the first difference, at the current event.
func (rp *replay) differs(d *Difference, where *canonical.Difference) {
	if rp.diff != nil {
		return
	}
	e := rp.entries[rp.at]
	d.Event, d.Execution = rp.at+1, e.Execution
	if d.Line == 0 {
		d.Line = e.line
	}
	if where != nil {
		d.Path = where.Path
		if where.InA {
			d.RecordedValue = canonical.Encode(where.A)
		}
		if where.InB {
			d.ReplayedValue = canonical.Encode(where.B)
		}
	}
	d.task = cmp.Or(d.task, e.Task)
	if d.task == "" && d.now == "" && e.Type != event.TimerScheduled && e.Type != event.TimerCancelled {
		d.task = rp.innermost(e.Execution)
	}
	d.now = cmp.Or(d.now, d.task)
	rp.locate(d, e.Execution)
	if (rp.sealed || rp.lacksSecret()) && d.What != "order" && d.What != "hash" {
		d.Hint = "a recording does not contain secrets, and values computed from them may differ: pass them with --secrets FILE"
	}
	rp.diff = d
}

// lacksSecret reports whether a document uses a secret that is neither given nor in the recording: an
// export names only those whose values it contains.
func (rp *replay) lacksSecret() bool {
	return slices.ContainsFunc(rp.docs, func(d *document) bool {
		return slices.ContainsFunc(d.now.Secrets, func(use dsl.SecretUse) bool { return rp.secrets[use.Name] == nil })
	})
}

// unexpected reports an event that the replay does not produce.
func (rp *replay) unexpected(e event.Event, replayed string) {
	rp.differs(&Difference{What: "unexpected", Recorded: history.Describe(e), Replayed: replayed}, nil)
}

// compareData compares the data of a recorded event with that of the replay.
func (rp *replay) compareData(e, now event.Event) {
	if where := rp.comparison().between(e.Data, now.Data); where != nil {
		rp.differs(&Difference{What: "event", Recorded: history.Describe(e), Replayed: history.Describe(now)}, where)
	}
}

// innermost returns the innermost open task run of an execution, "" if there is none.
func (rp *replay) innermost(execution string) string {
	w := rp.executions[execution]
	if w == nil || w.state == nil {
		return ""
	}
	open := w.state.Open()
	if len(open) == 0 {
		return ""
	}
	return open[len(open)-1].Run.String()
}

// locate finds the lines of the documents that a difference is about.
func (rp *replay) locate(d *Difference, execution string) {
	run := event.ParseRun(d.task)
	if run.Ref == "" {
		run = event.ParseRun(d.now)
	}
	d.Task, d.Run, d.Iteration, d.Attempt = run.Ref, run.String(), history.Index(run.Iteration), history.Attempts(run.Attempt)
	d.Name = history.TaskName(run.Ref)
	doc := rp.main
	if w := rp.executions[execution]; w != nil && w.doc != nil {
		doc = w.doc
	}
	if doc == nil {
		return
	}
	if d.task == "" && strings.Contains(d.Recorded+d.Replayed, "timeout of the workflow") {
		d.task, d.now = timeLimit, timeLimit
	}
	d.RecordedAt = placeOf(doc.was, rp.Name, event.ParseRun(d.task).Ref)
	if doc.changed() {
		d.ReplayedAt = placeOf(doc.now, "", event.ParseRun(d.now).Ref)
	} else if d.RecordedAt == nil {
		d.RecordedAt = placeOf(doc.was, rp.Name, event.ParseRun(d.now).Ref)
	}
}

// timeLimit replaces a task reference for the timeout of the whole workflow.
const timeLimit = "timeout"

// placeOf returns the place of a task in the document of a recording or, if recording is "", in the
// changed document.
func placeOf(def *dsl.Definition, recording, ref string) *Place {
	p := &Place{Recording: recording}
	if recording != "" {
		p.Document = def.Document.Name
	}
	lines := strings.Split(string(def.Source), "\n")
	if t := def.Task(ref); t != nil {
		p.Line, p.Column = t.Pos.Line, t.Pos.Column
	} else if ref == timeLimit {
		p.Line, p.Column = slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "timeout:") })+1, 1
	}
	if p.Line == 0 {
		return nil
	}
	if p.Line >= 1 && p.Line <= len(lines) {
		p.Text = strings.TrimRight(lines[p.Line-1], "\r")
	}
	return p
}

// compareResult compares how the execution ended.
func (rp *replay) compareResult() {
	w := rp.executions[rp.header.ID]
	if w == nil || !rp.finished() && rp.result.Stop != sim.Never {
		return
	}
	was, now := rp.recordedResult(), w.result()
	if was.Status != now.Status {
		replayed := fmt.Sprintf("it is %s", now.Status)
		if awaits := w.state.Awaits(nil); len(awaits) > 0 {
			replayed += ": " + strings.Join(awaits, "; ")
		}
		rp.resultDiffers(fmt.Sprintf("the result says that the execution is %s", was.Status), replayed, nil)
		return
	}
	if where := rp.comparison().between(was.Output, now.Output); where != nil {
		rp.resultDiffers("the result has the output "+history.Excerpt(was.Output), "the output is "+history.Excerpt(now.Output), prefixed(".output", where))
		return
	}
	if where := (comparison{}).between(event.Encode(was.Error), event.Encode(now.Error)); where != nil {
		rp.resultDiffers("the result has the error "+history.Excerpt(event.Encode(was.Error)), "the error is "+history.Excerpt(event.Encode(now.Error)), prefixed(".error", where))
		return
	}
	now.Effects = was.Effects
	// The hash of an export covers the tokens of secrets, that of a run the secrets
	// themselves.
	if rp.marked && (rp.sealed || rp.fromHistory()) || rp.result.Outcome == sim.OutcomeOf(was) || rp.result.Outcome == sim.OutcomeOf(now) {
		return
	}
	rp.resultDiffers("the hash of the outcome is "+history.Cut(rp.result.Outcome), "it is "+sim.OutcomeOf(now)+": the result was changed after it was recorded", nil)
}

func prefixed(path string, where *canonical.Difference) *canonical.Difference {
	where.Path = path + where.Path
	return where
}

func (rp *replay) resultDiffers(recorded, replayed string, where *canonical.Difference) {
	rp.differs(&Difference{What: "result", Recorded: recorded, Replayed: replayed}, where)
	rp.diff.Event, rp.diff.Line = 0, rp.lastLine()
}

// lastLine returns the line after the last event.
func (rp *replay) lastLine() int { return rp.entries[len(rp.entries)-1].line + 1 }

// recordedResult returns the recorded result in the form in which it was hashed.
func (rp *replay) recordedResult() *sim.Result {
	r := &sim.Result{Status: decide.Status(rp.result.Status), Error: rp.result.Error, Effects: rp.result.Effects}
	if len(rp.result.Output) > 0 {
		r.Output = canonical.Encode(canonical.DecodeOrText(rp.result.Output))
	}
	return r
}

// checkOrder compares the order of the events with its hash.
func (rp *replay) checkOrder() {
	switch {
	case rp.loose:
		rp.reordered(fmt.Sprintf("independent branches continue in a different order, first at event %d (line %d)", rp.differ+1, rp.entries[rp.differ].line))
	case rp.ordered() == OtherOrder:
		rp.reordered("the events in this file are not in the order in which they were recorded, or one without consequences was changed (their hash differs)")
	}
}

// reordered reports a difference if the order must be the same, otherwise a note.
func (rp *replay) reordered(text string) {
	if !rp.by.opts.StrictOrder {
		rp.notes = append(rp.notes, text)
		return
	}
	if rp.loose {
		rp.at = rp.differ
	}
	rp.differs(&Difference{What: "order", Recorded: "the recorded order of the events", Replayed: text}, nil)
	if !rp.loose {
		rp.diff.Event, rp.diff.Line = 0, rp.lastLine()
	}
}

// ordered compares the hash of the events with the recorded one.
func (rp *replay) ordered() string {
	switch {
	case rp.result == nil || rp.marked && !rp.fromHistory() && rp.sealed:
		return UnknownOrder
	case rp.Recording.order == rp.result.Order:
		return SameOrder
	default:
		return OtherOrder
	}
}
