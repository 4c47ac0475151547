package timer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Producers may give a time with any offset, or a duration.
func TestStepReadsEveryWayToSayWhen(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]time.Duration{
		`{"duration":"PT2S"}`:                                  2 * time.Second,
		`{"duration":"30m45s"}`:                                30*time.Minute + 45*time.Second,
		`{"duration":"P1D"}`:                                   24 * time.Hour,
		`{"duration":"2026-01-01T00:00:09Z"}`:                  9 * time.Second,
		`{"duration_ms":1,"duration":"PT2S"}`:                  time.Millisecond,
		`{"fire_at":"2025-12-31T19:00:03-05:00"}`:              3 * time.Second,
		`{"fire_at":"2026-01-01T00:00:04.000000001Z"}`:         4*time.Second + time.Microsecond,
		`{"fire_at":"2026-01-01T00:00:05Z","kind":"reminder"}`: 5 * time.Second,
	} {
		w := newEnvironment(t)
		s := w.service(t, "t1")
		w.send(t, event.TimerScheduled, data)
		if wake := w.finish(t, s); wake != want {
			t.Errorf("%s wakes after %v, want %v", data, wake, want)
		}
	}
}

// The duration of an event without a time counts from its entry in the stream, however late it is read.
func TestStepCountsFromTheEntry(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{
		Stream: streamKey, Values: []string{"id", "1", "type", string(event.TimerScheduled), "data", `{"duration":"PT5S"}`},
	}).Err())
	w.mini.SetTime(start().Add(2 * time.Second))
	if wake := w.finish(t, s); wake != 5*time.Second {
		t.Errorf("it wakes after %v, want 5s", wake)
	}
}

// A timer without a kind is a wait, and members that only the engine sets are dropped.
func TestStepKeepsWhatATimerIs(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	w.send(t, event.TimerScheduled, `{"fire_at":"2026-01-01T02:00:00+01:00","moved_to":"2025-01-01T00:00:00Z","event":{"a":"b"}}`)
	w.finish(t, s)
	const want = `{"tenant_id":"acme","workflow_id":"test.wf","execution_id":"x-1","task_id":"/do/0/wait",` +
		`"fire_at":"2026-01-01T01:00:00Z","kind":"wait"}`
	if got := w.rdb.ZRange(t.Context(), timersKey, 0, -1).Val(); len(got) != 1 || got[0] != want {
		t.Errorf("timers %v, want %s", got, want)
	}
}

// The reason in a dead letter says what is expected.
func TestStepSaysWhatIsWanted(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"fire_at":"soon"}`:     `fire_at "soon", want RFC 3339`,
		`{"fire_at":12}`:         "fire_at",
		`{"duration":"a while"}`: `duration "a while", want ISO 8601 such as PT2S, or 30m45s`,
		`{"duration_ms":0}`:      "neither fire_at (RFC 3339) nor duration_ms",
		`{"fire_at":"2026-01-02T00:00:00Z","kind":"delivery"}`: "leave kind out",
	} {
		w := newEnvironment(t)
		s := w.service(t, "t1")
		w.send(t, event.TimerScheduled, data)
		w.finish(t, s)
		deadLetters := w.rdb.XRange(t.Context(), streamKey+":dlq", "-", "+").Val()
		if len(deadLetters) != 1 {
			t.Fatalf("%s: %d dead letters", data, len(deadLetters))
		}
		if reason, _ := deadLetters[0].Values["reason"].(string); !strings.Contains(reason, want) {
			t.Errorf("%s: reason %q, want %q", data, reason, want)
		}
	}
}

// A timer with a key replaces the one set before, and the key alone cancels it.
func TestStepReplacesByKey(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	for _, data := range []string{`{"key":"k","duration":"PT1H"}`, `{"key":"k","duration":"PT2H"}`, `{"key":"k","duration":"PT1M"}`} {
		w.send(t, event.TimerScheduled, data)
	}
	if wake := w.finish(t, s); wake != time.Minute || w.rdb.ZCard(t.Context(), timersKey).Val() != 1 {
		t.Fatalf("it wakes after %v, %d timers", wake, w.rdb.ZCard(t.Context(), timersKey).Val())
	}
	w.send(t, event.TimerCancelled, `{"key":"k"}`)
	if wake := w.finish(t, s); wake >= 0 || w.rdb.XLen(t.Context(), streamKey+":dlq").Val() != 0 {
		t.Errorf("it wakes after %v", wake)
	}
}
