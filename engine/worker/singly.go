package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// handleSingly handles a message by itself, and settles errors of the message. It returns only errors
// of Redis, after which the message must be handled again; if Redis has no memory for it, it is set
// aside without an error.
func (s *Service) handleSingly(ctx context.Context, m *store.Message) error {
	err := s.consumer().Handle(ctx, []store.Message{*m}, func() error {
		err := cmp.Or(delivery.Poison(*m), delivery.As(delivery.Permanent, m.Err))
		if err == nil {
			err = s.deliver(ctx, *m)
		}
		if err == nil || delivery.ClassOf(ctx, err) == "" {
			return err
		}
		return s.reject(ctx, *m, err)
	})
	if store.Full(err) {
		s.refused, s.full = append(s.refused, *m), err
		return nil
	}
	return err
}

// deliver handles one event by itself.
func (s *Service) deliver(ctx context.Context, m store.Message) error {
	if strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		if superseded, err := s.superseded(ctx, &m); superseded || err != nil {
			return err
		}
		return s.apply(ctx, m, m.Event, true)
	}
	// The other listeners get the event even if one execution cannot handle it.
	var untaken error
	err := s.store.EachListener(ctx, m.Tenant, string(m.Event.Type), func(id string) error {
		err := s.apply(ctx, m, decide.Received(m.Event, id), false)
		if err != nil && delivery.ClassOf(ctx, err) != "" {
			untaken = errors.Join(untaken, fmt.Errorf("execution %s: %w", id, err))
			return nil
		}
		return err
	})
	if err = cmp.Or(err, untaken); err != nil {
		return err
	}
	return stream.New(s.store).AcknowledgeOwned(ctx, m)
}

// conflicts is the number of consecutive commits that may lose to other workers before the event is
// delivered again later.
const conflicts = 20

// apply applies an event to its execution and writes each commit immediately. With ack, the last
// one also acknowledges the message.
func (s *Service) apply(ctx context.Context, m store.Message, e event.Event, ack bool) error {
	for range conflicts {
		x, err := s.load(ctx, m, e, nil)
		if err != nil {
			return err
		}
		if x == nil { // no such execution, or it has ended
			if ack {
				err = s.drop(ctx, m, e)
			}
			return err
		}
		outcome := store.Committed
		for t := s.newTransition(x, &m, e, ack); outcome == store.Committed && !t.done; {
			c, err := s.decide(&t)
			if err != nil {
				return err
			}
			outcome, err = s.write(ctx, &c)
			if err != nil {
				return err
			}
		}
		if outcome == store.Committed && !x.state.Status.Ended() {
			s.cache.put(m.Tenant, e.Execution, x)
		}
		if outcome != store.Conflict {
			return nil
		}
	}
	return delivery.As(delivery.Transient, fmt.Errorf("%d workers in a row were faster", conflicts))
}

// write writes one commit.
func (s *Service) write(ctx context.Context, c *store.Commit) (store.Outcome, error) {
	outcome, err := s.store.Commit(ctx, *c)
	if err == nil && outcome == store.Committed {
		s.reportCommit(c)
	}
	return outcome, err
}

// reject delivers an event again later, or dead-letters it and faults its execution.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	s.cache.take(m.Tenant, m.Event.Execution)
	if retried, err := s.consumer().Retry(ctx, m, cause); retried || err != nil {
		return err
	}
	dead := s.consumer().Dead(m, cause)
	if m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix) && !errors.Is(cause, errNoExecution) {
		// An execution that cannot be written cannot be ended either.
		if over, err := s.abort(ctx, m, dead); over || store.Temporary(err) {
			return err
		}
	}
	err := s.consumer().DeadLetter(ctx, m, dead, nil)
	if err == nil && errors.Is(cause, errNoExecution) {
		s.reportInput(m, store.InputUnknown)
	}
	return err
}
