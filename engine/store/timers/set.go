package timers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Request is a message's request to set a timer, or to cancel it if Cancel is set.
type Request struct {
	*store.Message
	Timer  event.Timer
	Cancel bool
}

// Applied is the outcome of a Request.
type Applied struct {
	Mine bool  // the consumer owned the message; otherwise nothing was done
	Err  error // why it failed; if set, the message is still pending
}

// Apply sets and cancels timers as requested by messages of one consumer. One step applies up to
// maxRequests of one tenant, in order.
//
// A timer is not set if it was already cancelled or its execution has ended. A timer with a key
// replaces the earlier timer with that key; cancelling it removes the timer with its key, whatever
// else the request says. Neither affects a timer that was set later. The error of a single message is
// in its Applied. After an error of Apply the outcome is unknown. The returned time is Redis' own.
func (ts Timers) Apply(ctx context.Context, requests ...Request) (out []Applied, now time.Time, err error) {
	out = make([]Applied, len(requests))
	var tenants []string
	places := map[string][]int{} // indexes of the requests of each tenant
	for i := range requests {
		tenant := requests[i].Tenant
		if places[tenant] == nil {
			tenants = append(tenants, tenant)
		}
		places[tenant] = append(places[tenant], i)
	}
	for _, tenant := range tenants {
		for part := range slices.Chunk(places[tenant], maxRequests) {
			if now, err = ts.apply(ctx, tenant, part, requests, out); err != nil {
				return nil, now, store.Failed("set timers", err)
			}
		}
	}
	return out, now, nil
}

// maxRequests is the number of requests that one script call applies: Lua limits the arguments.
const maxRequests = 1000

// apply applies the requests at some indexes, all of one tenant.
func (ts Timers) apply(ctx context.Context, tenant string, places []int, requests []Request, out []Applied) (now time.Time, err error) {
	first := &requests[places[0]]
	keys := []string{ts.keys.Stream(tenant), ts.keys.Timers(tenant), ts.keys.TimerKeys(tenant), ts.keys.ForgottenKeys(tenant), ts.keys.AskedTimers(tenant)}
	var answered store.IDRange
	for _, place := range places {
		r := &requests[place]
		answered.Add(r.ID)
		keys = append(keys, ts.keys.Execution(r.Timer.Tenant, r.Timer.Execution))
	}
	args := []any{first.Group, first.Consumer, answered.First, answered.Last}
	for _, place := range places {
		r, action := &requests[place], "set"
		if r.Cancel {
			action = "cancel"
		}
		args = append(args, r.ID, action, FormatScore(r.Timer.Due()), ts.member(&r.Timer), store.TimerNote(r.Timer), store.TimerIdentity(r.Timer), r.Order())
	}
	reply, err := setTimersScript.Run(ctx, ts.rdb, keys, args...).StringSlice()
	if err != nil {
		return now, err
	}
	if len(reply) < 3 || len(reply[2]) != len(places) {
		return now, wire.ErrReply
	}
	seconds, _ := strconv.ParseInt(reply[0], 10, 64)
	microseconds, _ := strconv.ParseInt(reply[1], 10, 64)
	results, errs := reply[2], reply[3:]
	for i, place := range places {
		out[place].Mine = results[i] != '0'
		if results[i] == '!' && len(errs) > 0 {
			out[place].Err = store.Failed("set a timer", errors.New(errs[0]))
			errs = errs[1:]
		}
	}
	return time.Unix(seconds, microseconds*int64(time.Microsecond)).UTC(), nil
}

// member returns the member of a timer in the sorted set. Only an input may contain secrets.
func (ts Timers) member(t *event.Timer) string {
	text := event.TimerText(t)
	if t.Input != nil {
		text = ts.store.SealText(text)
	}
	return text
}
