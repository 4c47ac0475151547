package timer_test

import (
	"encoding/json"
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

// moments returns when the registered timers are due, counted from the start.
func (w *environment) moments(t *testing.T) (out []time.Duration) {
	t.Helper()
	for _, member := range w.rdb.ZRange(t.Context(), timersKey, 0, -1).Val() {
		var one event.Timer
		must(t, json.Unmarshal([]byte(member), &one))
		out = append(out, one.FireAt.Sub(start()))
	}
	return out
}

// keyed returns a timer with a key.
func keyed(key string, after time.Duration) string {
	return strings.Replace(at(after), "{", fmt.Sprintf(`{"key":%q,`, key), 1)
}

// Each event of a batch takes effect, in order, whatever the other events are.
func TestStepTakesBatches(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	for _, e := range []struct {
		typ  event.Type
		data string
	}{
		{event.TimerScheduled, at(time.Minute)},
		{event.TimerScheduled, keyed("a", time.Hour)},
		{event.TaskCompleted, `{}`}, // not for the timer service
		{event.TimerScheduled, `{"fire_at":"soon"}`},
		{event.TimerCancelled, at(time.Minute)},
		{event.TimerScheduled, keyed("a", 2*time.Minute)},
		{event.TimerCancelled, keyed("b", 0)},
		{event.TimerScheduled, at(3 * time.Minute)},
		{event.TimerScheduled, `{"kind":"delivery","duration_ms":1}`},
	} {
		w.send(t, e.typ, e.data)
	}
	if wake := w.finish(t, s); wake != 2*time.Minute {
		t.Errorf("it wakes after %v", wake)
	}
	if got, want := w.moments(t), []time.Duration{2 * time.Minute, 3 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("timers after %v, want %v", got, want)
	}
	if n := w.rdb.XLen(t.Context(), streamKey+":dlq").Val(); n != 2 || w.pending(t) != 0 {
		t.Errorf("%d dead letters, %d pending, want the two that are no timers", n, w.pending(t))
	}
}

// An event claimed from another service is applied once, and both services apply their
// other events.
func TestStepSharesWithAClaimer(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	for i := range 6 {
		w.send(t, event.TimerScheduled, at(time.Duration(i)*time.Hour))
	}
	slow := stream.Reader{Group: store.TimerGroup, Consumer: "slow", Tenants: []string{tenant}}
	got, err := stream.New(w.st).Read(t.Context(), slow, 3, 0)
	msgs := got.Messages
	must(t, err)
	w.mini.SetTime(start().Add(time.Minute))
	w.finish(t, w.service(t, "claimer")) // reads three and claims three
	var requests []timers.Request
	for i := range msgs {
		one := event.Timer{Tenant: tenant, Execution: "slow", FireAt: start().Add(time.Duration(i) * time.Second), Kind: event.WaitTimer}
		requests = append(requests, timers.Request{Message: &msgs[i], Timer: one})
	}
	out, _, err := timers.New(w.st).Apply(t.Context(), requests...)
	must(t, err)
	for _, g := range out {
		if g.Mine {
			t.Error("a claimed message still belongs to its former owner")
		}
	}
	fired := len(w.fired(t))
	if left := w.moments(t); fired+len(left) != 6 || w.pending(t) != 0 {
		t.Errorf("%d fired, %d set, %d pending, want 6 in all", fired, len(left), w.pending(t))
	}
}

// Many due timers of one tenant delay neither another tenant's timers nor new timers.
func TestStepIsFair(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	const crowd = 2000
	must(t, stream.New(w.st).Groups(t.Context(), "noisy"))
	for i := range crowd {
		noisy := event.Timer{Tenant: "noisy", Execution: fmt.Sprint("x", i), FireAt: start().Add(time.Second), Kind: event.WaitTimer}
		z := redis.Z{Score: float64(noisy.FireAt.Unix()), Member: string(event.Encode(noisy))}
		must(t, w.rdb.ZAdd(t.Context(), timersKey, z).Err())
	}
	step := func() {
		t.Helper()
		_, err := s.Step(t.Context())
		must(t, err)
	}
	w.mini.SetTime(start().Add(time.Second))
	for range 4 {
		step()
	}
	// Now a backlog is due, and then another tenant's timer.
	w.send(t, event.TimerScheduled, at(1001*time.Millisecond))
	w.mini.SetTime(start().Add(1001 * time.Millisecond))
	for range 3 {
		step()
	}
	if got := w.fired(t); len(got) != 1 {
		t.Errorf("fired %v while %d of %d others wait, want the one", got, w.rdb.ZCard(t.Context(), timersKey).Val(), crowd)
	}
	w.finish(t, s)
	if n := w.rdb.XLen(t.Context(), "tenant:noisy:events").Val(); n != crowd {
		t.Errorf("%d of the crowd have fired, want %d", n, crowd)
	}
}
