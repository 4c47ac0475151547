package top

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/tui"
)

// prepareSignals checks signals to executions.
func (l *Live) prepareSignals(ctx context.Context, a tui.Action) (*prepared, error) {
	signal := actions.Signals()[string(a.Verb)]
	then := map[tui.Verb]string{
		tui.Cancel:  "ends: its tasks, timers and child executions are cancelled",
		tui.Suspend: "starts no new task until it is resumed; running tasks finish",
		tui.Resume:  "continues",
		tui.Retry:   "runs the failed task again and continues from there",
	}[a.Verb]
	warning := ""
	if a.Verb == tui.Cancel {
		warning = irreversible
	}
	p := &prepared{
		head: fmt.Sprintf("%s %s of tenant %s", a.Verb, history.Count(len(a.IDs), "execution"), l.opts.Tenant),
		done: string(a.Verb) + " requested for", what: "execution",
	}
	err := p.each(a.IDs, func(id string) (plannedAction, error) {
		x, err := l.store.Execution(ctx, l.opts.Tenant, id)
		if err == nil {
			err = signal.Refuse(x)
		}
		return plannedAction{
			id: id, line: fmt.Sprintf("%s (%s) %s", id, x.Status, then), warning: warning, said: fmt.Sprintf("%s requested: %s", signal.Verb, id),
			do: func(ctx context.Context) (bool, error) { return true, l.signal(ctx, signal, x, a.Text) },
		}, err
	})
	if err == nil {
		p.notes, err = l.unserved(ctx)
	}
	return p, err
}

func (l *Live) signal(ctx context.Context, signal actions.Signal, x store.Execution, reason string) error {
	now, err := l.store.NowOf(ctx, l.opts.Tenant)
	if err != nil {
		return err
	}
	return l.store.Publish(ctx, signal.Event(x, reason, l.opts.Operator, now))
}

// unserved returns a note if no process runs the worker.
func (l *Live) unserved(ctx context.Context) ([]string, error) {
	missing, err := inspect.New(l.store).Unserved(ctx, l.opts.Tenant, map[string]string{"worker": l.opts.Worker})
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	return []string{"no process runs the worker for this tenant: the action waits until one does"}, nil
}

// prepareRecord checks the recording to write.
func (l *Live) prepareRecord(ctx context.Context, a tui.Action) (*prepared, error) {
	if len(a.IDs) != 1 {
		return nil, fmt.Errorf("record: want one execution, got %d", len(a.IDs))
	}
	x, err := l.store.Execution(ctx, l.opts.Tenant, a.IDs[0])
	if err != nil {
		return nil, err
	}
	if x.Version == 0 {
		return nil, fmt.Errorf("execution %s has not begun: there is nothing to record", x.ID)
	}
	file := a.Text // the screen has asked for it
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.opts.Folder, file)
	}
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("record: %s: %w", file, fs.ErrExist)
	}
	head := fmt.Sprintf("write the history of %s, %s, to %s", x.ID, history.Count(x.Version, "event"), file)
	return &prepared{head: head, actions: []plannedAction{{
		id: x.ID, line: fmt.Sprintf("'flunq replay --tui %s' shows it", file),
		said: fmt.Sprintf("wrote %s of %s to %s", history.Count(x.Version, "event"), x.ID, file),
		do:   func(ctx context.Context) (bool, error) { return true, l.record(ctx, x, file) },
	}}}, nil
}

// record writes a recording to a file that must not exist.
func (l *Live) record(ctx context.Context, x store.Execution, file string) (err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil {
			_ = os.Remove(file) // an incomplete recording is useless
		}
	}()
	first, err := l.store.History(ctx, x.Tenant, x.ID, 0, 1)
	if err != nil {
		return err
	}
	rec, err := actions.Recorder{Store: l.store, Version: l.opts.Version, Out: out}.Begin(ctx, x, first)
	if err != nil {
		return err
	}
	if err := l.store.EachPage(ctx, x, 0, func(events []event.Event) error { return rec.Add(events) }); err != nil {
		return err
	}
	problem, err := actions.Problem(x)
	if err != nil {
		return err
	}
	return rec.End(decide.Status(x.Status), x.Output, problem)
}
