package decide_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Events arrive in any order and any number of times. At every moment, the history and the
// snapshot both yield the live state; an event without effect changes nothing; nothing
// starts while an execution is suspended; and no two task runs share an id.
func TestEveryPrefix(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			def, _, err := dsl.Parse("workflow.yaml", section(archive, "workflow.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var begin input
			if err := json.NewDecoder(strings.NewReader(string(section(archive, "events.jsonl")))).Decode(&begin); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(25) {
				c := &chaos{
					T: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, now: start, state: decide.New(),
					env: decide.NewEnv(def, decide.Options{Remote: seed%2 == 1}), ids: map[string]bool{},
				}
				c.offer(event.ExecutionStarted, "", begin.Data)
				for range 40 {
					c.step()
				}
			}
		})
	}
}

// chaos applies random events, repeated and out of order, to one execution.
type chaos struct {
	*testing.T
	*rand.Rand
	seed  uint64
	env   *decide.Env
	now   time.Time
	state *decide.State

	history []event.Event
	given   []event.Event // events from outside
	asked   []string      // tasks that an executor or a child performs
	timers  []event.Timer // all timers ever set
	types   []string      // all event types ever listened for
	ids     map[string]bool
}

func (c *chaos) step() {
	c.now = c.now.Add(time.Duration(c.IntN(5000)) * time.Millisecond)
	switch n := c.IntN(20); {
	case n < 5 && len(c.asked) > 0:
		result := `{"success":true,"output":{"a":1,"ok":true}}`
		if c.IntN(3) == 0 {
			result = `{"success":false,"error":{"type":"communication","status":503,"title":"x"}}`
		}
		c.offer(event.TaskCompleted, pick(c, c.asked), []byte(result))
	case n < 8 && len(c.timers) > 0:
		timer := pick(c, c.timers)
		if c.now.Before(timer.FireAt) {
			c.now = timer.FireAt
		}
		c.offer(event.TimerFired, timer.TaskID, event.Encode(event.Fired{Timer: timer, ScheduledFor: timer.FireAt, FiredAt: c.now}))
	case n < 10 && len(c.types) > 0:
		typ := strings.ReplaceAll(pick(c, c.types), "*", "com.example.any")
		c.apply(decide.Received(event.Event{
			ID: fmt.Sprint("event-", len(c.given)), Source: "/out", Type: event.Type(typ), Time: c.now, Data: []byte(`{"order":1,"n":2}`),
		}, "x"))
	case n < 11:
		c.offer(event.TaskDead, pick(c, append(c.asked, "/none")), event.Encode(event.Dead{Reason: "r", Attempts: 3, Service: "executor"}))
	case n < 12 && c.IntN(3) == 0:
		c.offer(event.EventDead, "", event.Encode(event.Dead{Reason: "r", Attempts: 3, Service: "worker"}))
	case n < 13:
		c.offer(event.ExecutionSuspended, "", []byte(`{}`))
	case n < 15:
		c.offer(event.ExecutionResumed, "", []byte(`{}`))
	case n < 16 && len(c.timers) > 0:
		change := event.TimerChange{Timer: pick(c, c.timers), By: "ada"}
		change.MovedTo = c.now.Add(time.Duration(c.IntN(5000)) * time.Millisecond)
		c.offer([]event.Type{event.TimerScheduled, event.TimerCancelled}[c.IntN(2)], change.TaskID, event.Encode(change))
	case n < 17:
		c.offer(event.ExecutionRetried, "", []byte(`{}`))
	case n < 18:
		c.apply(pick(c, c.given)) // a repeated delivery
	default:
		c.abort()
	}
	if c.IntN(8) == 0 {
		c.migrate()
	}
	for range c.IntN(4) {
		c.advance()
	}
}

// migrate moves the execution to another Env of its own document, which changes only the
// history.
func (c *chaos) migrate() {
	if c.state.Status == "" || c.state.Status.Ended() {
		return
	}
	e := event.Event{
		ID: fmt.Sprint("migrated-", len(c.history)), Source: "/test", Type: event.ExecutionMigrated, Time: c.now,
		Tenant: "default", Workflow: "test.case", Execution: "x", Data: event.Encode(event.Migrated{By: "ada@laptop"}),
	}
	before := snapshot(c.T, c.state)
	env := decide.NewEnv(c.env.Definition(), decide.Options{Remote: c.seed%2 == 1})
	var d decide.Decision
	next, err := c.state.Migrate(env, e, &d)
	if err != nil {
		c.Fatalf("seed %d: migrate: %v", c.seed, err)
	}
	if diff := cmp.Diff(before, snapshot(c.T, c.state)); diff != "" {
		c.Fatalf("seed %d: migrating changes the state before:\n%s", c.seed, diff)
	}
	if len(d.History) != 1 || len(d.Publish)+len(d.Cancel)+len(d.Listen)+len(d.Unlisten) > 0 || next.Version != c.state.Version+1 || next.Status != c.state.Status {
		c.Fatalf("seed %d: migrated: %+v", c.seed, d)
	}
	if a, b := c.state.Needs(c.env).Listen, next.Needs(env).Listen; !slices.Equal(a, b) {
		c.Fatalf("seed %d: it listened for %v, and now for %v", c.seed, a, b)
	}
	c.state, c.env = next, env
	c.check(d)
}

func pick[T any](c *chaos, from []T) T { return from[c.IntN(len(from))] }

func (c *chaos) offer(typ event.Type, task string, data []byte) {
	c.apply(event.Event{
		ID: fmt.Sprint("in-", len(c.given)), Source: "/test", Type: typ, Time: c.now,
		Tenant: "default", Workflow: "test.case", Execution: "x", Task: task, Data: data,
	})
}

func (c *chaos) apply(e event.Event) {
	c.given = append(c.given, e)
	before, paused := snapshot(c.T, c.state), c.state.Paused
	var d decide.Decision
	applied, err := c.state.Apply(c.env, e, &d)
	if err != nil {
		c.Fatalf("seed %d: %v", c.seed, err)
	}
	if !applied {
		if diff := cmp.Diff(before, snapshot(c.T, c.state)); diff != "" || len(d.History)+len(d.Publish)+len(d.Cancel) > 0 {
			c.Fatalf("seed %d: %s has no effect but changes the state:\n%s", c.seed, e.Type, diff)
		}
		return
	}
	if paused && c.state.Paused && (len(d.History) != 1 || len(d.Publish) > 0) {
		c.Fatalf("seed %d: %s has an effect on a suspended execution", c.seed, e.Type)
	}
	c.check(d)
}

func (c *chaos) advance() {
	if !c.state.Ready() {
		return
	}
	if c.state.Paused {
		c.Fatalf("seed %d: a suspended execution is ready", c.seed)
	}
	var d decide.Decision
	c.state.Advance(c.env, &d)
	c.check(d)
}

// abort aborts the execution as a worker does when it cannot continue it.
func (c *chaos) abort() {
	if c.state.Status == "" || c.state.Status.Ended() || c.IntN(4) > 0 {
		return
	}
	stub := decide.New()
	stub.Tenant, stub.Workflow, stub.Execution = c.state.Tenant, c.state.Workflow, c.state.Execution
	stub.Version, stub.Status = c.state.Version, c.state.Status
	d := stub.Abort(c.now, event.Dead{Reason: "poison", Attempts: 3, Service: "worker"})
	c.history = append(c.history, d.History...)
	rebuilt, err := decide.Rebuild(c.env, c.history)
	if err != nil {
		c.Fatalf("seed %d: rebuild what was given up: %v", c.seed, err)
	}
	if rebuilt.Status != decide.Faulted || rebuilt.Version != stub.Version || rebuilt.Error.Detail != stub.Error.Detail {
		c.Fatalf("seed %d: given up, and rebuilt as %s, version %d: %v", c.seed, rebuilt.Status, rebuilt.Version, rebuilt.Error)
	}
	size := 0
	for _, e := range c.history {
		size += len(e.Data)
	}
	if rebuilt.Bytes != size {
		c.Fatalf("seed %d: given up, and rebuilt with %d bytes of data, the history has %d", c.seed, rebuilt.Bytes, size)
	}
	c.state = rebuilt
}

// check compares the state with those rebuilt from the history and restored from a
// snapshot, and continues with one of the three.
func (c *chaos) check(d decide.Decision) {
	c.history = append(c.history, d.History...)
	for _, e := range d.History {
		if e.Type == event.TaskRequested {
			if c.ids[e.Task] {
				c.Fatalf("seed %d: task %s is requested twice", c.seed, e.Task)
			}
			c.ids[e.Task] = true
		}
	}
	c.types = append(c.types, d.Listen...)
	for _, e := range d.Publish {
		c.published(e)
	}
	kept := snapshot(c.T, c.state)
	rebuilt, err := decide.Rebuild(c.env, c.history)
	if err != nil {
		c.Fatalf("seed %d: rebuild: %v", c.seed, err)
	}
	if diff := cmp.Diff(kept, snapshot(c.T, rebuilt)); diff != "" {
		c.Fatalf("seed %d: the rebuilt state differs (-kept +rebuilt):\n%s", c.seed, diff)
	}
	fromSnapshot := restored(c.T, c.env, c.state)
	c.state = []*decide.State{c.state, rebuilt, fromSnapshot}[c.IntN(3)]
}

func (c *chaos) published(e event.Event) {
	switch e.Type {
	case event.TaskRequested:
		c.asked = append(c.asked, e.Task)
	case event.ExecutionStarted:
		var child event.Started
		if err := json.Unmarshal(e.Data, &child); err != nil {
			c.Fatal(err)
		}
		if child.ParentTask != "" {
			c.asked = append(c.asked, child.ParentTask)
		}
	case event.TimerScheduled:
		var timer event.Timer
		if err := json.Unmarshal(e.Data, &timer); err != nil {
			c.Fatal(err)
		}
		c.timers = append(c.timers, timer)
	default:
	}
}
