package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

const (
	slice      = 2 * time.Second        // of real time that one move takes at most
	calm       = 100 * time.Millisecond // in which nothing changes when all that is busy sleeps
	rest       = time.Millisecond       // between two looks at what is still busy
	seekEvery  = 250 * time.Millisecond // between two looks for new streams
	mostListed = 100                    // timers that a Move tells of
	atOnce     = 100                    // timers fired by one script
	anybody    = "default"              // all tenants share one set of timers
)

// mover moves the clock from due timer to due timer.
type mover struct {
	*Redis

	target   time.Time
	deadline time.Time // the machine's
	move     Move

	streams []string
	sought  time.Time // when streams were last looked for
	quiet   work      // that was seen last
	since   time.Time // when it became just so much
}

// advance moves the clock on by d, or as far as it gets in a slice of real time:
// it stops at every timer that is due, until all is done that follows from it.
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
			return m.move, nil // to be continued
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

// settle waits until nothing is left to be done at the present time, and says when
// something will be; Busy says what goes on for longer than a slice.
func (m *mover) settle(ctx context.Context) (next time.Time, err error) {
	for {
		if next, err = m.fire(ctx); err != nil {
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
			return earlier(next, wakes), nil
		case time.Now().After(m.deadline):
			m.move.Busy = busy
			return next, nil
		}
		select {
		case <-ctx.Done():
			return next, errors.New("flunq dev stops")
		case <-time.After(rest):
		}
	}
}

// fire fires what is due, as a timer service does that does not sleep, and says
// when the next timer is.
func (m *mover) fire(ctx context.Context) (next time.Time, err error) {
	due, next, now, err := m.store.Due(ctx, anybody, atOnce)
	if err != nil || len(due) == 0 {
		return next, err
	}
	if _, err := m.store.Fire(ctx, anybody, due); err != nil {
		return next, err
	}
	for _, d := range due {
		if d.Kind == event.DeliveryTimer || d.Err != nil {
			continue
		}
		m.move.Fired++
		if len(m.move.Timers) < mostListed {
			m.move.Timers = append(m.move.Timers, d.Timer)
		}
	}
	return now, nil // look again
}

// earlier is the first of two moments; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// overdue is what keeps the clock when timers fire faster than they can be read.
const overdue = "timers that are due"

// busy is what the services still have to do; "" if nothing, and then next is when
// the next timer is due. Calls that only let the clock pass do not count: it has to
// go on for them.
func (m *mover) busy(ctx context.Context) (next time.Time, what string, err error) {
	if err := m.seek(ctx); err != nil {
		return next, "", err
	}
	now, err := m.look(ctx)
	if err != nil {
		return next, "", err
	}
	due, next, _, err := m.store.Due(ctx, anybody, 1)
	if err != nil {
		return next, "", err
	}
	if len(due) > 0 {
		return next, overdue, nil
	}
	if sleeping, _ := m.clock.sleeping(); now.unread || now.pending > sleeping {
		if now.mark != m.quiet.mark {
			m.quiet, m.since = now, time.Now()
		}
		// More calls than executors: the rest has to wait for those that sleep.
		if sleeping == 0 || time.Since(m.since) < calm {
			return next, now.what, nil
		}
	}
	// A timer may have been set or fired between the two readings.
	reopened, err := m.look(ctx)
	if err == nil && reopened.mark != now.mark {
		return next, "events to read", nil
	}
	return next, "", err
}

// seek finds the streams of all tenants now and then.
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
		return fmt.Errorf("look for streams: %w", err)
	}
	slices.Sort(streams)
	m.streams, m.sought = slices.Compact(streams), now
	return nil
}

// work is what the groups have not done.
type work struct {
	unread  bool
	pending int
	what    string // for people
	mark    string // differs when anything has happened
}

// look reads the work of all groups at one moment.
func (m *mover) look(ctx context.Context) (work, error) {
	type looked struct {
		groups *redis.XInfoGroupsCmd
		last   *redis.XMessageSliceCmd
	}
	var w work
	if len(m.streams) == 0 {
		return w, nil
	}
	pipe := m.rdb.TxPipeline()
	looks := make([]looked, 0, len(m.streams))
	for _, stream := range m.streams {
		looks = append(looks, looked{pipe.XInfoGroups(ctx, stream), pipe.XRevRangeN(ctx, stream, "+", "-", 1)})
	}
	var refused redis.Error // what is no stream has no groups
	if _, err := pipe.Exec(ctx); err != nil && !errors.As(err, &refused) {
		return w, fmt.Errorf("look at the streams: %w", err)
	}
	var marks []string
	for i, l := range looks {
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

// take adds the work of one group, and says how it stands.
func (w *work) take(stream string, g redis.XInfoGroup, last string) (mark string) {
	unread := last != "" && after(last, g.LastDeliveredID)
	w.unread = w.unread || unread
	w.pending += int(g.Pending)
	if unread || g.Pending > 0 {
		w.what = strings.TrimPrefix(fmt.Sprintf("%s; %d under way in %s of %s", w.what, g.Pending, g.Name, stream), "; ")
	}
	return fmt.Sprint(stream, g.Name, last, g.LastDeliveredID, g.Pending)
}

// after compares the ids of two entries.
func after(a, b string) bool {
	x, y := entry(a), entry(b)
	return slices.Compare(x[:], y[:]) > 0
}

// entry is the id of an entry as numbers.
func entry(id string) [2]uint64 {
	ms, seq, _ := strings.Cut(id, "-")
	var out [2]uint64
	out[0], _ = strconv.ParseUint(ms, 10, 64) // Redis has no others
	out[1], _ = strconv.ParseUint(seq, 10, 64)
	return out
}
