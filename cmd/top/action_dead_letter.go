package top

import (
	"context"
	"fmt"
	"strings"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/tui"
)

// prepareDeadLetters checks an action on dead letters.
func (l *Live) prepareDeadLetters(ctx context.Context, a tui.Action) (*prepared, error) {
	done := "replayed"
	if a.Verb == tui.Drop {
		done = "dropped"
	}
	p := &prepared{head: fmt.Sprintf("%s %s of tenant %s", a.Verb, history.Count(len(a.IDs), "dead letter"), l.opts.Tenant), done: done, what: "dead letter"}
	return p, p.each(a.IDs, func(id string) (plannedAction, error) {
		deadLetter, err := stream.New(l.store).FindDeadLetter(ctx, l.opts.Tenant, "", id)
		if err != nil {
			return plannedAction{}, err
		}
		status, err := actions.Status(ctx, l.store, deadLetter.Tenant, deadLetter.Event.Execution)
		switch {
		case a.Verb == tui.Drop:
			return l.dropDeadLetter(deadLetter), err
		case err == nil && deadLetter.Err != nil:
			err = fmt.Errorf("dead letter %s cannot be replayed: %w", id, deadLetter.Err)
		}
		return l.replayDeadLetter(deadLetter, status), err
	})
}

// describeDeadLetter describes a dead letter by its id, event and execution.
func describeDeadLetter(l stream.DeadLetter) string {
	what := strings.TrimPrefix(string(l.Event.Type), event.Prefix)
	if l.Event.Execution != "" {
		what += " of " + l.Event.Execution
	}
	return strings.TrimSpace(l.ID + " " + what)
}

// trail records what the operator is about to do to a dead letter.
func (l *Live) trail(ctx context.Context, action string, about stream.DeadLetter) error {
	subject := strings.TrimSpace(about.ID + " " + about.Event.Execution)
	return l.store.Audit(ctx, about.Tenant, store.AuditEntry{Action: action, Subject: subject, By: l.opts.Operator})
}

func (l *Live) replayDeadLetter(deadLetter stream.DeadLetter, status string) plannedAction {
	return plannedAction{id: deadLetter.ID, line: describeDeadLetter(deadLetter) + ": " + actions.ReplayOutlook(deadLetter, status), do: func(ctx context.Context) (string, error) {
		return once("replayed "+describeDeadLetter(deadLetter), func() (bool, error) {
			if err := l.trail(ctx, "dlq replay", deadLetter); err != nil {
				return false, err
			}
			return stream.New(l.store).Replay(ctx, deadLetter)
		})
	}}
}

func (l *Live) dropDeadLetter(deadLetter stream.DeadLetter) plannedAction {
	return plannedAction{
		id: deadLetter.ID, line: describeDeadLetter(deadLetter) + ": it is lost and cannot be restored", warning: irreversible,
		do: func(ctx context.Context) (string, error) {
			return once("dropped "+describeDeadLetter(deadLetter), func() (bool, error) {
				if err := l.trail(ctx, "dlq drop", deadLetter); err != nil {
					return false, err
				}
				n, err := stream.New(l.store).Drop(ctx, deadLetter)
				return n == 1, err
			})
		},
	}
}
