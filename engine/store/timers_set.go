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
}

// AppliedTimer is what became of a request.
type AppliedTimer struct {
	Mine bool  // else the message is not the consumer's any more, and nothing was done
	Err  error // why it cannot be done; then the message is still pending
}

// ApplyTimers sets timers and takes them back, as messages of one consumer ask, those of
// each tenant in their order and at once.
//
// A timer that was taken back before it was set, or whose execution has ended, is
// not set; one with a key takes the place of the one before, unless that was set
// later. Of those with a key the one of that key is taken out, whatever else is
// said of it, unless it was set later. What concerns one message alone is said of
// that; with an error nothing is known of any. The time is Redis' own.
func (s Timers) ApplyTimers(ctx context.Context, requests ...TimerRequest) (out []AppliedTimer, now time.Time, err error) {
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

// mostRequests is how many requests one script applies: Lua takes no more arguments at once. No more are read at once.
const mostRequests = 1000

// places are those of the requests of a tenant.
func places(requests []TimerRequest, tenant string) []int {
	places := make([]int, 0, len(requests))
	for i := range requests {
		if requests[i].Tenant == tenant {
			places = append(places, i)
		}
	}
	return places
}

// tenantsOf are those of requests, in the order in which they appear.
func tenantsOf(requests []TimerRequest) (all []string) {
	for i := range requests {
		tenant := requests[i].Tenant
		if len(all) == 0 || all[len(all)-1] != tenant && !slices.Contains(all, tenant) {
			all = append(all, tenant)
		}
	}
	return all
}

// applyTimers applies the requests at some places, all of which are of one tenant.
func (s Timers) applyTimers(ctx context.Context, tenant string, places []int, requests []TimerRequest, out []AppliedTimer) (now time.Time, err error) {
	const keys, arguments, each, texts = 5, 4, 8, 5 // before those of the messages, and of each message
	h, first := s.store.keysFor(tenant), &requests[places[0]]
	l := textList{
		list: append(make([]any, beforeKeys, beforeKeys+keys+arguments+each*len(places)),
			&h.stream, &h.timers, &h.timerKeys, &h.forgottenKeys, &h.askedTimers),
		texts: make([]string, 0, 2+texts*len(places)),
	}
	from, to := first.ID, first.ID
	for _, place := range places {
		r := &requests[place]
		if compareIDs(r.ID, from) < 0 {
			from = r.ID
		} else if compareIDs(r.ID, to) > 0 {
			to = r.ID
		}
		l.add(s.store.keysFor(r.Timer.Tenant).executions + r.Timer.Execution)
	}
	l.list = append(l.list, &first.Group, &first.Consumer)
	l.add(from, to)
	for _, place := range places {
		r, action := &requests[place], "set"
		if r.Back {
			action = "cancel"
		}
		if r.Text == "" {
			r.Text = event.TimerText(&r.Timer)
		}
		l.list = append(l.list, &r.ID, action)
		l.add(formatScore(r.Timer.Due()))
		l.list = append(l.list, &r.Text)
		l.add(tombstone(r.Timer), identity(r.Timer), r.order())
	}
	reply, err := s.store.call(ctx, setTimersScript, keys+len(places), l.list).StringSlice()
	if err != nil {
		return now, err
	}
	return applied(reply, places, out)
}

// applied reads the reply of setTimersScript about the requests at some places.
func applied(reply []string, places []int, out []AppliedTimer) (now time.Time, err error) {
	if len(reply) < 3 || len(reply[2]) != len(places) {
		return now, errReply
	}
	seconds, _ := strconv.ParseInt(reply[0], 10, 64)
	microseconds, _ := strconv.ParseInt(reply[1], 10, 64)
	results, errs := reply[2], reply[3:]
	for i, place := range places {
		out[place].Mine = results[i] != '0'
		if results[i] == '!' && len(errs) > 0 {
			out[place].Err = failed("set a timer", errors.New(errs[0]))
			errs = errs[1:]
		}
	}
	return time.Unix(seconds, microseconds*int64(time.Microsecond)).UTC(), nil
}
