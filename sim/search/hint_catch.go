package search

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

// catchHint reports a catch that can never catch anything.
func (h *hints) catchHint(t *dsl.Task) []Hint {
	if t.Kind != dsl.Try {
		return nil
	}
	why := neverCaught(t)
	if why == "" {
		return nil
	}
	return []Hint{{"catch", t, fmt.Sprintf("its catch can never catch anything: %s (it caught nothing in %s)", why, runsText(h.report.Runs()))}}
}

// possibleErrors are the errors that can occur inside some tasks.
type possibleErrors struct {
	calls    bool            // calls or child workflows
	timeouts bool            // some task, or an attempt at all of them, has a timeout
	computed bool            // a raised error has a computed type
	raised   map[string]bool // raised types, in their short form if possible
	any      bool            // some task can fail at all
}

// add adds the errors of tasks and of the tasks inside them.
func (p *possibleErrors) add(tasks dsl.TaskList) {
	for _, t := range tasks {
		p.timeouts = p.timeouts || t.Timeout != nil || t.Kind == dsl.Try && t.Try.Catch.Retry.Timed()
		switch t.Kind {
		case dsl.Call, dsl.Run:
			p.calls = true
		case dsl.Raise:
			p.raise(t.Raise)
		default:
		}
		if _, ok := invariant.LiteralDuration(t.Wait); t.Kind != dsl.Wait || !ok {
			p.any = true
		}
		for _, list := range t.Lists() {
			p.add(list)
		}
	}
}

func (p *possibleErrors) raise(e *dsl.ErrorTemplate) {
	data, ok := e.Type.Constant()
	name, text := data.(string)
	if !ok || !text {
		p.computed = true
		return
	}
	p.raised[event.ShortType(name)] = true
}

// neverCaught explains why the catch of a task catches nothing; "" if it may catch
// something.
func neverCaught(t *dsl.Task) string {
	retry := t.Try.Catch.Retry
	x := possibleErrors{raised: map[string]bool{}, timeouts: retry != nil && retry.AttemptDuration != nil}
	x.add(t.Try.Try)
	with := t.Try.Catch.With
	name, typed := with["type"].(string)
	short := event.ShortType(name)
	switch {
	case !x.any && !x.timeouts:
		return "nothing inside can fail"
	case !typed || x.computed || x.raised[short]:
		return ""
	}
	usual := event.NewProblem(short, "").Status
	switch short {
	case event.Communication, event.Authentication, event.Authorization:
		if !x.calls {
			return "nothing inside makes a call, so there is no " + short + " error"
		}
	case event.Timeout:
		if !x.calls && !x.timeouts {
			return "no task inside has a timeout"
		}
	default:
		if usual == 0 && !x.calls {
			return "nothing inside raises an error of type " + name
		}
		if usual == 0 && !runs(t.Try.Try) {
			return "nothing inside raises an error of type " + name + ", and a failed call has another type"
		}
	}
	return badStatus(with["status"], short, usual)
}

// badStatus explains why an error of a standard type never has the wanted status; "" if
// it may.
func badStatus(wanted any, short string, usual int) string {
	const redirect = 300
	status, ok := wanted.(int)
	switch {
	case !ok || usual == 0 || status == usual:
		return ""
	case short == event.Communication && status < redirect:
		return fmt.Sprintf("a call that is answered with status %d has not failed", status)
	case short == event.Communication:
		return ""
	default:
		return fmt.Sprintf("an error of type %s has status %d, never %d", short, usual, status)
	}
}

// runs reports whether a task runs a child workflow, whose errors are unknown here.
func runs(tasks dsl.TaskList) bool {
	for _, t := range tasks {
		if t.Kind == dsl.Run {
			return true
		}
		if slices.ContainsFunc(t.Lists(), runs) {
			return true
		}
	}
	return false
}
