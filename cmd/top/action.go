package top

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/tui"
)

// plannedAction is an action on one thing: what it will do, and how it is done.
type plannedAction struct {
	id     string
	line   string
	danger bool   // something is lost for good
	guard  string // why it needs force; "" if it does not

	// do carries it out and describes the result; "" if the thing is gone.
	do func(ctx context.Context) (said string, err error)
}

// prepared is an action that was checked but not carried out.
type prepared struct {
	head    string // what will be done, and to how many
	done    string // the verb in the past tense
	what    string // the singular of the things
	actions []plannedAction
	refused []error // things that refuse the action
	notes   []string
}

// prepare checks an action.
func (l *Live) prepare(ctx context.Context, a tui.Action) (p prepared, err error) {
	switch {
	case a.Verb == tui.Emit:
		return l.prepareEmit(ctx, a)
	case a.Verb == tui.Record:
		return l.prepareRecord(ctx, a)
	case len(a.IDs) == 0:
		return p, fmt.Errorf("%s: nothing was chosen", a.Verb)
	case a.Table == tui.Timers && (a.Verb == tui.Fire || a.Verb == tui.Cancel || a.Verb == tui.Reschedule):
		return l.prepareTimers(ctx, a)
	case a.Table == tui.DeadLetters && (a.Verb == tui.Replay || a.Verb == tui.Drop):
		return l.prepareDeadLetters(ctx, a)
	case a.Table == tui.Executions && (a.Verb == tui.Cancel || a.Verb == tui.Suspend || a.Verb == tui.Resume || a.Verb == tui.Retry):
		return l.prepareSignals(ctx, a)
	default:
		return p, fmt.Errorf("%s cannot be done to what is listed here", a.Verb)
	}
}

// mostLines is how many things a plan lists one by one.
const mostLines = 10

// Plan describes what an action will do, and changes nothing. It returns an error if nothing can be
// done.
func (l *Live) Plan(ctx context.Context, a tui.Action) (tui.Plan, error) {
	p, err := l.prepare(ctx, a)
	if err == nil && len(p.actions) == 0 {
		err = errors.Join(p.refused[:min(len(p.refused), mostLines)]...)
	}
	if err != nil {
		return tui.Plan{}, lost(ctx, err)
	}
	plan := tui.Plan{Lines: []string{p.head}}
	add := func(n, all int, text string) {
		switch {
		case n < mostLines:
			plan.Lines = append(plan.Lines, text)
		case n == mostLines:
			plan.Lines = append(plan.Lines, fmt.Sprintf("and %s more", history.Number(all-n)))
		}
	}
	for i, d := range p.actions {
		plan.Danger = plan.Danger || d.danger || d.guard != ""
		add(i, len(p.actions), d.line)
	}
	for i, err := range p.refused {
		add(i, len(p.refused), "not: "+err.Error())
	}
	plan.Lines = append(plan.Lines, p.notes...)
	return plan, nil
}

// Do carries an action out and describes the result.
func (l *Live) Do(ctx context.Context, a tui.Action) (string, error) {
	p, err := l.prepare(ctx, a)
	if err == nil && len(p.actions) == 0 {
		err = errors.Join(p.refused[:min(len(p.refused), mostLines)]...)
	}
	if err != nil {
		return "", lost(ctx, err)
	}
	for _, d := range p.actions {
		if d.guard != "" && !a.Force {
			return "", errors.New(d.guard)
		}
	}
	var last string
	done, gone := 0, 0
	for _, d := range p.actions {
		said, err := d.do(ctx)
		switch {
		case err != nil:
			return p.sum(last, done, gone), lost(ctx, err)
		case said == "":
			gone++
		default:
			last = said
			done++
		}
	}
	if done == 0 {
		return "", fmt.Errorf("%s: %w any more: another operator has changed it meanwhile", p.actions[0].id, store.ErrNotFound)
	}
	return p.sum(last, done, gone), nil
}

// sum describes the result: in full for one thing, as a count for several.
func (p prepared) sum(last string, done, gone int) string {
	if done == 0 {
		return ""
	}
	text := last
	if len(p.actions) > 1 {
		text = fmt.Sprintf("%s %s", p.done, history.Count(done, p.what))
	}
	if gone > 0 {
		text += fmt.Sprintf("; %d were gone", gone)
	}
	if len(p.refused) > 0 {
		text += fmt.Sprintf("; %d could not be", len(p.refused))
	}
	return text
}
