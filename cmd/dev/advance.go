package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

const (
	slice        = 2 * time.Second        // maximum real time of one move
	blockedAfter = 100 * time.Millisecond // services without progress for this long count as blocked
	checkPause   = time.Millisecond       // between two checks for busy services
	seekEvery    = 250 * time.Millisecond // interval of searches for new streams
	maxListed    = 100                    // maximum number of timers that a Move lists
	atOnce       = 100                    // timers fired by one script
	anyTenant    = "default"              // all tenants share one set of timers
)

// mover moves the clock from due timer to due timer.
type mover struct {
	*Redis

	target   time.Time
	deadline time.Time // in real time
	move     Move

	event   time.Time // when the next scheduled event is due; zero: there is none
	streams []string
	sought  time.Time // when streams were last searched
	last    work      // the last work read
	since   time.Time // when it last changed
}

// advance moves the clock by d, or as far as possible within a slice of real time. It stops
// at each timer until all work that the timer causes is done.
func (r *Redis) advance(ctx context.Context, d time.Duration) (Move, error) {
	r.clock.hold()
	defer r.clock.release()
	from := r.clock.show().Now
	m := &mover{Redis: r, target: from.Add(d), deadline: time.Now().Add(slice)}
	m.move = Move{From: from, Target: m.target, Timers: []event.Timer{}}
	for {
		next, err := m.settle(ctx)
		m.move.Now = r.clock.show().Now
		switch {
		case err != nil:
			return m.move, err
		case m.move.Busy != "":
			return m.move, nil
		case m.move.Now.Before(m.target) && !time.Now().Before(m.deadline):
			return m.move, nil // the caller continues
		case next.IsZero() || next.After(m.target):
			next = m.target
		}
		if !next.After(m.move.Now) {
			m.move.Done = true
			return m.move, nil
		}
		r.clock.jump(next)
	}
}

// settle waits until no work is left at the current time and returns when the next timer or
// sleeper is due. If the work takes longer than a slice, it sets Busy.
func (m *mover) settle(ctx context.Context) (next time.Time, err error) {
	for {
		if next, err = m.fire(ctx); err != nil {
			return next, err
		}
		if err = m.publishDue(ctx); err != nil {
			return next, err
		}
		busy := overdue
		if next.IsZero() || next.After(m.clock.show().Now) {
			if next, busy, err = m.busy(ctx); err != nil {
				return next, err
			}
		}
		switch {
		case busy == "":
			_, wakes := m.clock.sleeping()
			return event.Earlier(event.Earlier(next, wakes), m.event), nil
		case time.Now().After(m.deadline):
			m.move.Busy = busy
			return next, nil
		}
		select {
		case <-ctx.Done():
			return next, errors.New("flunq dev is stopping")
		case <-time.After(checkPause):
		}
	}
}

// fire fires due timers, as a timer service does, and returns when the next one is due.
func (m *mover) fire(ctx context.Context) (next time.Time, err error) {
	poll, err := timers.New(m.store).Poll(ctx, anyTenant, atOnce)
	if err != nil || len(poll.Due) == 0 {
		return poll.Next, err
	}
	_, after, err := timers.New(m.store).Fire(ctx, anyTenant, poll, atOnce)
	if err != nil {
		return poll.Next, err
	}
	for _, d := range poll.Due {
		if d.Kind == event.DeliveryTimer || d.Err != nil {
			continue
		}
		m.move.Fired++
		if len(m.move.Timers) < maxListed {
			m.move.Timers = append(m.move.Timers, d.Timer)
		}
	}
	if len(after.Due) > 0 {
		return after.Now, nil // check again
	}
	return after.Next, nil
}

// publishDue publishes the scheduled events that are due.
func (m *mover) publishDue(ctx context.Context) error {
	if m.publish == nil {
		return nil
	}
	published, dead, next, err := m.publish(ctx)
	m.move.Events, m.move.Dead, m.event = m.move.Events+published, m.move.Dead+dead, next
	return err
}

// overdue is the value of Busy if timers become due faster than they can be fired.
const overdue = "timers that are due"

// busy describes the work that the services still have to do, "" if there is none; then
// next is when the next timer is due. Calls that wait for the clock do not count.
func (m *mover) busy(ctx context.Context) (next time.Time, what string, err error) {
	if err := m.seek(ctx); err != nil {
		return next, "", err
	}
	now, err := m.read(ctx)
	if err != nil {
		return next, "", err
	}
	poll, err := timers.New(m.store).Poll(ctx, anyTenant, 1)
	if err != nil {
		return next, "", err
	}
	if next = poll.Next; len(poll.Due) > 0 {
		return next, overdue, nil
	}
	if sleeping, _ := m.clock.sleeping(); now.unread || now.pending > sleeping {
		if now.mark != m.last.mark {
			m.last, m.since = now, time.Now()
		}
		// With more calls than executors, the others wait for those that sleep.
		if sleeping == 0 || time.Since(m.since) < blockedAfter {
			return next, now.what, nil
		}
	}
	// A timer may have been set or fired between the two reads.
	again, err := m.read(ctx)
	if err == nil && again.mark != now.mark {
		return next, "events to read", nil
	}
	return next, "", err
}

// seek searches for the streams of all tenants at an interval.
func (m *mover) seek(ctx context.Context) error {
	now := time.Now()
	if now.Sub(m.sought) < seekEvery {
		return nil
	}
	var streams []string
	const page = 1000
	found := m.rdb.ScanType(ctx, 0, store.Keys{}.Stream("*"), page, "stream").Iterator()
	for found.Next(ctx) {
		streams = append(streams, found.Val())
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("find streams: %w", err)
	}
	slices.Sort(streams)
	m.streams, m.sought = slices.Compact(streams), now
	return nil
}

// work describes the events that the groups have not acknowledged yet.
type work struct {
	unread  bool
	pending int
	what    string // description
	mark    string // changes with every event
}

// read reads the work of all groups atomically.
func (m *mover) read(ctx context.Context) (work, error) {
	type replies struct {
		groups *redis.XInfoGroupsCmd
		last   *redis.XMessageSliceCmd
	}
	var w work
	if len(m.streams) == 0 {
		return w, nil
	}
	pipe := m.rdb.TxPipeline()
	all := make([]replies, 0, len(m.streams))
	for _, stream := range m.streams {
		all = append(all, replies{pipe.XInfoGroups(ctx, stream), pipe.XRevRangeN(ctx, stream, "+", "-", 1)})
	}
	_, err := pipe.Exec(ctx)
	if _, refused := errors.AsType[redis.Error](err); err != nil && !refused { // a key that is not a stream has no groups
		return w, fmt.Errorf("read the streams: %w", err)
	}
	var marks []string
	for i, l := range all {
		last := ""
		if entries := l.last.Val(); len(entries) == 1 {
			last = entries[0].ID
		}
		for _, g := range l.groups.Val() {
			if slices.Contains(m.opts.Groups, g.Name) {
				marks = append(marks, w.take(m.streams[i], g, last))
			}
		}
	}
	slices.Sort(marks)
	w.mark = strings.Join(marks, " ")
	return w, nil
}

// take adds the work of a group and returns a string that changes with it.
func (w *work) take(stream string, g redis.XInfoGroup, last string) (mark string) {
	unread := last != "" && store.CompareIDs(last, g.LastDeliveredID) > 0
	w.unread = w.unread || unread
	w.pending += int(g.Pending)
	if unread || g.Pending > 0 {
		w.what = strings.TrimPrefix(fmt.Sprintf("%s; %d pending in %s of %s", w.what, g.Pending, g.Name, stream), "; ")
	}
	return fmt.Sprint(stream, g.Name, last, g.LastDeliveredID, g.Pending)
}
