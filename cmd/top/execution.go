package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// fewChildren is the maximum number of child executions to read.
const fewChildren = 200

// Execution returns an execution without its history.
func (l *Live) Execution(ctx context.Context, id string) (out tui.Execution, err error) {
	defer func() { err = lost(ctx, err) }()
	x, err := l.store.Execution(ctx, l.opts.Tenant, id)
	if err != nil {
		return out, err
	}
	out.Row, out.Version = executionRow(x), x.Version
	if out.Document, err = l.document(ctx, x); err != nil {
		return out, err
	}
	if err := l.input(ctx, x, &out); err != nil {
		return out, err
	}
	children, err := actions.Children(ctx, l.store, x, fewChildren)
	if err != nil {
		return out, err
	}
	for _, child := range children {
		out.Children = append(out.Children, executionRow(child))
	}
	if !examine.Ended(x.Status) && x.Version > 0 {
		err = l.open(ctx, x, &out)
	}
	return out, err
}

// input adds the input, the output and the facts.
func (l *Live) input(ctx context.Context, x store.Execution, out *tui.Execution) error {
	started, err := actions.Started(ctx, l.store, x.Tenant, x.ID)
	if err != nil {
		return err
	}
	if started != nil {
		out.Data = append(out.Data, describe.Data("input", started.Input)...)
	}
	out.Data = append(append(out.Data, describe.Data("output", x.Output)...), describe.Data("error", x.Error)...)
	problem, err := actions.Problem(x)
	if err != nil {
		out.Problem = err.Error()
	}
	document := ""
	if out.Document != nil {
		document = out.Document.Name
	}
	if problem != nil {
		out.Note = problem.Error()
	}
	out.Facts = describe.Facts(
		[2]string{"tenant", x.Tenant},
		[2]string{"document", strings.TrimSpace(document + " " + x.Definition[:min(8, len(x.Definition))])},
		[2]string{"created", describe.Instant(x.CreatedAt)},
		[2]string{"ended", describe.Instant(x.EndedAt)},
		[2]string{"events", strconv.FormatInt(x.Version, 10)},
		[2]string{"parent", strings.TrimSpace(x.Parent + " " + x.ParentTask)},
		[2]string{"error", describe.Problem(problem, out.Document)},
	)
	return nil
}

// open adds what is open: from the state, or from the history if the state cannot be
// rebuilt, because it may depend on secrets, which are unknown here.
func (l *Live) open(ctx context.Context, x store.Execution, out *tui.Execution) error {
	now, err := l.store.NowOf(ctx, l.opts.Tenant)
	if err != nil {
		return err
	}
	state, problem := examine.State(ctx, l.store, l.definitions, x)
	switch {
	case problem == nil:
		out.Waits = state.Awaits(nil)
		return l.outlook(ctx, x, now, out)
	case store.Temporary(problem):
		return problem
	}
	out.Problem = cmp.Or(out.Problem, fmt.Sprintf("its state cannot be rebuilt here (%v); timers are taken from the history", problem))
	var left decide.Leftovers
	err = l.store.EachPage(ctx, x, 0, func(events []event.Event) error {
		left.Add(events)
		return nil
	})
	if err != nil {
		return err
	}
	set, err := timers.New(l.store).Armed(ctx, left.Timers)
	for _, p := range set {
		if p.ID != "" {
			out.Timers = append(out.Timers, timerRow(p, now))
		}
	}
	slices.SortStableFunc(out.Timers, func(a, b tui.Row) int { return a.At.Compare(b.At) })
	return err
}

// outlook adds the pending timers, and the waits that will never end or lack something.
func (l *Live) outlook(ctx context.Context, x store.Execution, now time.Time, out *tui.Execution) error {
	found, err := l.examiner.Examine(ctx, x.Tenant, []store.Execution{x})
	if err != nil {
		return err
	}
	o := found[x.ID]
	for _, needed := range o.Timers {
		switch {
		case needed.ID != "":
			out.Timers = append(out.Timers, timerRow(needed.Pending, now))
		case needed.CancelledBy != "" && needed.Kind == event.TimeoutTimer:
			out.Waits = append(out.Waits, fmt.Sprintf("%s has cancelled the timeout of %s", needed.CancelledBy, cmp.Or(needed.TaskID, "the workflow")))
		}
	}
	inputs, err := timers.New(l.store).Inputs(ctx, x.Tenant, x.ID)
	if err != nil {
		return err
	}
	for _, one := range inputs {
		out.Timers = append(out.Timers, timerRow(one, now))
	}
	for _, line := range o.Stuck {
		out.Waits = append(out.Waits, "never ends: "+line)
	}
	if !o.Missing.Empty() {
		out.Waits = append(out.Waits, "'flunq timers restore "+x.ID+"' restores what is missing")
	}
	return nil
}

// latestEvents is how many recent events Activities reads for each execution.
const latestEvents = 24

// Activities returns the open tasks of executions, judging by the ends of their histories.
func (l *Live) Activities(ctx context.Context, ids []string) ([]tui.Activity, error) {
	problems, err := inspect.New(l.store).Problems(ctx, l.opts.Tenant, ids...)
	if err != nil {
		return nil, lost(ctx, err)
	}
	latest, err := inspect.New(l.store).Latest(ctx, l.opts.Tenant, latestEvents, ids...)
	if err != nil {
		return nil, lost(ctx, err)
	}
	known, err := l.store.Outlines(ctx, l.opts.Tenant, ids...)
	if err != nil {
		return nil, lost(ctx, err)
	}
	outlooks, err := l.examiner.Examine(ctx, l.opts.Tenant, known)
	if err != nil {
		return nil, lost(ctx, err)
	}
	out := make([]tui.Activity, len(ids))
	for i, id := range ids {
		out[i] = tui.Activity{Open: describe.Open(latest[i]), Note: problems[i]}
		if stuck := outlooks[id].Stuck; len(stuck) > 0 {
			out[i].Note = "stuck: " + strings.Join(stuck, "; ")
		}
	}
	return out, nil
}

// document returns the document that an execution runs, nil if it is unknown. If this version of flunq
// cannot parse it, it has no tasks.
func (l *Live) document(ctx context.Context, x store.Execution) (*tui.Document, error) {
	if x.Definition == "" {
		return nil, nil
	}
	if env, err := l.definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition); err == nil {
		return describe.Document(env.Definition()), nil
	}
	text, err := actions.DocumentText(ctx, l.store, x)
	if err != nil || text == "" {
		return nil, err
	}
	return &tui.Document{Name: x.Workflow, Text: text}, nil
}

// historyPage is the maximum number of events that History returns.
const historyPage = 500

// History returns the first events of an execution after a version.
func (l *Live) History(ctx context.Context, id string, after int64) ([]tui.Event, error) {
	events, err := l.store.History(ctx, l.opts.Tenant, id, after, historyPage)
	if err != nil {
		return nil, lost(ctx, err)
	}
	out := make([]tui.Event, 0, len(events))
	for i, e := range events {
		out = append(out, describe.Event(after+int64(i)+1, e))
	}
	return out, nil
}

// Data returns the JSON data of an event in a history.
func (l *Live) Data(ctx context.Context, id string, version int64) (string, error) {
	events, err := l.store.History(ctx, l.opts.Tenant, id, version-1, 1)
	if err != nil {
		return "", lost(ctx, err)
	}
	if len(events) == 0 {
		return "", fmt.Errorf("event %d of execution %s: %w", version, id, store.ErrNotFound)
	}
	return string(events[0].Data), nil
}
