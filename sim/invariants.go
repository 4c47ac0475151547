package sim

import (
	"fmt"
	"iter"
	"net/http"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/store"
)

// checkTimerTimes checks that timers fire neither early, nor later than the faults explain.
func (w *simulation) checkTimerTimes(id string, history []event.Event, broken reportFunc) {
	slack := w.slack()
	for fired := range firings(history) {
		if fired.early {
			broken("no timer is early", id, "%s fired at %v, was due at %v", fired.task, fired.at, fired.due)
		}
		if fired.late > slack {
			broken("no timer is late", id, "%s fired at %v, was due at %v, and the faults explain %v", fired.task, fired.at, fired.at.Add(-fired.late), slack)
		}
	}
}

// latest returns the largest delay of a timer in a history.
func latest(history []event.Event) (late time.Duration) {
	for fired := range firings(history) {
		late = max(late, fired.late)
	}
	return late
}

// firing is a timer that has fired.
type firing struct {
	task    string
	at, due time.Time
	late    time.Duration // since it was both due and set
	early   bool          // and no operator fired it
}

// firings returns the fired timers of a history.
func firings(history []event.Event) iter.Seq[firing] {
	return func(yield func(firing) bool) {
		eachFiring(history, yield)
	}
}

func eachFiring(history []event.Event, yield func(firing) bool) {
	set := map[string]time.Time{}
	for _, e := range history {
		var t event.Fired
		if e.Type != event.TimerFired && e.Type != event.TimerScheduled || decide.DecodeData(e, &t) != nil {
			continue
		}
		key := t.TaskID + " " + string(t.Kind) + " " + t.Key
		if e.Type == event.TimerScheduled {
			set[key] = e.Time
			continue
		}
		when := t.Due() // an operator may have moved it
		early := t.By == "" && e.Time.Before(when)
		if !yield(firing{t.TaskID, e.Time, when, e.Time.Sub(later(when, set[key])), early}) {
			return
		}
	}
}

// slack is how long the faults can have delayed a timer.
func (w *simulation) slack() time.Duration {
	slack := time.Second
	for _, s := range w.struck {
		slack += s.Cost() + 2*w.cfg.Waits // the service that knew of a timer may be gone
	}
	slack += w.operators.rested + time.Duration(w.poison.crashes())*Recovery
	for _, r := range w.reached {
		if r.URL == w.cfg.crashURL {
			slack += Recovery
		}
	}
	return slack
}

// checkRepeatedCalls checks that without faults no call reaches its service twice.
func (w *simulation) checkRepeatedCalls(broken reportFunc) {
	if len(w.struck) > 0 || w.cfg.crashURL != "" || w.cfg.Poison > 0 {
		return
	}
	for d, n := range w.actions {
		if n > 1 {
			broken("a call is made once where nothing goes wrong", d.Execution, "%s %s of %s reached the world %d times", d.Method, d.URL, d.Task, n)
		}
	}
}

// keyed checks the idempotency key of a call: a task run keeps its key over all
// deliveries and attempts, and no other run has the same one. A key that the document
// sets is the document's responsibility, so reused only reports it.
func (w *simulation) keyed(from executor.Origin, req *http.Request) {
	key := req.Header.Get(idempotencyKey)
	run := from.Execution + " " + event.Run{Ref: from.Run.Ref, Iteration: from.Run.Iteration}.String()
	if w.ownKey(from) {
		w.reused(Action{from.Execution, from.Run.String(), req.Method, req.URL.Redacted()}, run, key)
		return
	}
	if key == "" {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.report("what changes something has an idempotency key", from.Execution, req.Method+" "+req.URL.Redacted()+" has none")
		}
		return
	}
	if known := w.idempotency[run]; known != "" && known != key {
		w.report("an idempotency key stays", from.Execution, "that of "+from.Run.String()+" was "+known+", and is "+key)
	}
	if other := w.idempotency["key "+key]; other != "" && other != run {
		w.report("an idempotency key is of one run", from.Execution, key+" is of "+other+" and of "+run)
	}
	w.idempotency[run], w.idempotency["key "+key] = key, run
}

// acted checks what services do with messages. In particular nobody may claim a message
// from a process that is alive and has received all replies.
func (w *simulation) acted(a delivery.Activity) {
	if a.What == delivery.Began && w.current != nil {
		w.current.tenant = a.Message.Tenant
	}
	w.checkDisowned(a)
	w.isolated.acted(w, a)
	w.crashOnType(a)
	w.crashOnPoison(a)
	w.refuseTimer(a)
	if a.What != delivery.Claimed {
		return
	}
	for _, s := range w.struck {
		if s.Kind != DropRequest && s.Kind != CallLost {
			return
		}
	}
	for _, p := range w.processes {
		if p.incarnation > 0 || p.dead {
			return
		}
	}
	w.report("no message is claimed from a live process", a.Message.Event.Execution, fmt.Sprintf("%s %s went to %s", a.Message.Event.Type, a.Message.Event.ID, a.Consumer))
}

// report records a violation that is found while the simulation runs.
func (w *simulation) report(rule, execution, detail string) {
	w.violations = append(w.violations, Violation{rule, execution, detail})
}

// leftoverKeys checks that no list of listeners is left once all executions have
// ended.
func (w *simulation) leftoverKeys(broken reportFunc) {
	for _, tenant := range w.tenants {
		for _, key := range w.memory.Keys(store.Keys{}.Listeners(tenant, "")) {
			broken("no listener is left once all executions have ended", "", "%s is left", key)
		}
	}
}
