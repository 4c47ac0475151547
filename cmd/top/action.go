package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/tui"
)

// plannedAction is an action on one item.
type plannedAction struct {
	id      string
	line    string // describes the consequences
	warning string // of a loss; "" if there is none
	guard   string // why it needs force; "" if it does not

	// do performs it, and reports whether the item still existed: another operator may have been faster.
	do   func(ctx context.Context) (done bool, err error)
	said string // describes the result
}

// prepared is a checked action.
type prepared struct {
	head    string // the action and the number of items
	done    string // the verb in the past tense
	what    string // an item, in the singular
	actions []plannedAction
	refused []error // why the action is not possible on other items
	notes   []string
}

// each plans an action on each item. An error that may pass ends it; any other one is a reason why the
// action is not possible on an item.
func (p *prepared) each(ids []string, plan func(id string) (plannedAction, error)) error {
	for _, id := range ids {
		d, err := plan(id)
		switch {
		case err == nil:
			p.actions = append(p.actions, d)
		case store.Temporary(err):
			return err
		default:
			p.refused = append(p.refused, err)
		}
	}
	return nil
}

// prepare checks an action and changes nothing. It returns an error if the action is not possible on
// any item.
func (l *Live) prepare(ctx context.Context, a tui.Action) (*prepared, error) {
	p, err := l.check(ctx, a)
	if err == nil && len(p.actions) == 0 {
		refused := p.refused
		if n := len(refused); n > maxLines {
			refused = append(slices.Clone(refused[:maxLines]), fmt.Errorf("and %s more", history.Number(n-maxLines)))
		}
		err = errors.Join(refused...)
	}
	return p, lost(ctx, err)
}

func (l *Live) check(ctx context.Context, a tui.Action) (*prepared, error) {
	switch {
	case a.Verb == tui.Emit:
		return l.prepareEmit(ctx, a)
	case a.Verb == tui.Record:
		return l.prepareRecord(ctx, a)
	case len(a.IDs) == 0:
		return nil, fmt.Errorf("%s: nothing selected", a.Verb)
	case a.Table == tui.Timers && (a.Verb == tui.Fire || a.Verb == tui.Cancel || a.Verb == tui.Reschedule):
		return l.prepareTimers(ctx, a)
	case a.Table == tui.DeadLetters && (a.Verb == tui.Replay || a.Verb == tui.Drop):
		return l.prepareDeadLetters(ctx, a)
	case a.Table == tui.Executions && (a.Verb == tui.Cancel || a.Verb == tui.Suspend || a.Verb == tui.Resume || a.Verb == tui.Retry):
		return l.prepareSignals(ctx, a)
	default:
		return nil, fmt.Errorf("%s is not possible in this table", a.Verb)
	}
}

// irreversible is the warning about actions that lose something for good.
const irreversible = "This cannot be undone."

// maxLines is how many items a plan lists.
const maxLines = 10

// Plan describes what an action would do and changes nothing. It returns an error if the
// action is not possible on any item.
func (l *Live) Plan(ctx context.Context, a tui.Action) (tui.Plan, error) {
	p, err := l.prepare(ctx, a)
	if err != nil {
		return tui.Plan{}, err
	}
	plan := tui.Plan{Lines: []string{p.head}}
	add := func(n, all int, text string) {
		switch {
		case n < maxLines:
			plan.Lines = append(plan.Lines, text)
		case n == maxLines:
			plan.Lines = append(plan.Lines, fmt.Sprintf("and %s more", history.Number(all-n)))
		}
	}
	for i, d := range p.actions {
		if plan.Warning != irreversible {
			plan.Warning = cmp.Or(d.warning, plan.Warning)
		}
		add(i, len(p.actions), d.line)
	}
	for i, err := range p.refused {
		add(i, len(p.refused), "not: "+err.Error())
	}
	plan.Lines = append(plan.Lines, p.notes...)
	return plan, nil
}

// Do performs an action and describes the result.
func (l *Live) Do(ctx context.Context, a tui.Action) (string, error) {
	p, err := l.prepare(ctx, a)
	if err != nil {
		return "", err
	}
	for _, d := range p.actions {
		if d.guard != "" && !a.Force {
			return "", errors.New(d.guard)
		}
	}
	var last string
	done, gone := 0, 0
	for _, d := range p.actions {
		switch ok, err := d.do(ctx); {
		case err != nil:
			return p.sum(last, done, gone), lost(ctx, err)
		case ok:
			last = d.said
			done++
		default:
			gone++
		}
	}
	if done == 0 {
		return "", fmt.Errorf("%s: %w any more: another operator has changed it meanwhile", p.actions[0].id, store.ErrNotFound)
	}
	return p.sum(last, done, gone), nil
}

// sum describes the result: in full for one item, as a count for several.
func (p *prepared) sum(last string, done, gone int) string {
	if done == 0 {
		return ""
	}
	text := last
	if len(p.actions) > 1 {
		text = fmt.Sprintf("%s %s", p.done, history.Count(done, p.what))
	}
	if gone > 0 {
		text += fmt.Sprintf("; %d no longer exist", gone)
	}
	if len(p.refused) > 0 {
		text += fmt.Sprintf("; %d refused", len(p.refused))
	}
	return text
}
