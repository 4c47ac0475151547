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

// prepareDeadLetters checks an action on dead letters: to replay or to drop them.
func (l *Live) prepareDeadLetters(ctx context.Context, a tui.Action) (*prepared, error) {
	streams, drop := stream.New(l.store), a.Verb == tui.Drop
	done, warning := "replayed", ""
	if drop {
		done, warning = "dropped", irreversible
	}
	p := &prepared{head: fmt.Sprintf("%s %s of tenant %s", a.Verb, history.Count(len(a.IDs), "dead letter"), l.opts.Tenant), done: done, what: "dead letter"}
	return p, p.each(a.IDs, func(id string) (plannedAction, error) {
		deadLetter, err := streams.FindDeadLetter(ctx, l.opts.Tenant, "", id)
		if err != nil {
			return plannedAction{}, err
		}
		status, err := actions.Status(ctx, l.store, deadLetter.Tenant, deadLetter.Event.Execution)
		then := "it is lost and cannot be restored"
		if !drop {
			then = actions.ReplayOutlook(deadLetter, status)
			if err == nil && deadLetter.Err != nil {
				err = fmt.Errorf("dead letter %s cannot be replayed: %w", id, deadLetter.Err)
			}
		}
		name := describeDeadLetter(deadLetter)
		return plannedAction{id: deadLetter.ID, line: name + ": " + then, warning: warning, said: done + " " + name, do: func(ctx context.Context) (bool, error) {
			if err := l.trail(ctx, "dlq "+string(a.Verb), deadLetter); err != nil {
				return false, err
			}
			if drop {
				n, err := streams.Drop(ctx, deadLetter)
				return n == 1, err
			}
			return streams.Replay(ctx, deadLetter)
		}}, err
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
