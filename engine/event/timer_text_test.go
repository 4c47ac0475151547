package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// timers returns timers of every form.
func timers() []event.Timer {
	at := time.Date(2026, 1, 31, 12, 0, 0, 120_000_000, time.UTC)
	return []event.Timer{
		{},
		{Tenant: "acme", FireAt: at},
		{
			Tenant: "acme", Workflow: "test.wf", Execution: "x-1", TaskID: "/do/0/wait#2@1", TaskName: "wait", FireAt: at,
			DurationMS: 3_600_000, Kind: event.WaitTimer, Key: "reminder", MovedTo: at.Add(time.Hour + 1),
		},
		{Tenant: "acme", TaskName: `a "quoted" \ <b>&ü` + "\u2028\x00", FireAt: at, Kind: event.RetryTimer},
		{Tenant: "acme", FireAt: at.In(time.FixedZone("", 3600)), DurationMS: -5, MovedTo: time.Unix(0, 1).UTC()},
		{Tenant: "acme", FireAt: at, Kind: event.DeliveryTimer, Event: json.RawMessage(`{"id": "1"}`)},
	}
}

// The results equal those of encoding/json, byte for byte.
func TestTimerText(t *testing.T) {
	t.Parallel()
	for _, timer := range timers() {
		if got, want := event.TimerText(&timer), string(event.Encode(timer)); got != want {
			t.Errorf("timer\n got %s\nwant %s", got, want)
		}
		fired := event.Fired{Timer: timer, ScheduledFor: timer.Due(), FiredAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
		if got, want := event.FiredText(&fired), string(event.Encode(fired)); got != want {
			t.Errorf("fired\n got %s\nwant %s", got, want)
		}
	}
}

// ScanTimer accepts what Encode writes, except in rare cases.
func TestScanTimer(t *testing.T) {
	t.Parallel()
	for i, timer := range timers()[:3] {
		if got, ok := event.ScanTimer(string(event.Encode(timer))); !ok || !cmp.Equal(got, timer) {
			t.Errorf("timer %d: got %+v, %t", i, got, ok)
		}
		fired := event.Fired{Timer: timer, ScheduledFor: timer.Due(), FiredAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
		if got, ok := event.ScanFired([]byte(event.FiredText(&fired))); !ok || !cmp.Equal(got, fired) {
			t.Errorf("fired %d: got %+v, %t", i, got, ok)
		}
	}
	for _, text := range []string{
		"", "}", "{", `,"fire_at":"2026-01-01T00:00:00Z"}`, `{"tenant_id":"acme","fire_at":""}`,
		`{"tenant_id":"acme"} `, `{"tenant_id":"acme","duration_ms":}`, `{"tenant_id":"a\n"}`,
		`{"tenant_id":"acme","fire_at":"2026-01-01T01:00:00+01:00"}`, `{"tenant_id":"acme","fire_at":"tomorrow"}`,
	} {
		if got, ok := event.ScanTimer(text); ok {
			t.Errorf("ScanTimer(%q) = %+v", text, got)
		}
		if got, ok := event.ScanFired([]byte(strings.Replace(text, "}", `,"scheduled_for":"2026-01-01T00:00:00Z","fired_at":"soon"}`, 1))); ok {
			t.Errorf("ScanFired(%q…) = %+v", text, got)
		}
	}
}

// What ScanTimer reads, json.Unmarshal reads the same, and Encode writes back.
func FuzzScanTimer(f *testing.F) {
	for _, timer := range timers() {
		text := string(event.Encode(timer))
		f.Add(text)
		f.Add(strings.Replace(text, "Z", "+00:00", 1))
		f.Add(strings.Replace(text, ":", ": ", 1))
	}
	f.Add(`{"tenant_id":"a"}`)
	f.Add(`{"tenant_id":"a","fire_at":"2026-01-01T00:00:00.50Z"}`)
	f.Add(`{"tenant_id":"a","fire_at":"2026-01-01T00:00:00Z","duration_ms":0}`)
	f.Add(`{"tenant_id":"a","task_name":"","fire_at":"2026-01-01T00:00:00.0000000001Z","key":""}`)
	f.Add(`{"tenant_id":"","fire_at":"2026-01-01T00:00:00Z","moved_to":"0001-01-01T00:00:00Z"}`)
	f.Add(`{"tenant_id":"a","duration_ms":007}`)
	f.Add(`{"tenant_id":"a","duration_ms":999999999999999999999}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := event.ScanTimer(text)
		if !ok {
			return
		}
		var want event.Timer
		if err := json.Unmarshal([]byte(text), &want); err != nil || !cmp.Equal(got, want) {
			t.Errorf("ScanTimer(%q) = %+v, json %+v, %v", text, got, want, err)
		}
		if event.TimerText(&got) != text || string(event.Encode(want)) != text {
			t.Errorf("TimerText of %q is %s", text, event.TimerText(&got))
		}
	})
}

func BenchmarkTimerText(b *testing.B) {
	timer := timers()[2]
	for b.Loop() {
		event.TimerText(&timer)
	}
}

func BenchmarkScanTimer(b *testing.B) {
	text := string(event.Encode(timers()[2]))
	for b.Loop() {
		if _, ok := event.ScanTimer(text); !ok {
			b.Fatal("it cannot be read")
		}
	}
}
