package executor

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/delivery"
)

// compute carries out tasks that need nothing from outside, one after another, and
// reports them together. A task with an error is handled again by itself.
func (s *Service) compute(ctx context.Context, j *job) error {
	var batch, others []*job
	data := 0
	for ; j != nil; j = s.inbox.another(len(batch), data) {
		s.inbox.consumer.Tell(delivery.Activity{What: delivery.Began, Message: j.message})
		if j.err = s.perform(ctx, j); j.err != nil {
			others = append(others, j)
			continue
		}
		// Computing takes next to no time: the task is done when its request was read,
		// and never before it was requested.
		at := j.message.Read
		if asked := j.message.Event.Time; at.Before(asked) {
			at = asked
		}
		j.report(at)
		batch = append(batch, j)
		data += len(j.reply.Data)
	}
	err := s.inbox.out.send(ctx, batch)
	all := slices.Concat(batch, others)
	for _, j := range all {
		activity := delivery.Activity{What: delivery.Done, Message: j.message}
		if j.err != nil {
			activity.What, activity.Err = delivery.Broken, j.err
		}
		s.inbox.consumer.Tell(activity)
	}
	s.inbox.done(all...)
	return err
}
