package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/tui"
)

// Virtual is a flunq dev with a virtual clock.
type Virtual struct {
	*Live

	rdb   wire.Redis
	start time.Time // the first time read
}

// Overview returns the overview with the clock.
func (v *Virtual) Overview(ctx context.Context) (tui.Overview, error) {
	o, err := v.Live.Overview(ctx)
	if err != nil {
		return o, err
	}
	var now dev.Clock
	if err := actions.AskClock(ctx, v.rdb, &now, "SHOW"); err != nil {
		return o, lost(ctx, err)
	}
	o.Clock = tui.Clock{Moves: true, Paused: now.Paused, Speed: 1, Start: v.start}
	for _, timer := range o.Due {
		o.Clock.Marks = append(o.Clock.Marks, timer.At)
	}
	return o, nil
}

// Move advances the clock, which cannot go back. The clock stops at each timer on the way
// until all work that the timer causes is done.
func (v *Virtual) Move(ctx context.Context, m tui.Move) error {
	return lost(ctx, v.move(ctx, m))
}

func (v *Virtual) move(ctx context.Context, m tui.Move) error {
	var now dev.Clock
	switch m.Verb {
	case tui.Play:
		return actions.AskClock(ctx, v.rdb, &now, "RESUME")
	case tui.Pause:
		return actions.AskClock(ctx, v.rdb, &now, "PAUSE")
	case tui.Advance, tui.Seek, tui.NextTimer:
	default:
		return fmt.Errorf("%s: the clock of an engine only runs forward, at real speed", m.Verb)
	}
	if err := actions.AskClock(ctx, v.rdb, &now, "SHOW"); err != nil {
		return err
	}
	to, err := v.target(ctx, m, now.Now)
	if err != nil {
		return err
	}
	moved, err := actions.MoveClock(ctx, v.rdb, now.Now, to)
	if errors.Is(err, context.DeadlineExceeded) || err == nil && !moved.Done {
		return fmt.Errorf("the clock is at %s, %s before the target: %s", local(moved.Now), history.Duration(moved.Target.Sub(moved.Now)), moved.Busy)
	}
	return err
}

// target returns the destination of a move.
func (v *Virtual) target(ctx context.Context, m tui.Move, now time.Time) (time.Time, error) {
	to := now.Add(m.By)
	switch m.Verb {
	case tui.Seek:
		to = m.To
	case tui.NextTimer:
		page, err := timers.New(v.store).Page(ctx, timers.Query{
			Filter: timers.Filter{Tenant: v.opts.Tenant}, Limit: 1, MaxScanned: deepScan,
			Match: func(p timers.Pending) bool { return p.Err == nil && p.Moment().After(now) },
		})
		if err != nil {
			return to, err
		}
		if len(page.Timers) == 0 {
			return to, errors.New("there is no later timer")
		}
		to = page.Timers[0].Moment()
	default:
	}
	if to.Before(now) {
		return to, errors.New("the clock of an engine cannot go back")
	}
	return to, nil
}
