package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// TimerRequest is what a message asks for: that a timer is set, or taken back.
type TimerRequest struct {
	*Message
	Timer event.Timer
	Text  string // of the timer, as event.TimerText has it; "": it is not known yet
	Back  bool
	noted bool // there are notes of timers that were taken back, perhaps of this one
}

// AppliedTimer is what became of a wish.
type AppliedTimer struct {
	Mine bool  // else the message is not the consumer's any more, and nothing was done
	Err  error // why it cannot be done; then the message is still pending
}

// Schedule sets a timer, as a message asks. See Grant.
func (s *Store) Schedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	return s.applyOne(ctx, TimerRequest{Message: &m, Timer: t})
}

// Unschedule takes a timer out, as a message asks. See Grant.
func (s *Store) Unschedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	return s.applyOne(ctx, TimerRequest{Message: &m, Timer: t, Back: true})
}

func (s *Store) applyOne(ctx context.Context, w TimerRequest) (mine bool, err error) {
	out, _, err := s.ApplyTimers(ctx, w)
	if err != nil {
		return false, err
	}
	return out[0].Mine, out[0].Err
}

// ApplyTimers sets timers and takes them back, as messages of one consumer ask, those of
// each tenant in their order and at once.
//
// A timer that was taken back before it was set, or whose execution has ended, is
// not set; one with a key takes the place of the one before, unless that was set
// later. Of those with a key the one of that key is taken out, whatever else is
// said of it, unless it was set later. What concerns one message alone is said of
// that; with an error nothing is known of any. The time is Redis' own.
func (s *Store) ApplyTimers(ctx context.Context, requests ...TimerRequest) (out []AppliedTimer, now time.Time, err error) {
	out = make([]AppliedTimer, len(requests))
	for _, tenant := range tenantsOf(requests) {
		for part := range slices.Chunk(places(requests, tenant), mostRequests) {
			if now, err = s.applyTimers(ctx, tenant, part, requests, out); err != nil {
				return nil, now, failed("set timers", err)
			}
		}
	}
	return out, now, nil
}

// mostRequests is how many one script grants: it takes them all at once, and Lua has
// an end. No more are read at once.
const mostRequests = 1000

// places are those of the wishes of a tenant.
func places(requests []TimerRequest, tenant string) []int {
	places := make([]int, 0, len(requests))
	for i := range requests {
		if requests[i].Message.Tenant == tenant {
			places = append(places, i)
		}
	}
	return places
}

// tenantsOf are those of wishes, in the order in which they appear.
func tenantsOf(requests []TimerRequest) (all []string) {
	for i := range requests {
		tenant := requests[i].Message.Tenant
		if len(all) == 0 || all[len(all)-1] != tenant && !slices.Contains(all, tenant) {
			all = append(all, tenant)
		}
	}
	return all
}

// applyTimers grants the wishes at some places, all of which are of one tenant.
func (s *Store) applyTimers(ctx context.Context, tenant string, places []int, requests []TimerRequest, out []AppliedTimer) (now time.Time, err error) {
	for left := places; len(left) > 0 && err == nil; {
		var reply []string
		if reply, err = s.call(ctx, setTimersScript, ownKeys+len(left), s.applyArgs(tenant, left, requests)).StringSlice(); err == nil {
			left, now, err = appliedTimer(reply, left, out)
		}
		for _, place := range left {
			requests[place].noted = true
		}
	}
	return now, err
}

// ownKeys are the keys of setTimersScript that are the tenant's.
const ownKeys = 5

// applyArgs are the keys and arguments of setTimersScript, with room before them.
func (s *Store) applyArgs(tenant string, places []int, requests []TimerRequest) []any {
	const each, texts = 4, 2 // of most wishes: keys and arguments, and what of them is made here
	h, first, what := s.keysFor(tenant), &requests[places[0]], make([]byte, 0, len(places))
	l := textList{
		list:  append(make([]any, beforeKeys, beforeKeys+ownKeys+7+each*len(places)), &h.stream, &h.timers, &h.timerKeys, &h.forgottenKeys, &h.askedTimers),
		texts: make([]string, 0, 3+texts*len(places)),
	}
	from, to := first.ID, first.ID
	run := len(places)
	for i, place := range places {
		w := &requests[place]
		if compareIDs(w.ID, from) < 0 {
			from = w.ID
		} else if compareIDs(w.ID, to) > 0 {
			to = w.ID
		}
		if i > 0 && (w.after == "" || w.after != requests[places[i-1]].ID) {
			run = 0
		}
		l.add(s.keysFor(w.Timer.Tenant).executions + w.Timer.Execution)
		what = append(what, w.deadLetter())
	}
	if run < leastRun {
		run = 0
	}
	l.list = append(l.list, &first.Group, &first.Consumer)
	l.add(from, to, string(what))
	l.list = append(l.list, run)
	for _, place := range places {
		l.list = append(l.list, &requests[place].ID)
	}
	s.wanted(&l, places, requests)
	return l.list
}

// leastRun is of how many messages it is worth while to ask for all at once.
const leastRun = 4

// What setTimersScript does for a message.
const (
	setPlain  = 't'
	setAny    = 's'
	takeTimer = 'c'
)

func (w *TimerRequest) deadLetter() byte {
	switch {
	case w.Back:
		return takeTimer
	case w.noted || w.Timer.Keyed() || w.Attempt > 0 || w.Replay > 0: // it was asked for before what stands before it
		return setAny
	default:
		return setPlain
	}
}

// wanted are the arguments of setTimersScript that are of the messages.
func (s *Store) wanted(l *textList, places []int, requests []TimerRequest) {
	for _, place := range places {
		w := &requests[place]
		if l.add(formatScore(w.Timer.Due())); w.Text == "" {
			w.Text = event.TimerText(&w.Timer)
		}
		l.list = append(l.list, &w.Text)
	}
	for _, place := range places {
		if w := &requests[place]; w.deadLetter() != setPlain {
			l.add(tombstone(w.Timer), identity(w.Timer), w.order())
		}
	}
}

// appliedTimer reads what setTimersScript says of wishes at some places, and when. It did not try
// the last ones.
func appliedTimer(reply []string, places []int, out []AppliedTimer) (untried []int, now time.Time, err error) {
	if len(reply) < 3 || len(reply[2]) != len(places) {
		return nil, now, errReply
	}
	seconds, _ := strconv.ParseInt(reply[0], 10, 64)
	microseconds, _ := strconv.ParseInt(reply[1], 10, 64)
	now = time.Unix(seconds, microseconds*int64(time.Microsecond)).UTC()
	done, whys := reply[2], reply[3:]
	for i, place := range places {
		if done[i] == '?' {
			return places[i:], now, nil
		}
		out[place].Mine = done[i] != '0'
		if done[i] == '!' && len(whys) > 0 {
			out[place].Err = failed("set a timer", errors.New(whys[0]))
			whys = whys[1:]
		}
	}
	return nil, now, nil
}
