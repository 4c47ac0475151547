package store

import (
	"context"
	"errors"

	"flunq.io/flunq/engine/event"
)

// Answer is a message and the event that it is answered with.
type Answer struct {
	Message *Message
	Event   *event.Event
}

// How much one replyScript is given to do: Redis does nothing else meanwhile.
const (
	mostAnswers = 100
	mostData    = 1 << 20
)

// Reply answers a message with an event. It reports false, and does nothing, if
// the message is not the consumer's any more.
func (s *Store) Reply(ctx context.Context, m Message, e event.Event) (mine bool, err error) {
	given, err := s.Replies(ctx, []Answer{{&m, &e}})
	return given[0], err
}

// Replies answers messages that were delivered to one consumer, all of one tenant,
// and reports of each whether the answer was given: one that is not the consumer's
// any more is left out. With an error those that were not given may be given again;
// one that was given after all is left out then.
func (s *Store) Replies(ctx context.Context, answers []Answer) ([]bool, error) {
	given := make([]bool, len(answers))
	for from := 0; from < len(answers); {
		n, data := 0, 0
		for _, a := range answers[from:] {
			if n == mostAnswers || n > 0 && data+len(a.Event.Data) > mostData {
				break
			}
			n, data = n+1, data+len(a.Event.Data)
		}
		if err := s.replies(ctx, answers[from:from+n], given[from:]); err != nil {
			return given, failed("reply", err)
		}
		from += n
	}
	return given, nil
}

// replies has one script answer, and notes which answers were given.
func (s *Store) replies(ctx context.Context, answers []Answer, given []bool) error {
	m := answers[0].Message
	first, last := m.ID, m.ID
	for _, a := range answers[1:] {
		if compareIDs(a.Message.ID, first) < 0 {
			first = a.Message.ID
		}
		if compareIDs(a.Message.ID, last) > 0 {
			last = a.Message.ID
		}
	}
	args := make([]any, 0, replyArguments+len(answers)*(1+eventArguments))
	args = append(args, m.Group, m.Consumer, m.Tenant, first, last, lookedAt(len(answers)))
	for _, a := range answers {
		args = s.appendEvent(append(args, &a.Message.ID), a.Event, m.Tenant, false)
	}
	out, err := replyScript.Run(ctx, s.rdb, []string{s.keys.Stream(m.Tenant)}, args...).Slice()
	if err != nil {
		return err
	}
	if len(out) != 1+len(answers) {
		return errReply
	}
	for i, was := range out[1:] {
		_, given[i] = was.(string)
	}
	if wrong, _ := out[0].(string); wrong != "" {
		return errors.New(wrong)
	}
	return nil
}

// replyArguments are those of a replyScript before its answers.
const replyArguments = 6

// lookedAt is how many pending entries are looked at to find n at once: those of
// them that are being worked on lie between.
func lookedAt(n int) int {
	if n == 1 {
		return 2 // one more than there can be
	}
	return 2*n + 16
}

// AcknowledgeOwned acknowledges a message that means nothing more, as far as it is still the
// consumer's: one that is another's by now may mean something to it.
func (s *Store) AcknowledgeOwned(ctx context.Context, m Message) error {
	err := acknowledgeScript.Run(ctx, s.rdb, []string{s.keys.Stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
	return failed("acknowledge", err)
}
