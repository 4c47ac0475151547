package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/library"
	"flunq.io/flunq/engine/store"
)

// pageOf gathers all that is known of an execution.
func pageOf(ctx context.Context, r *remote, x store.Execution) (p executionPage, err error) {
	now, err := r.store.Now(ctx)
	if err != nil {
		return p, err
	}
	p = executionPage{Output: x.Output, Tasks: []openTask{}, Timers: []timerRow{}, WaitsFor: []string{}, Children: []executionRow{}}
	for _, read := range []func(context.Context, *remote, store.Execution, time.Time) error{
		p.readRow, p.readInput, p.readSource, p.readChildren, p.readOpen,
	} {
		if err := read(ctx, r, x, now); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *executionPage) readRow(ctx context.Context, r *remote, x store.Execution, now time.Time) error {
	found, err := rows(ctx, r, []store.Execution{x}, now)
	if err != nil {
		return err
	}
	p.executionRow = found[0]
	p.Error, err = problemOf(x)
	return err
}

// readInput reads what the execution began with.
func (p *executionPage) readInput(ctx context.Context, r *remote, x store.Execution, _ time.Time) error {
	first, err := r.store.History(ctx, x.Tenant, x.ID, 0, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	var started event.Started
	if decide.DecodeData(first[0], &started) == nil {
		p.Input = started.Input
		if started.Version != "" && started.Version != "latest" {
			p.WorkflowVersion = started.Version
		}
	}
	return nil
}

// readSource reads the document, and where in it the error came from.
func (p *executionPage) readSource(ctx context.Context, r *remote, x store.Execution, _ time.Time) (err error) {
	if p.source, err = documentOf(ctx, r, x); err != nil || p.Error == nil {
		return err
	}
	at, ok := p.source.place(p.Error.Instance)
	if text, found := p.source.line(at.Line); ok && found {
		p.ErrorAt = &linePlace{Line: at.Line, Column: at.Column, Text: text}
	}
	return nil
}

// readChildren finds the executions that it has run: they are numbered.
func (p *executionPage) readChildren(ctx context.Context, r *remote, x store.Execution, now time.Time) error {
	found, err := childrenOf(ctx, r, x)
	if err != nil || len(found) == 0 {
		return err
	}
	p.Children, err = rows(ctx, r, found, now)
	return err
}

// Children are looked for so many at once, and shown up to so many.
const (
	childrenAtOnce = 50
	mostChildren   = 1000
)

// childrenOf are the executions that one has run, in their order.
func childrenOf(ctx context.Context, r *remote, x store.Execution) ([]store.Execution, error) {
	var out []store.Execution
	for len(out) < mostChildren {
		ids := make([]string, childrenAtOnce)
		for i := range ids {
			ids[i] = x.ID + "." + strconv.Itoa(len(out)+i+1)
		}
		found, err := r.store.Outlines(ctx, x.Tenant, ids...)
		if err != nil {
			return nil, err
		}
		known := slices.IndexFunc(found, func(child store.Execution) bool { return child.Status == "" })
		if known >= 0 {
			return append(out, found[:known]...), nil
		}
		out = append(out, found...)
	}
	return out, nil
}

// readOpen works out what goes on: from the state, or where that cannot be
// rebuilt (it may follow from secrets, which are not known here), from the history.
func (p *executionPage) readOpen(ctx context.Context, r *remote, x store.Execution, now time.Time) error {
	if ended(x.Status) || x.Version == 0 {
		return nil
	}
	var timers []event.Timer
	state, err := stateOf(ctx, r, x)
	switch {
	case err == nil:
		timers = p.takeState(state, now)
	case store.Temporary(err):
		return err
	default:
		p.Problem = fmt.Sprintf("its state cannot be worked out here (%v); tasks and timers are those that the history leaves open", err)
		trail := newTrail()
		if err := eachPage(ctx, r, x, 0, trail.take); err != nil {
			return err
		}
		timers = trail.timers
		for _, t := range trail.tasks {
			t.ForMS = now.Sub(t.Since).Milliseconds()
			p.Tasks = append(p.Tasks, t)
		}
	}
	set, err := r.store.Armed(ctx, timers)
	for _, one := range set {
		p.Timers = append(p.Timers, timerRowOf(one, now))
	}
	slices.SortStableFunc(p.Timers, func(a, b timerRow) int { return a.Due.Compare(b.Due) })
	return err
}

// takeState takes over what a state says, and which timers it has.
func (p *executionPage) takeState(state *decide.State, now time.Time) (timers []event.Timer) {
	if state.Timeout != nil {
		timers = append(timers, *state.Timeout)
	}
	for _, n := range state.Open() {
		p.Tasks = append(p.Tasks, openTask{
			Task: n.Run.String(), Name: n.Task().Name, Type: string(n.Task().Kind), Since: n.StartedAt.UTC(),
			ForMS: now.Sub(n.StartedAt).Milliseconds(), Iteration: n.Run.Iteration, Attempt: n.Run.Attempt,
		})
		timers = append(timers, n.Timers...)
	}
	p.WaitsFor = append(p.WaitsFor, state.Awaits()...)
	return timers
}

// stateOf rebuilds the state of an execution from its snapshot and the history since.
func stateOf(ctx context.Context, r *remote, x store.Execution) (*decide.State, error) {
	lib := library.New(r.store, decide.Options{Version: version().Version})
	env, err := lib.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	if err != nil {
		return nil, err
	}
	state := decide.New()
	if len(x.State) > 0 {
		if state, err = decide.Restore(env, x.State); err != nil {
			return nil, err
		}
	}
	err = eachPage(ctx, r, x, state.Version, func(events []event.Event) error { return state.Replay(env, events) })
	return state, err
}

// eachPage reads the history of an execution up to the version that is known.
func eachPage(ctx context.Context, r *remote, x store.Execution, after int64, take func([]event.Event) error) error {
	for after < x.Version {
		events, err := r.store.History(ctx, x.Tenant, x.ID, after, int(min(historyPage, x.Version-after)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("history of execution %s ends at version %d, want %d", x.ID, after, x.Version)
		}
		if err := take(events); err != nil {
			return err
		}
		after += int64(len(events))
	}
	return nil
}

// historyPage is how much of a history is read at once.
const historyPage = 1000

// trail is what a history leaves open.
type trail struct {
	tasks  []openTask
	timers []event.Timer
}

func newTrail() *trail { return &trail{} }

// take follows more of the history.
func (t *trail) take(events []event.Event) error {
	for _, e := range events {
		switch e.Type {
		case event.TaskRequested:
			var asked event.Requested
			if json.Unmarshal(e.Data, &asked) == nil {
				run := event.ParseRun(e.Task)
				t.tasks = append(t.tasks, openTask{
					Task: e.Task, Name: asked.TaskName, Type: asked.TaskType, Since: e.Time,
					Iteration: run.Iteration, Attempt: run.Attempt,
				})
			}
		case event.TaskCompleted:
			t.tasks = slices.DeleteFunc(t.tasks, func(open openTask) bool { return open.Task == e.Task })
		case event.TimerScheduled:
			var set event.Timer
			if json.Unmarshal(e.Data, &set) == nil {
				t.timers = append(t.timers, set)
			}
		case event.TimerCancelled, event.TimerFired:
			t.drop(e)
		default:
		}
	}
	return nil
}

// drop forgets a timer that has fired or was taken back.
func (t *trail) drop(e event.Event) {
	var gone event.Timer
	if json.Unmarshal(e.Data, &gone) != nil {
		return
	}
	t.timers = slices.DeleteFunc(t.timers, func(set event.Timer) bool {
		return set.TaskID == gone.TaskID && set.Kind == gone.Kind && set.Key == gone.Key && set.FireAt.Equal(gone.FireAt)
	})
}
