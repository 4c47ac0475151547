//go:build unix

package torture_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	settimers "flunq.io/flunq/engine/store/timers"
)

// pendingInputs returns the inputs that are set, by execution.
func (w *environment) pendingInputs() map[string]int {
	w.t.Helper()
	members, err := w.rdb.ZRange(w.t.Context(), timersKey, 0, -1).Result()
	w.must(err)
	out := map[string]int{}
	for _, member := range members {
		var t event.Timer
		w.must(json.Unmarshal([]byte(member), &t))
		if t.Kind == event.InputTimer {
			out[t.Execution]++
		}
	}
	return out
}

// A workflow sets its own input again in the transition that consumes it. Whatever dies, it consumes each
// exactly once, and at most one is set at any moment.
func TestHeartbeat(t *testing.T) {
	w := begin(t)
	rounds, kills := size(60, 1_000), size(4, 30)
	w.run(2, role{Workers: 2, Timers: 2, Block: time.Second})
	def := w.define("heartbeat", `do:
  - all:
      for: {each: i, in: "[range($workflow.input.rounds)]"}
      do:
        - arm: {emit: {event: {with: {type: beat, flunqafter: PT0.02S, flunqkey: beat, data: {round: "${ $i }"}}}}}
        - hear: {listen: {to: {one: {with: {type: beat}}}}}
`)
	began := time.Now()
	w.start("x", def, map[string]any{"rounds": rounds})
	peak := 0
	w.during(size(1500*time.Millisecond, 25*time.Second), map[string]int{"kill": kills, "look": 10 * kills}, func(what string) {
		if what == "kill" {
			w.kill(w.random(2))
		}
		peak = max(peak, w.pendingInputs()["x"])
	})
	w.settle(store.TimerGroup, store.WorkerGroup)

	s, err := w.ended("x")
	w.must(err)
	seen := map[string]bool{}
	for _, e := range s.history {
		if e.Type == event.EventReceived {
			seen[e.ID] = true
		}
	}
	w.report("rounds=%d kills=%d received=%d distinct=%d most set at once=%d took=%v",
		rounds, kills, s.count(event.EventReceived), len(seen), peak, time.Since(began).Round(time.Millisecond))
	if s.Status != "completed" || s.count(event.EventReceived) != rounds || len(seen) != rounds || peak > 1 {
		t.Errorf("the execution is %s after %d inputs, %d distinct, of %d; up to %d were set at the same time", s.Status, s.count(event.EventReceived), len(seen), rounds, peak)
	}
	w.noDeadLetters()
}

// Inputs reach their executions once and not before they are due, whatever dies. Inputs that are
// cancelled in time never do.
func TestInputs(t *testing.T) {
	w := begin(t, "--appendonly", "yes", "--appendfsync", "everysec")
	executions, each := size(20, 500), size(10, 20)
	doing := map[string]int{"kill": size(3, 50), "kill redis": size(1, 7)}
	span := size(time.Second, 20*time.Second)
	w.run(2, role{Workers: 2, Timers: 2, Block: time.Second})
	def := w.define("inputs", `do:
  - hear: {listen: {to: {any: [{with: {type: input}}], until: "${ length == $workflow.input.count }"}}}
`)
	ids := names("x", executions)
	for _, id := range ids {
		w.start(id, def, map[string]any{"count": each})
	}
	w.until(func() string {
		n, err := w.rdb.SCard(t.Context(), "tenant:"+tenant+":listen:input").Result()
		w.must(err)
		if int(n) < executions {
			return fmt.Sprintf("%d of %d executions listen", n, executions)
		}
		return ""
	})
	from := w.now().Add(size(500*time.Millisecond, 5*time.Second))
	due := map[string]time.Time{} // by the id of the event
	ts := settimers.New(w.store)
	for _, id := range ids {
		for i := range each {
			key := fmt.Sprint("k", i)
			at := from.Add(time.Duration(w.rand.Int64N(int64(span)))).UTC()
			one := event.Timer{
				Tenant: tenant, Workflow: def.ID(), Execution: id, FireAt: at, Kind: event.InputTimer, Key: key,
				Input: event.EncodeInput(event.Event{ID: id + key, Source: "/torture", Type: "input", Data: []byte("1")}),
			}
			_, err := ts.SetInput(t.Context(), one, w.now())
			w.must(err)
			due[one.InputID()] = at
		}
	}
	w.written()
	w.during(from.Add(span).Sub(w.now()), doing, func(what string) {
		if what == "kill" {
			w.kill(w.random(2))
			return
		}
		w.server.Kill()
		w.server.Restart(t)
	})
	w.settle(store.TimerGroup, store.WorkerGroup)

	lost, early, twice := 0, 0, 0
	for _, id := range ids {
		s, err := w.ended(id)
		if err != nil {
			t.Error(err)
			continue
		}
		taken := map[string]bool{}
		for _, e := range s.history {
			if e.Type != event.EventReceived {
				continue
			}
			at, ours := due[e.ID]
			if !ours || !strings.HasPrefix(e.ID, id+"/") {
				t.Errorf("execution %s received %s", id, e.ID)
			}
			if e.Time.Before(at) {
				early++
			}
			if taken[e.ID] {
				twice++
			}
			taken[e.ID] = true
		}
		lost += each - len(taken)
	}
	w.report("inputs=%d kills=%d redis kills=%d lost=%d early=%d taken twice=%d", executions*each, doing["kill"], doing["kill redis"], lost, early, twice)
	w.want("lost", lost, 0)
	w.want("early", early, 0)
	w.want("taken twice", twice, 0)
	w.noDeadLetters()
}

// A cancellation that races with the firing either succeeds, and the input never arrives, or fails,
// and it arrives.
func TestInputsAreCancelledOrArrive(t *testing.T) {
	w := begin(t)
	n := size(60, 1_000)
	w.run(2, role{Workers: 2, Timers: 2, Block: time.Second})
	def := w.define("race", `do:
  - hear: {listen: {to: {any: [{with: {type: input}}], until: "${ .[-1] == \"end\" }"}}}
`)
	w.start("x", def, struct{}{})
	w.until(func() string {
		if ok, err := w.rdb.SIsMember(t.Context(), "tenant:"+tenant+":listen:input", "x").Result(); err != nil || !ok {
			return "an execution that does not listen"
		}
		return ""
	})
	ts := settimers.New(w.store)
	input := func(key string, at time.Time) event.Timer {
		return event.Timer{
			Tenant: tenant, Workflow: def.ID(), Execution: "x", FireAt: at.UTC(), Kind: event.InputTimer, Key: key,
			Input: event.EncodeInput(event.Event{ID: key, Source: "/torture", Type: "input", Data: event.Encode(key)}),
		}
	}
	cancelled := map[string]bool{}
	for i := range n {
		key, now := fmt.Sprint("k", i), w.now()
		one := input(key, now.Add(time.Duration(w.random(4000))*time.Microsecond))
		_, err := ts.SetInput(t.Context(), one, now)
		w.must(err)
		time.Sleep(time.Duration(w.random(4000)) * time.Microsecond) // the race
		found, _, err := ts.List(t.Context(), settimers.Filter{Tenant: tenant, Execution: "x"}, "", 100)
		w.must(err)
		for _, p := range found {
			done, err := ts.Cancel(t.Context(), p, "torture")
			w.must(err)
			if done {
				cancelled[p.InputID()] = true
			}
		}
	}
	w.until(func() string { return w.atRest(store.TimerGroup, store.WorkerGroup) })
	_, err := ts.SetInput(t.Context(), input("end", w.now()), w.now())
	w.must(err)
	w.settle(store.TimerGroup, store.WorkerGroup)
	s, err := w.ended("x")
	w.must(err)
	both, received := 0, s.count(event.EventReceived)-1
	for _, e := range s.history {
		if e.Type == event.EventReceived && cancelled[e.ID] {
			both++
		}
	}
	w.report("inputs=%d cancelled=%d received=%d both=%d neither=%d", n, len(cancelled), received, both, n-len(cancelled)-received+both)
	w.want("inputs that were cancelled and arrived", both, 0)
	w.want("inputs that were neither", n-len(cancelled)-received+both, 0)
	if len(cancelled) == 0 || received == 0 {
		t.Errorf("%d were cancelled, %d arrived: there was no race", len(cancelled), received)
	}
}
