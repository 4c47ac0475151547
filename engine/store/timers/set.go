package timers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
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
	order := make([]int, len(requests)) // their indexes, by tenant
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(requests[a].Tenant, requests[b].Tenant) })
	for len(order) > 0 {
		first := &requests[order[0]]
		keys := []string{
			ts.keys.Stream(first.Tenant), ts.keys.Timers(first.Tenant), ts.keys.TimerKeys(first.Tenant), ts.keys.ForgottenKeys(first.Tenant),
			ts.keys.AskedTimers(first.Tenant),
		}
		var answered store.IDRange
		var args []any
		n := 0
		for ; n < len(order) && n < maxRequests && requests[order[n]].Tenant == first.Tenant; n++ {
			r, action := &requests[order[n]], "set"
			if r.Cancel {
				action = "cancel"
			}
			answered.Add(r.ID)
			keys = append(keys, ts.keys.Execution(r.Timer.Tenant, r.Timer.Execution))
			args = append(args, r.ID, action, FormatScore(r.Timer.Due()), ts.member(&r.Timer), store.TimerNote(r.Timer), store.TimerIdentity(r.Timer), r.Order())
		}
		args = append([]any{first.Group, first.Consumer, answered.First, answered.Last}, args...)
		reply, err := setTimersScript().Run(ctx, ts.rdb, keys, args...).StringSlice()
		if err == nil && (len(reply) < 3 || len(reply[2]) != n) {
			err = wire.ErrReply
		}
		if err != nil {
			return nil, now, store.Failed("set timers", err)
		}
		seconds, _ := strconv.ParseInt(reply[0], 10, 64)
		microseconds, _ := strconv.ParseInt(reply[1], 10, 64)
		now = time.Unix(seconds, microseconds*int64(time.Microsecond)).UTC()
		results, errs := reply[2], reply[3:]
		for i, at := range order[:n] {
			out[at].Mine = results[i] != '0'
			if results[i] == '!' && len(errs) > 0 {
				out[at].Err = store.Failed("set a timer", errors.New(errs[0]))
				errs = errs[1:]
			}
		}
		order = order[n:]
	}
	return out, now, nil
}

// maxRequests is the number of requests that one script call applies: Lua limits the arguments.
const maxRequests = 1000

// member returns the member of a timer in the sorted set. Only an input may contain secrets.
func (ts Timers) member(t *event.Timer) string {
	text := event.TimerText(t)
	if t.Input != nil {
		text = ts.store.SealText(text)
	}
	return text
}
