package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
)

// The JSON of a timer never changes: it is a member of the sorted set of timers, and a process that cancels
// the timer removes it by its text, also in a version before or after this one.
func TestTimerText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 120_000_000, time.UTC)
	for _, c := range []struct {
		timer event.Timer
		want  string
	}{
		{event.Timer{}, `{"tenant_id":"","fire_at":"0001-01-01T00:00:00Z"}`},
		{event.Timer{Tenant: "acme", FireAt: at}, `{"tenant_id":"acme","fire_at":"2026-01-31T12:00:00.12Z"}`},
		{
			event.Timer{
				Tenant: "acme", Workflow: "test.wf", Execution: "x-1", TaskID: "/do/0/wait#2@1", TaskName: "wait", FireAt: at,
				DurationMS: 3_600_000, Kind: event.WaitTimer, Key: "reminder", MovedTo: at.Add(time.Hour + 1),
			},
			`{"tenant_id":"acme","workflow_id":"test.wf","execution_id":"x-1","task_id":"/do/0/wait#2@1","task_name":"wait",` +
				`"fire_at":"2026-01-31T12:00:00.12Z","duration_ms":3600000,"kind":"wait","key":"reminder","moved_to":"2026-01-31T13:00:00.120000001Z"}`,
		},
		{
			event.Timer{Tenant: "acme", TaskName: `a "quoted" \ <b>&ü` + "\u2028\x00", FireAt: at, Kind: event.RetryTimer},
			`{"tenant_id":"acme","task_name":"a \"quoted\" \\ \u003cb\u003e\u0026ü\u2028\u0000","fire_at":"2026-01-31T12:00:00.12Z","kind":"retry"}`,
		},
		{
			event.Timer{Tenant: "acme", FireAt: at, Kind: event.DeliveryTimer, Event: json.RawMessage(`{"id": "1"}`)},
			`{"tenant_id":"acme","fire_at":"2026-01-31T12:00:00.12Z","kind":"delivery","event":{"id":"1"}}`,
		},
		{
			event.Timer{
				Tenant: "acme", Execution: "x-1", FireAt: at, Kind: event.InputTimer, Key: "k", Input: json.RawMessage(`{"type":"a"}`),
				OnReject: "drop", ParkedUntil: at.Add(time.Minute),
			},
			`{"tenant_id":"acme","execution_id":"x-1","fire_at":"2026-01-31T12:00:00.12Z","kind":"input","key":"k","input":{"type":"a"},` +
				`"on_reject":"drop","parked_until":"2026-01-31T12:01:00.12Z"}`,
		},
	} {
		if got := event.TimerText(&c.timer); got != c.want || string(event.Encode(c.timer)) != c.want {
			t.Errorf("timer\n got %s\nelse %s\nwant %s", got, event.Encode(c.timer), c.want)
		}
		for _, by := range []string{"", "ann"} {
			fired := event.Fired{Timer: c.timer, ScheduledFor: at, FiredAt: at.Add(1), By: by}
			if got, want := event.FiredText(&fired), string(event.Encode(fired)); got != want {
				t.Errorf("fired\n got %s\nwant %s", got, want)
			}
		}
	}
	fired := event.Fired{Timer: event.Timer{Tenant: "acme", FireAt: at, Kind: event.WaitTimer}, ScheduledFor: at, FiredAt: at.Add(1), By: "ann"}
	want := `{"tenant_id":"acme","fire_at":"2026-01-31T12:00:00.12Z","kind":"wait","scheduled_for":"2026-01-31T12:00:00.12Z",` +
		`"fired_at":"2026-01-31T12:00:00.120000001Z","by":"ann"}`
	if got := string(event.Encode(fired)); got != want {
		t.Errorf("fired\n got %s\nwant %s", got, want)
	}
}

// ScanTimer reads what the engine writes for a task, and whatever it reads, json.Unmarshal reads the
// same and TimerText writes back.
func FuzzScanTimer(f *testing.F) {
	usual := `{"tenant_id":"acme","workflow_id":"test.wf","execution_id":"x-1","task_id":"/do/0/wait#2@1","task_name":"wait",` +
		`"fire_at":"2026-01-31T12:00:00.12Z","duration_ms":3600000,"kind":"wait","key":"reminder"}`
	if _, ok := event.ScanTimer(usual); !ok {
		f.Errorf("ScanTimer(%s) reads nothing", usual)
	}
	for _, text := range []string{
		usual, `{"tenant_id":"a","fire_at":"2026-01-01T00:00:00Z","kind":"timeout"}`, "", "{", `{"`, `{"tenant_id":"a"}`, `{"tenant_id":"a}","key":"}"}`,
		`{"tenant_id":"a","fire_at":"2026-01-01T00:00:00.50Z"}`, `{"tenant_id":"a","fire_at":"2026-01-01T01:00:00+01:00"}`,
		`{"tenant_id":"a","fire_at":"2026-01-01T00:00:00Z","duration_ms":0}`, `{"tenant_id":"a","fire_at":"2026-01-01T00:00:00Z","duration_ms":007}`,
		`{"tenant_id":"a","task_name":"","fire_at":"2026-01-01T00:00:00.0000000001Z","key":""}`, `{"tenant_id":"a\n","fire_at":"tomorrow"}`,
		`{"tenant_id":"a","fire_at":"2026-01-01T00:00:00Z","duration_ms":999999999999999999999}`, `{"key":"k","tenant_id":"a"}`,
	} {
		f.Add(text)
		f.Add(strings.Replace(text, ":", ": ", 1))
		f.Add(text + "}")
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := event.ScanTimer(text)
		if !ok {
			return
		}
		var want event.Timer
		if err := json.Unmarshal([]byte(text), &want); err != nil || !cmp.Equal(got, want) || event.TimerText(&got) != text {
			t.Errorf("ScanTimer(%q) = %+v, json %+v, %v", text, got, want, err)
		}
	})
}
