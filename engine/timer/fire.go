package timer

import (
	"context"
	"errors"
	"slices"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store/timers"
)

// fire publishes due timers, unless another service of the process is doing so, and reports whether
// more are due.
func (s *Service) fire(ctx context.Context) (now time.Time, more bool, err error) {
	sleep := s.opts.MaxSleep
	if s.opts.Block == 0 {
		sleep = 0
	}
	if !s.watch.begin(s, sleep) {
		return s.watch.clock(), false, nil
	}
	var next time.Time
	indexes := s.timers.Indexes(s.opts.Tenants.Names())
	reference := s.lookAtAll(ctx, indexes)
	for _, tenant := range indexes {
		look, wrong := s.fireOn(ctx, tenant)
		if wrong != nil {
			s.consumer.Report(delivery.Activity{What: delivery.Unfired, Err: wrong})
		}
		now = s.watch.reference(tenant, look.Now)
		next, more = earlier(next, s.watch.reference(tenant, look.Next)), more || len(look.Due)+len(look.Misplaced) > 0
		err = errors.Join(err, wrong)
	}
	if !reference.IsZero() {
		now = reference
	}
	s.watch.recordLook(now, next)
	if err != nil {
		s.watch.invalidate()
	}
	if !more {
		s.watch.end()
	}
	return now, more, err
}

// lookAtAll looks at the timers of all tenants of a cluster in one call, for fireOn, and returns the
// time of the watch's reference clock. A look that fails is left to fireOn. On a single Redis it does
// nothing.
func (s *Service) lookAtAll(ctx context.Context, indexes []string) (reference time.Time) {
	if !s.consumer.Store.Keys().Clustered() {
		return reference
	}
	unknown := slices.DeleteFunc(slices.Clone(indexes), func(tenant string) bool { _, known := s.looks[tenant]; return known })
	looks, reference := s.timers.LookAtAll(ctx, unknown, s.batchFor(0))
	for i, tenant := range unknown {
		if !looks[i].Now.IsZero() {
			s.looks[tenant] = looks[i]
			s.watch.recordClock(tenant, looks[i].Now, reference)
		}
	}
	return reference
}

// fireOn publishes the due timers of one index and looks for what is due next.
func (s *Service) fireOn(ctx context.Context, tenant string) (look timers.Look, err error) {
	look, known := s.looks[tenant]
	delete(s.looks, tenant)
	if !known {
		if look, err = s.timers.Look(ctx, tenant, s.batchFor(0)); err != nil {
			return look, err
		}
	}
	for len(look.Misplaced) > 0 && len(look.Due) == 0 { // they precede due timers
		if err := s.timers.CorrectScores(ctx, tenant, look.Misplaced); err != nil {
			return look, err
		}
		if look, err = s.timers.Look(ctx, tenant, s.batchFor(0)); err != nil {
			return look, err
		}
	}
	if len(look.Due) == 0 {
		return look, nil
	}
	s.consumer.Report(delivery.Activity{What: delivery.Firing, At: look.Now})
	fired, after, err := s.timers.FireAndLook(ctx, tenant, look, s.batchFor(len(look.Due)))
	if err == nil && fired == len(look.Due) {
		s.fired(look) // otherwise another process fired some of them, and it is unknown which
	}
	if err == nil && len(after.Due) > 0 {
		s.looks[tenant] = after
	}
	return after, err
}

// batchFor returns how many timers to request if due timers were due last time: twice as many, up to
// the limit.
func (s *Service) batchFor(due int) int {
	const fewest = 16
	return min(max(fewest, 2*due), s.opts.Fires)
}

// fired adds the tenants of fired timers to the tenant set and reports these timers to the observer.
func (s *Service) fired(look timers.Look) {
	for i, d := range look.Due {
		if d.Err != nil {
			continue
		}
		if i == 0 || d.Tenant != look.Due[i-1].Tenant {
			s.opts.Tenants.Add(d.Tenant)
		}
		if s.opts.Observe != nil {
			t := d.Timer
			s.consumer.Report(delivery.Activity{What: delivery.Fired, Timer: &t, At: look.Now})
		}
	}
}
