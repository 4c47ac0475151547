package top

import (
	"context"
	"fmt"
	"strings"

	"flunq.io/flunq/cmd/operate"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/tui"
)

// prepareLetters looks into what is to be done to dead letters.
func (l *Live) prepareLetters(ctx context.Context, a tui.Action) (p prepared, err error) {
	done := "replayed"
	if a.Verb == tui.Drop {
		done = "dropped"
	}
	p = prepared{head: fmt.Sprintf("%s %s of tenant %s", a.Verb, history.Count(len(a.IDs), "dead letter"), l.opts.Tenant), done: done, what: "dead letter"}
	for _, id := range a.IDs {
		letter, err := l.store.Letter(ctx, l.opts.Tenant, "", id)
		var status string
		if err == nil {
			status, err = operate.Status(ctx, l.store, letter.Tenant, letter.Event.Execution)
		}
		if err == nil && a.Verb == tui.Replay && letter.Err != nil {
			err = fmt.Errorf("dead letter %s cannot be replayed: %w", id, letter.Err)
		}
		switch {
		case err != nil && store.Temporary(err):
			return p, err
		case err != nil:
			p.refused = append(p.refused, err)
		case a.Verb == tui.Drop:
			p.deeds = append(p.deeds, l.dropLetter(letter))
		default:
			p.deeds = append(p.deeds, l.replayLetter(letter, status))
		}
	}
	return p, nil
}

// whatDied says which letter it is, for people.
func whatDied(l store.Letter) string {
	what := strings.TrimPrefix(string(l.Event.Type), event.Prefix)
	if l.Event.Execution != "" {
		what += " of " + l.Event.Execution
	}
	return strings.TrimSpace(l.ID + " " + what)
}

func (l *Live) replayLetter(letter store.Letter, status string) deed {
	return deed{id: letter.ID, line: whatDied(letter) + ": " + outlook(letter, status), do: func(ctx context.Context) (string, error) {
		return once("replayed "+whatDied(letter), func() (bool, error) { return l.store.Replay(ctx, letter) })
	}}
}

func (l *Live) dropLetter(letter store.Letter) deed {
	return deed{
		id: letter.ID, line: whatDied(letter) + ": it is lost, and cannot be brought back", danger: true,
		do: func(ctx context.Context) (string, error) {
			return once("dropped "+whatDied(letter), func() (bool, error) {
				n, err := l.store.Drop(ctx, letter)
				return n == 1, err
			})
		},
	}
}
