package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// timerRequest is a request to set a timer, or to cancel it.
type timerRequest struct {
	timer  event.Timer
	cancel bool
}

// timerRequests publishes requests and reads them together.
func (w *environment) timerRequests(t *testing.T, asks ...timerRequest) (out []timers.Request) {
	t.Helper()
	_, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t0"), 1000, 0) // earlier entries
	must(t, err)
	for i, a := range asks {
		e := historyEvent(fmt.Sprint("asked", i), event.TimerScheduled)
		if a.cancel {
			e.Type = event.TimerCancelled
		}
		e.Tenant, e.Data = tenant, event.Encode(a.timer)
		must(t, w.Publish(t.Context(), e))
	}
	got, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t1"), 10_000, 0)
	msgs := got.Messages
	must(t, err)
	if len(msgs) != len(asks) {
		t.Fatalf("read %d messages, want %d", len(msgs), len(asks))
	}
	for i := range msgs {
		out = append(out, timers.Request{Message: &msgs[i], Timer: asks[i].timer, Cancel: asks[i].cancel})
	}
	return out
}

// appliedTimer applies requests and returns the result of each: "+" done, "-" another's,
// "!" failed.
func (w *environment) appliedTimer(t *testing.T, requests []timers.Request) string {
	t.Helper()
	out, now, err := timers.New(w.Store).Apply(t.Context(), requests...)
	must(t, err)
	if later, err := w.Now(t.Context()); err != nil || now.IsZero() || now.After(later) {
		t.Errorf("applied at %v, before %v: %v", now, later, err)
	}
	var text strings.Builder
	for _, g := range out {
		switch {
		case g.Err != nil:
			text.WriteString("!")
		case g.Mine:
			text.WriteString("+")
		default:
			text.WriteString("-")
		}
	}
	return text.String()
}

var requestGroups = []check{
	{"a timer that was requested twice fires once", func(t *testing.T, w *environment) {
		now, err := w.Now(t.Context())
		must(t, err)
		foreign := func(execution string, after time.Duration) timerRequest {
			timer := reminder("", 0)
			timer.Execution, timer.FireAt = execution, now.Add(after)
			return timerRequest{timer: timer}
		}
		if got := w.appliedTimer(t, w.timerRequests(t, foreign("p-1", -time.Second), foreign("p-2", time.Hour))); got != "++" {
			t.Errorf("applied %s", got)
		}
		w.fireAll(t)
		// These were written without a reply; the third one is new.
		if got := w.appliedTimer(t, w.timerRequests(t, foreign("p-1", -time.Second), foreign("p-2", time.Hour), foreign("p-3", -time.Second))); got != "+++" {
			t.Errorf("applied %s", got)
		}
		found, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 10)
		must(t, err)
		if len(found) != 2 || found[0].Execution != "p-3" || found[1].Execution != "p-2" {
			t.Errorf("set are %v, want those of p-3 and p-2", found)
		}
	}},
	{"many requests are applied in order", func(t *testing.T, w *environment) {
		all := w.timerRequests(t,
			timerRequest{timer: reminder("", 0)},
			timerRequest{timer: reminder("a", time.Hour)},
			timerRequest{timer: reminder("", 0), cancel: true}, // the first one, which has just been set
			timerRequest{timer: reminder("", 2*time.Second)},
			timerRequest{timer: reminder("a", time.Minute)}, // instead of the one of an hour
			timerRequest{timer: reminder("b", time.Second)},
			timerRequest{timer: reminder("b", 0), cancel: true},
			timerRequest{timer: reminder("", 3*time.Second), cancel: true}, // does not exist
			timerRequest{timer: reminder("", 3*time.Second)},
			timerRequest{timer: reminder("", 3*time.Second)}, // once more
		)
		if got := w.appliedTimer(t, all); got != strings.Repeat("+", len(all)) {
			t.Errorf("applied %s", got)
		}
		w.wantSet(t, 2*time.Second, 3*time.Second, time.Minute)
		if n := w.pending(t, store.TimerGroup); n != 0 {
			t.Errorf("%d messages are pending", n)
		}
	}},
	{"applying requests together equals applying them one by one", func(t *testing.T, w *environment) {
		var asks []timerRequest
		for i := range uint64(300) {
			h := i * 0x9e3779b97f4a7c15 >> 40
			one := reminder([]string{"", "", "a", "b"}[h%4], time.Duration(h>>2%7)*time.Second)
			asks = append(asks, timerRequest{one, h>>5%3 == 0})
		}
		for _, one := range w.timerRequests(t, asks...) {
			if got := w.appliedTimer(t, []timers.Request{one}); got != "+" {
				t.Fatalf("applied %s", got)
			}
		}
		want := w.setTimes(t)
		must(t, w.rdb.Del(t.Context(), timersKey, "flunq:timers:keys", "flunq:timers:keys:forgotten").Err())
		w.appliedTimer(t, w.timerRequests(t, asks...))
		w.wantSet(t, want...)
		if len(want) == 0 {
			t.Error("nothing is set")
		}
	}},
	{"thousands of requests are applied in one call", func(t *testing.T, w *environment) {
		const n = 5000
		var asks []timerRequest
		for i := range n {
			asks = append(asks, timerRequest{timer: timer(time.Duration(i))})
		}
		if got := w.appliedTimer(t, w.timerRequests(t, asks...)); got != strings.Repeat("+", n) || w.timers(t) != n || w.pending(t, store.TimerGroup) != 0 {
			t.Errorf("%d timers, %d pending, want %d and none", w.timers(t), w.pending(t, store.TimerGroup), n)
		}
	}},
	{"claimed and acknowledged requests are skipped, and no others", func(t *testing.T, w *environment) {
		lost := w.timerRequests(t, timerRequest{timer: timer(0)})
		stolen := w.claimByOther(t, *lost[0].Message)
		all := w.timerRequests(t, timerRequest{timer: timer(time.Second)}, timerRequest{timer: timer(2 * time.Second)})
		must(t, w.rdb.XAck(t.Context(), streamKey, store.TimerGroup, all[1].ID).Err())
		all = slices.Concat(lost, all)
		if got := w.appliedTimer(t, all); got != "-+-" || w.timers(t) != 1 || w.pending(t, store.TimerGroup) != 1 {
			t.Errorf("applied %s; %d timers, %d pending", got, w.timers(t), w.pending(t, store.TimerGroup))
		}
		if got := w.appliedTimer(t, []timers.Request{{Message: &stolen, Timer: timer(0)}}); got != "+" || w.timers(t) != 2 {
			t.Errorf("the other consumer's request: %s, %d timers", got, w.timers(t))
		}
		if got := w.appliedTimer(t, all); got != "---" || w.timers(t) != 2 {
			t.Errorf("applied again: %s, %d timers", got, w.timers(t))
		}
	}},
	{"of many consecutive requests a claimed one is skipped, whatever else the consumer has", func(t *testing.T, w *environment) {
		for _, other := range []string{"before", "behind", "nothing"} {
			if other == "before" { // as many as requested are the consumer's
				must(t, w.Publish(t.Context(), historyEvent("other", event.TaskCompleted)))
				_, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t1"), 1, 0)
				must(t, err)
			}
			var asks []timerRequest
			for i := range 6 {
				asks = append(asks, timerRequest{timer: timer(time.Duration(i))})
			}
			all, before := w.timerRequests(t, asks...), w.pending(t, store.TimerGroup)
			if other == "behind" {
				must(t, w.Publish(t.Context(), historyEvent("other", event.TaskCompleted)))
				_, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t1"), 1, 0)
				must(t, err)
				before++
			}
			must(t, w.rdb.XClaim(t.Context(), &redis.XClaimArgs{
				Stream: streamKey, Group: store.TimerGroup, Consumer: "other", Messages: []string{all[2].ID},
			}).Err())
			if got := w.appliedTimer(t, all); got != "++-+++" || w.pending(t, store.TimerGroup) != before-5 {
				t.Errorf("with another %s: applied %s, %d pending of %d", other, got, w.pending(t, store.TimerGroup), before)
			}
		}
		if n := w.timers(t); n != 5 {
			t.Errorf("%d timers, want 5", n)
		}
	}},
	{"a removed group has no requests", func(t *testing.T, w *environment) {
		all := w.timerRequests(t, timerRequest{timer: timer(0)}, timerRequest{timer: timer(1)})
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.TimerGroup).Err())
		if got := w.appliedTimer(t, all); got != "--" || w.timers(t) != 0 {
			t.Errorf("applied %s, %d timers", got, w.timers(t))
		}
	}},
	{"a request that was cancelled, or whose execution has ended, is not applied with others", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Cancel = []event.Timer{timer(0)}
		w.commit(t, c, store.Committed)
		ended := timer(time.Second)
		ended.Execution = "x-2"
		must(t, w.rdb.HSet(t.Context(), "tenant:acme:execution:x-2", "status", "completed").Err())
		all := w.timerRequests(t, timerRequest{timer: timer(0)}, timerRequest{timer: ended}, timerRequest{timer: timer(2 * time.Second)})
		if got := w.appliedTimer(t, all); got != "+++" || w.timers(t) != 1 {
			t.Errorf("applied %s; %d timers, want the last one", got, w.timers(t))
		}
		for name := range w.rdb.HGetAll(t.Context(), executionKey).Val() {
			if strings.HasPrefix(name, "gone:") {
				t.Errorf("tombstone %s is left", name)
			}
		}
	}},
	{"a timer that is cancelled before it is set is not set", func(t *testing.T, w *environment) {
		all := w.timerRequests(t,
			timerRequest{timer: reminder("", 0)}, timerRequest{timer: reminder("", time.Second)}, // read by one,
			timerRequest{timer: reminder("", 0), cancel: true}, // and this by a faster consumer
			timerRequest{timer: reminder("", 0)},               // is requested once more
		)
		if got := w.appliedTimer(t, all[2:3]); got != "+" || w.timers(t) != 0 {
			t.Errorf("applied %s, %d timers", got, w.timers(t))
		}
		if got := w.appliedTimer(t, all[:2]); got != "++" || w.timers(t) != 1 {
			t.Errorf("applied %s, %d timers, want the other one", got, w.timers(t))
		}
		if got := w.appliedTimer(t, all[3:]); got != "+" || w.timers(t) != 2 {
			t.Errorf("applied %s, %d timers, want both", got, w.timers(t))
		}
	}},
	{"a request that cannot be applied reports why, and stays pending", func(t *testing.T, w *environment) {
		bad := timer(0)
		bad.Execution = "bad"
		must(t, w.rdb.Set(t.Context(), "tenant:acme:execution:bad", "mine", 0).Err())
		all := w.timerRequests(t, timerRequest{timer: timer(0)}, timerRequest{timer: bad}, timerRequest{timer: timer(time.Second)}, timerRequest{timer: bad, cancel: true})
		out, _, err := timers.New(w.Store).Apply(t.Context(), all...)
		must(t, err)
		if !out[0].Mine || out[0].Err != nil || out[1].Err == nil || out[2].Err != nil || out[3].Err == nil {
			t.Errorf("applied %v", out)
		}
		if store.Temporary(out[1].Err) || !strings.Contains(out[1].Err.Error(), "WRONGTYPE") {
			t.Errorf("error %v", out[1].Err)
		}
		if w.timers(t) != 2 || w.pending(t, store.TimerGroup) != 2 {
			t.Errorf("%d timers, %d pending, want 2 and 2", w.timers(t), w.pending(t, store.TimerGroup))
		}
	}},
	{"keys of another type leave all requests pending", func(t *testing.T, w *environment) {
		for _, key := range []string{timersKey, "flunq:timers:keys", "flunq:timers:keys:forgotten"} {
			all := w.timerRequests(t, timerRequest{timer: timer(0)}, timerRequest{timer: reminder("a", 0)})
			must(t, w.rdb.Set(t.Context(), key, "mine", 0).Err())
			err := w.unchanged(t, func() error {
				if got := w.appliedTimer(t, all); got != "!!" {
					t.Errorf("%s: applied %s", key, got)
				}
				return nil
			})
			must(t, err)
			must(t, w.rdb.Del(t.Context(), key).Err())
		}
	}},
	{"each tenant has its own requests", func(t *testing.T, w *environment) {
		must(t, stream.New(w.Store).Groups(t.Context(), "other"))
		var asked []timers.Request
		for i := range 4 {
			e := historyEvent(fmt.Sprint("o", i), event.TimerScheduled)
			e.Tenant = []string{tenant, "other"}[i%2]
			must(t, w.Publish(t.Context(), e))
		}
		r := reader(store.TimerGroup, "t1")
		r.Tenants = append(r.Tenants, "other")
		got, err := stream.New(w.Store).Read(t.Context(), r, 10, 0)
		msgs := got.Messages
		must(t, err)
		for i, m := range msgs {
			one := timer(time.Duration(i))
			one.Tenant = m.Tenant
			asked = append(asked, timers.Request{Message: &msgs[i], Timer: one})
		}
		asked[0], asked[2] = asked[2], asked[0] // as claimed ones are among new ones
		if got := w.appliedTimer(t, asked); got != "++++" || w.timers(t) != 4 || w.pending(t, store.TimerGroup) != 0 {
			t.Errorf("applied %s; %d timers, %d pending", got, w.timers(t), w.pending(t, store.TimerGroup))
		}
	}},
}
