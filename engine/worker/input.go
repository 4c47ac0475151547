package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// errNoExecution is wrapped by the error for an input whose execution does not exist.
var errNoExecution = errors.New("the input has no execution")

// noExecution returns the error for an input whose execution has no history. An execution that was
// started begins soon, and so may one that a workflow has just started.
func noExecution(e event.Event, kept store.Execution) error {
	if kept.Status != "" {
		return delivery.As(delivery.Recoverable, fmt.Errorf("execution %s has not begun: %w: %w", e.Execution, errNoExecution, delivery.ErrEarly))
	}
	return delivery.As(delivery.Recoverable, fmt.Errorf("%w: there is no execution %s", errNoExecution, e.Execution))
}

// addInput adds to a commit what becomes of an input.
func (s *Service) addInput(c *store.Commit, in *decide.InputDecision) error {
	r := &store.InputResult{Timer: in.Timer, Outcome: store.InputAccepted}
	c.Input = r
	switch {
	case in.Taken:
	case in.Why == "":
		r.Outcome = store.InputDuplicate
		return nil
	case c.Ended: // by an event that came before in the same step
		r.Outcome, in.Why = store.InputCompleted, ""
	default:
		if err := s.rejectInput(c, in); err != nil {
			return err
		}
	}
	if s.opts.Observations {
		r.Record = observation(c.Message, in.Fired, r.Outcome, in.Why)
	}
	return nil
}

// rejectInput adds to a commit what happens to an input that no task consumes.
func (s *Service) rejectInput(c *store.Commit, in *decide.InputDecision) error {
	r := c.Input
	r.Outcome = store.InputRejected
	rejection, park, err := dsl.ParseRejection(in.OnReject)
	switch {
	case err != nil:
		return fmt.Errorf("the input %s: on_reject is %w", in.InputID(), err)
	case rejection.DeadLetter:
		c.DeadLetter = &event.Dead{Reason: "the input was rejected: " + in.Why, Attempts: c.Message.Attempt + 1, Service: store.WorkerGroup}
		return nil
	case rejection.Park == "":
		return nil
	}
	parked := in.Timer
	if parked.ParkedUntil.IsZero() {
		parked.ParkedUntil, parked.MovedTo = park.From(in.FiredAt), time.Time{}
	} else if in.By != "" || !in.FiredAt.Before(parked.Due()) {
		return nil // its time is over, or an operator has ended it
	}
	fired := in.Fired
	fired.Timer, fired.By = parked, ""
	again := c.Message.Event
	again.Data = event.Encode(fired)
	r.Outcome = store.InputParked
	r.Parked = &store.ParkedInput{Timer: parked, Score: timers.FormatScore(parked.Due()), Fired: again}
	announcement := timers.Announcement(parked)
	announcement.Time = c.Now
	c.Publish = append(c.Publish, announcement)
	return nil
}

// observation returns the record of an input.
func observation(m *store.Message, fired event.Fired, outcome store.InputOutcome, why string) *store.Observation {
	typ := ""
	if in, err := fired.ReadInput(); err == nil {
		typ = string(in.Type)
	}
	return &store.Observation{
		Execution: fired.Execution, Workflow: fired.Workflow, Type: typ, Key: fired.Key, Outcome: outcome, Reason: why,
		FireAt: fired.FireAt, ObservedAt: m.Read,
	}
}

// superseded acknowledges an input whose delivery failed and whose key was set again, or cancelled, since
// it fired, and reports whether it did. An input that an operator has replayed is never superseded: that
// was asked for, and when it fired is known only to the millisecond.
func (s *Service) superseded(ctx context.Context, m *store.Message) (bool, error) {
	if m.Attempt == 0 || m.Replay > 0 {
		return false, nil
	}
	fired, ok := decide.InputOf(m.Event)
	if !ok {
		return false, nil
	}
	again, err := timers.New(s.store).Superseded(ctx, fired.Timer, m.Order())
	if err != nil || !again {
		return false, err
	}
	return true, s.dropInput(ctx, *m, fired, store.InputRejected, "its key was set again or cancelled")
}

// drop acknowledges an event of an execution that does not exist or has ended.
func (s *Service) drop(ctx context.Context, m store.Message, e event.Event) error {
	if fired, ok := decide.InputOf(e); ok {
		return s.dropInput(ctx, m, fired, store.InputCompleted, "")
	}
	return stream.New(s.store).AcknowledgeOwned(ctx, m)
}

// dropInput acknowledges an input that its execution does not get. If the process dies before that, the
// input is recorded twice.
func (s *Service) dropInput(ctx context.Context, m store.Message, fired event.Fired, outcome store.InputOutcome, why string) error {
	if s.opts.Observations {
		if err := s.store.Observe(ctx, m.Tenant, *observation(&m, fired, outcome, why)); err != nil {
			return err
		}
	}
	err := stream.New(s.store).AcknowledgeOwned(ctx, m)
	if err == nil {
		s.reportInput(m, outcome)
	}
	return err
}

// reportInput informs the observer of what became of an input.
func (s *Service) reportInput(m store.Message, outcome store.InputOutcome) {
	s.consumer().Report(delivery.Activity{What: delivery.Took, Message: m, Outcome: outcome})
}
