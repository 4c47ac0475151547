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
		name := strings.TrimPrefix(string(deadLetter.Event.Type), event.Prefix)
		if of := deadLetter.Event.Execution; of != "" {
			name += " of " + of
		}
		name = strings.TrimSpace(deadLetter.ID + " " + name)
		subject := strings.TrimSpace(deadLetter.ID + " " + deadLetter.Event.Execution)
		return plannedAction{id: deadLetter.ID, line: name + ": " + then, warning: warning, said: done + " " + name, do: func(ctx context.Context) (bool, error) {
			entry := store.AuditEntry{Action: "dlq " + string(a.Verb), Subject: subject, By: l.opts.Operator}
			if err := l.store.Audit(ctx, deadLetter.Tenant, entry); err != nil {
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
