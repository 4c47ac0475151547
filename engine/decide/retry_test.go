package decide_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// A listen task that continues after a retry subscribes again to the events that it still
// waits for.
func TestRetrySubscribes(t *testing.T) {
	t.Parallel()
	x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - orders:
      listen: {to: {any: [{with: {type: com.example.order}}], until: "${ length >= 2 }"}}
      foreach: {item: order, do: [ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}]}
`)
	x.apply(decide.Received(event.Event{ID: "1", Source: "/o", Type: "com.example.order"}, "x"))
	failed := x.apply(event.Event{
		Type: event.TaskCompleted, Task: "/do/0/orders/foreach/do/0/ask#0",
		Data: []byte(`{"success":false,"error":{"type":"communication","status":503}}`),
	})
	if !slices.Equal(failed.Unlisten, []string{"com.example.order"}) {
		t.Errorf("a failure unsubscribes %q", failed.Unlisten)
	}
	retried := x.apply(event.Event{Type: event.ExecutionRetried})
	if !slices.Equal(retried.Listen, []string{"com.example.order"}) {
		t.Errorf("a retry subscribes %q", retried.Listen)
	}
}

// A retried task is skipped if its condition no longer holds.
func TestRetrySkips(t *testing.T) {
	t.Parallel()
	x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - soon: {if: "${ now < 1767225700 }", call: http, with: {method: get, endpoint: "https://a.example/"}}
  - nap: {wait: PT1S}
`)
	x.apply(event.Event{Type: event.TaskDead, Task: "/do/0/soon", Data: []byte(`{"reason":"r"}`)})
	x.now = x.now.Add(time.Hour)
	x.apply(event.Event{Type: event.ExecutionRetried})
	if open := x.state.Open(); len(open) != 1 || open[0].Run.Ref != "/do/1/nap" {
		t.Errorf("continues with %v", open)
	}
}

// What a suspended execution waits for includes that it is suspended.
func TestSuspendedAwaits(t *testing.T) {
	t.Parallel()
	x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - nap: {wait: PT1S}
`)
	x.apply(event.Event{Type: event.ExecutionSuspended})
	if x.state.Status != decide.Suspended || len(x.state.Awaits(nil)) != 1 {
		t.Errorf("%s, and awaits %q", x.state.Status, x.state.Awaits(nil))
	}
}

// What a task in a loop awaits names the iteration.
func TestLoopAwaits(t *testing.T) {
	t.Parallel()
	x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - each: {for: {in: "${ [1, 2] }"}, do: [{hear: {listen: {to: {one: {with: {type: a}}}}}}]}
`)
	if got := x.state.Awaits(nil); !slices.Equal(got, []string{"/do/0/each/do/0/hear[0] listens for a"}) {
		t.Errorf("awaits %q", got)
	}
}

// running is an execution in the middle of a test.
type running struct {
	*testing.T
	env   *decide.Env
	state *decide.State
	now   time.Time
}

func begun(t *testing.T, doc string) *running {
	t.Helper()
	def, _, err := dsl.Parse("workflow.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	x := &running{T: t, env: decide.NewEnv(def, decide.Options{}), state: decide.New(), now: start}
	x.apply(event.Event{Type: event.ExecutionStarted, Data: []byte(`{"namespace":"test","name":"case"}`)})
	return x
}

// apply applies an event that must have an effect.
func (x *running) apply(e event.Event) decide.Decision {
	x.Helper()
	e.Time, e.Tenant, e.Execution = x.now, "default", "x"
	var d decide.Decision
	applied, err := x.state.Apply(x.env, e, &d)
	if err != nil || !applied {
		x.Fatalf("%s: applied %v, %v", e.Type, applied, err)
	}
	return d
}

// What expressions compute is checked like what the document states: an emitted event must be a
// CloudEvent, and what a task requires must not be null.
func TestComputedChecks(t *testing.T) {
	t.Parallel()
	const emit, raise, run = `emit: {event: {with: {type: a.b, `, `raise: {error: {status: 400, `, `run: {workflow: {version: "${ null }", `
	for task, want := range map[string]string{
		emit + `id: "${ \"\" }"}}}`:                          "the id of the event is empty",
		emit + `source: "${ \"\" }"}}}`:                      "the source of the event is empty",
		emit + `time: "${ \"yesterday\" }"}}}`:               `the time of the event is "yesterday", want one such as 2026-01-31T08:00:00Z`,
		emit + `time: "${ 5 }"}}}`:                           `the time of the event is "5", want one such as 2026-01-31T08:00:00Z`,
		raise + `type: "${ null }"}}`:                        "the type of an error is null, want text",
		raise + `type: "a:b", title: "${ .x }", detail: d}}`: "d",
		raise + `type: "a:b", detail: "${ .x }"}}`:           "",
		run + `namespace: test, name: "${ .x }"}}`:           "the name of the workflow to run is null, want text",
	} {
		x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - tell: {`+task+`}
`)
		x.state.Advance(x.env, &decide.Decision{})
		if p := x.state.Error; p == nil || p.Detail != want || p.Title == "null" {
			t.Errorf("%s: %v, want %s", task, p, want)
		}
	}
}

// A divergence says what was decided and what was found, even if one of them is missing.
func TestDivergenceMessage(t *testing.T) {
	t.Parallel()
	ask := event.Event{Type: event.TaskRequested, Task: "/do/0/ask"}
	other := ask
	other.Data = []byte("{}")
	for want, d := range map[string]decide.Divergence{
		"decided io.flunq.task.requested /do/0/ask, found nothing":                {Want: ask},
		"decided nothing, found io.flunq.task.requested /do/0/ask":                {Got: ask},
		"decided io.flunq.task.requested /do/0/ask, found it with different data": {Want: ask, Got: other},
	} {
		d.Version = 7
		if got := d.Error(); got != "history diverges at event 7: "+want {
			t.Errorf("%q, want it to say %q", got, want)
		}
	}
}

// An emitted event does not carry the attributes by which the engine delivers messages.
func TestEmitDropsOwnAttributes(t *testing.T) {
	t.Parallel()
	x := begun(t, `
document: {dsl: "1.0.3", namespace: test, name: case, version: "1.0.0"}
do:
  - tell: {emit: {event: {with: {type: a.b, subject: s, attempt: "99", packed: '["type","x"]', taskid: /do/9/x}}}}
`)
	var d decide.Decision
	x.state.Advance(x.env, &d)
	if got, want := fmt.Sprint(d.Publish[0].Ext, d.Publish[0].Task), "map[subject:s]"; got != want {
		t.Errorf("published with %s, want %s", got, want)
	}
}
