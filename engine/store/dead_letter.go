package store

import (
	"context"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// DeadLetter moves a message to the dead letters and publishes events about it. It reports
// false, and does nothing, if the message is not the consumer's any more.
func (s *Store) DeadLetter(ctx context.Context, m Message, d event.Dead, publish []event.Event) (mine bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	deadLetter := s.deadLetterArgs(m, d, now)
	args := append([]any{m.Group, m.ID, m.Consumer, len(deadLetter)}, deadLetter...)
	for _, e := range publish {
		args = s.appendEvent(args, &e, "", false)
	}
	keys := []string{s.keys.Stream(m.Tenant), s.keys.DeadLetters(m.Tenant)}
	n, err := deadLetterScript.Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, failed("bury", err)
}

// deadLetterArgs returns the field names and values of a dead letter.
func (s *Store) deadLetterArgs(m Message, d event.Dead, now time.Time) []any {
	last := now.Format(time.RFC3339Nano)
	first := m.field(firstFailureField)
	if first == "" {
		first = last
	}
	return append(anys(m.sent()),
		"reason", string(s.sealer.Seal([]byte(d.Reason))), "attempts", strconv.Itoa(d.Attempts), "service", d.Service,
		"source_stream", s.keys.Stream(m.Tenant), "source_id", m.ID, "first_failure", first, "last_failure", last)
}

// GiveUp commits a transition and dead-letters the message that it answers, both or neither.
func (s *Store) GiveUp(ctx context.Context, c Commit, d event.Dead) (Outcome, error) {
	c.Ack = true
	b := s.newCommitBatch([]Commit{c})
	b.deadLetter = s.deadLetterArgs(*c.Message, d, c.Now)
	b.add(&c, false)
	b.keys = append(b.keys, s.keys.DeadLetters(c.Tenant))
	done, err := b.run(ctx, nil)
	if err != nil {
		return Fenced, err
	}
	return done[0].Outcome, done[0].Err
}
