package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// pageOf reads everything that show prints.
func pageOf(ctx context.Context, sh *cli.Shell, r *cli.Remote, x store.Execution) (p executionPage, err error) {
	now, err := r.Store.NowOf(ctx, r.Tenant)
	if err != nil {
		return p, err
	}
	p.Output = x.Output
	if p.settings, err = cli.ReadSettings(sh); err != nil {
		p.settings = cli.DefaultSettings() // invalid settings of services do not concern this command
	}
	for _, read := range []func(context.Context, *cli.Remote, store.Execution, time.Time) error{
		p.readRow, p.readInput, p.readSource, p.readChildren, p.readPostponed, p.readOpen,
	} {
		if err := read(ctx, r, x, now); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *executionPage) readRow(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	found, err := rows(ctx, r, []store.Execution{x}, now)
	if err != nil {
		return err
	}
	p.executionRow = found[0]
	p.Error, err = actions.Problem(x)
	return err
}

// readInput reads the input that the execution began with.
func (p *executionPage) readInput(ctx context.Context, r *cli.Remote, x store.Execution, _ time.Time) error {
	started, err := actions.Started(ctx, r.Store, x.Tenant, x.ID)
	if err != nil || started == nil {
		return err
	}
	p.Input, p.Reset = started.Input, started.Reset
	if started.Version != "" && started.Version != "latest" {
		p.WorkflowVersion = started.Version
	}
	return nil
}

// readSource reads the document and finds the position where the error occurred.
func (p *executionPage) readSource(ctx context.Context, r *cli.Remote, x store.Execution, _ time.Time) (err error) {
	if p.source, err = cli.DocumentOf(ctx, r, x); err != nil {
		return err
	}
	if p.source.Def != nil {
		p.WorkflowVersion = p.source.Def.Document.Version // it may have been migrated
	}
	if p.Error == nil {
		return nil
	}
	at, ok := p.source.TaskOf(p.Error)
	if text, found := p.source.Line(at.Line); ok && found {
		p.ErrorAt = &linePlace{Line: at.Line, Column: at.Column, Text: text}
	}
	return nil
}

// readChildren reads the child executions.
func (p *executionPage) readChildren(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	found, err := actions.Children(ctx, r.Store, x, actions.MaxChildren)
	if err != nil || len(found) == 0 {
		return err
	}
	p.Children, err = rows(ctx, r, found, now)
	return err
}

// readPostponed reads the events that could not be handled and are delivered again.
func (p *executionPage) readPostponed(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	if examine.Ended(x.Status) {
		return nil
	}
	found, err := timers.New(r.Store).Postponed(ctx, x.Tenant, x.ID, now)
	for _, one := range found {
		p.Timers = append(p.Timers, timerRowOf(one, now))
	}
	return err
}

// readOpen determines what is open: from the state, or from the history if the state cannot
// be rebuilt, because it may depend on secrets, which are unknown here.
func (p *executionPage) readOpen(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	if examine.Ended(x.Status) || x.Version == 0 {
		return nil
	}
	state, err := examine.State(ctx, r.Store, r.Definitions, x)
	switch {
	case err == nil:
		requests, err := p.readRequests(ctx, r, x, state)
		if err != nil {
			return err
		}
		p.takeState(state, requests, now)
		return errors.Join(p.readOutlook(ctx, r, x, now), p.readInputs(ctx, r, x, now))
	case store.Temporary(err):
		return err
	default:
		p.Problem = fmt.Sprintf("its state cannot be rebuilt here (%v); tasks and timers are taken from the history", err)
		return errors.Join(p.readHistory(ctx, r, x, now), p.readInputs(ctx, r, x, now))
	}
}

// readRequests describes, by task, the progress of requests that have no result yet.
func (p *executionPage) readRequests(ctx context.Context, r *cli.Remote, x store.Execution, state *decide.State) (map[string]string, error) {
	if !state.Requested() {
		return nil, nil
	}
	found, err := inspect.New(r.Store).Requests(ctx, x.Tenant, p.settings.Executor.Group, x.ID)
	if err != nil {
		return nil, err
	}
	running, now, err := processes.In(r.Store).All(ctx)
	if store.Down(r.Store, err) { // otherwise only the master of a cluster that knows them is down
		return nil, err
	}
	lease := time.Duration(0) // the shortest of the executors that run: any of them claims after its own
	for i := range running {
		if e := &running[i]; e.Alive(now) && e.LeaseMS > 0 && e.Runs("executor", x.Tenant) {
			own := time.Duration(e.LeaseMS) * time.Millisecond
			lease = min(cmp.Or(lease, own), own)
		}
	}
	lease = cmp.Or(lease, p.settings.Lease)
	out := map[string]string{}
	for _, n := range state.Open() {
		task := n.Run.String()
		taken, read := found.Taken[task]
		switch {
		case read && taken.Idle < lease:
			out[task] = "was taken by the consumer " + taken.Consumer + " and has no result yet"
		case read && taken.Idle < stream.ReleasedIdle:
			out[task] = fmt.Sprintf("was taken by the consumer %s, which has been silent for %s; any other one may claim it",
				taken.Consumer, history.Duration(taken.Idle.Round(time.Second)))
			p.unserved = true
		case read, found.Unread[task], n.StartedAt.After(found.Delivered.Add(time.Millisecond)):
			out[task] = "waits for an executor"
			if found.Lag > 1 {
				out[task] += fmt.Sprintf(" (%s unread)", history.Count(int(found.Lag), "event"))
			}
			p.unserved = true
		case slices.ContainsFunc(p.Timers, func(t timerRow) bool { return t.Kind == event.DeliveryTimer && t.Task == task }):
			out[task] = "has an event that could not be handled and is delivered again"
		}
	}
	return out, nil
}

// readInputs adds the pending inputs, and sorts all timers.
func (p *executionPage) readInputs(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	found, err := timers.New(r.Store).Inputs(ctx, x.Tenant, x.ID)
	for _, one := range found {
		p.Timers = append(p.Timers, timerRowOf(one, now))
	}
	slices.SortStableFunc(p.Timers, func(a, b timerRow) int { return a.Due.Compare(b.Due) })
	return err
}

// readHistory adds the tasks and the timers that are open at the end of a history.
func (p *executionPage) readHistory(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	var left decide.Leftovers
	runs := history.NewExecution()
	if err := r.Store.EachPage(ctx, x, 0, func(events []event.Event) error {
		left.Add(events)
		for _, e := range events {
			runs.Add(history.Read(runs.Version+1, e))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, t := range runs.Open() {
		p.Tasks = append(p.Tasks, openTask{
			Task: t.String(), Name: t.Name, Type: t.Kind, Since: t.Began.At, ForMS: now.Sub(t.Began.At).Milliseconds(),
			Iteration: history.Index(t.Iteration), Attempt: history.Attempts(t.Attempt),
		})
	}
	busy, unsure := inspect.New(r.Store).InFlight(ctx, x.Tenant)
	set, err := timers.New(r.Store).Armed(ctx, left.Timers)
	for _, one := range set {
		needed := examine.Needed{Pending: one, Missing: one.ID == "" && unsure == nil && !busy[x.ID]}
		p.Timers = append(p.Timers, neededRow(needed, now))
	}
	return err
}

// readOutlook adds the timers that the execution needs and the tasks that nothing will end.
func (p *executionPage) readOutlook(ctx context.Context, r *cli.Remote, x store.Execution, now time.Time) error {
	found, err := r.Examiner.Examine(ctx, x.Tenant, []store.Execution{x})
	outlook := found[x.ID]
	for _, needed := range outlook.Timers {
		p.Timers = append(p.Timers, neededRow(needed, now))
	}
	p.Stuck = outlook.Stuck
	p.restorable = !outlook.Missing.Empty()
	return err
}

// takeState adds the open tasks of a state and what they wait for.
func (p *executionPage) takeState(state *decide.State, requests map[string]string, now time.Time) {
	for _, n := range state.Open() {
		p.Tasks = append(p.Tasks, openTask{
			Task: n.Run.String(), Name: n.Task().Name, Type: string(n.Task().Kind), Since: n.StartedAt.UTC(),
			ForMS: now.Sub(n.StartedAt).Milliseconds(), Iteration: history.Index(n.Run.Iteration), Attempt: history.Attempts(n.Run.Attempt),
		})
	}
	p.WaitsFor = append(p.WaitsFor, state.Awaits(requests)...)
}
