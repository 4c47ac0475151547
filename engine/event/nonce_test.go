package event_test

import (
	"encoding/json"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

// A start without a nonce always gets the same one, and different starts get different
// ones.
func TestWithNonce(t *testing.T) {
	t.Parallel()
	start := event.Event{ID: "x/start", Type: event.ExecutionStarted, Tenant: "a", Execution: "x", Time: time.Unix(1, 0)}
	nonce := func(tenant, data string) string {
		t.Helper()
		e := start
		e.Tenant, e.Data = tenant, json.RawMessage(data)
		var got event.Started
		if err := json.Unmarshal(event.WithNonce(e).Data, &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		return got.Nonce
	}
	first := nonce("a", `{"name":"w","input":{"n":1}}`)
	if len(first) != 16 || nonce("b", `{"name":"w"}`) == first {
		t.Errorf("the nonce is %q, want 16 digits that another tenant does not have", first)
	}
	for _, data := range []string{`{}`, ` { } `, `{"name":"w"}`, `{"nonce":"","name":"w"}`, "{\n\"name\": \"w\"\n}\n"} {
		if got := nonce("a", data); got != first {
			t.Errorf("%s: the nonce is %q, want %q", data, got, first)
		}
	}
	if got := nonce("a", `{"nonce":"mine"}`); got != "mine" {
		t.Errorf("the nonce is %q, want the one that the start has", got)
	}
}
