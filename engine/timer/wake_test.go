package timer_test

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// A timer that is set while the services sleep fires when it is due, even if they would
// sleep longer.
func TestServicesWakeForNewTimers(t *testing.T) {
	t.Parallel()
	const sleep = time.Minute
	w, r := services(t, 2, sleep)
	eventually(t, "they wait", func() bool { return r.waiting.Load() > 0 })
	now, err := w.st.Now(t.Context())
	must(t, err)
	due := now.Add(150 * time.Millisecond)
	w.send(t, event.TimerScheduled, `{"task_id":"/do/0/wait","kind":"wait","fire_at":"`+due.Format(time.RFC3339Nano)+`"}`)
	worker := stream.Reader{Group: store.WorkerGroup, Consumer: "w1", Tenants: []string{tenant}}
	for {
		got, err := stream.New(w.st).Read(t.Context(), worker, 10, time.Second)
		msgs, now := got.Messages, got.Now
		must(t, err)
		for _, m := range msgs {
			if m.Event.Type != event.TimerFired {
				continue
			}
			if late := now.Sub(due); late < 0 || late > sleep/2 {
				t.Errorf("it fired %v late", late)
			}
			return
		}
		if now.Sub(due) > 2*sleep {
			t.Fatal("it did not fire")
		}
	}
}
