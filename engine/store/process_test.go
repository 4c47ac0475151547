package store_test

import (
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
)

// services returns the groups of the services by name.
func services() map[string]string {
	return map[string]string{"worker": store.WorkerGroup, "executor": store.ExecutorGroup, "timer": store.TimerGroup}
}

// process returns one that runs some services, each as a consumer of its own.
func process(name string, running ...string) *processes.Process {
	p := &processes.Process{Name: name}
	for _, service := range running {
		p.Services = append(p.Services, processes.Service{
			Name: service, Group: services()[service], Consumers: []string{service + "-" + name},
		})
	}
	return p
}

// unserved fails the test unless exactly these services are missing for a tenant.
func (w *environment) unserved(t *testing.T, tenant string, want ...string) {
	t.Helper()
	if got, err := inspect.New(w.Store).Unserved(t.Context(), tenant, services()); err != nil || !slices.Equal(got, want) {
		t.Errorf("unserved for %s: %v, %v, want %v", tenant, got, err, want)
	}
}

var registrations = []check{
	{"a process registers and signs off", func(t *testing.T, w *environment) {
		w.unserved(t, tenant, "executor", "timer", "worker")
		p := process("p", "worker", "timer")
		p.Tenants = []string{tenant}
		must(t, processes.In(w.Store).Register(t.Context(), p))
		w.unserved(t, tenant, "executor")
		w.unserved(t, "another", "executor", "timer", "worker")
		all := process("all", "executor")
		all.All = true
		must(t, processes.In(w.Store).Register(t.Context(), all))
		w.unserved(t, tenant)
		w.unserved(t, "new", "timer", "worker")
		must(t, processes.In(w.Store).SignOff(t.Context(), p))
		w.unserved(t, tenant, "timer", "worker")
		brief := process("brief", "timer")
		brief.Transient = true
		must(t, processes.In(w.Store).Register(t.Context(), brief))
		must(t, processes.In(w.Store).SignOff(t.Context(), brief))
		known, now, err := processes.In(w.Store).All(t.Context())
		must(t, err)
		if len(known) != 2 || known[0].Alive(now) == known[1].Alive(now) {
			t.Errorf("%+v", known)
		}
	}},
	{"a process without heartbeats counts as dead, and is forgotten later", func(t *testing.T, w *environment) {
		if w.mini == nil {
			t.Skip("the clock of a real Redis cannot be set")
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		p, inside := process("p", "worker"), process("inside", "worker")
		inside.Embedded, inside.Tenants, p.All = true, []string{"dev"}, true
		must(t, processes.In(w.Store).Register(t.Context(), p))
		must(t, processes.In(w.Store).Register(t.Context(), inside))
		w.mini.SetTime(at.Add(processes.DeadAfter))
		w.unserved(t, tenant, "executor", "timer")
		w.mini.SetTime(at.Add(-time.Hour)) // the clock has gone back since the heartbeat
		w.unserved(t, tenant, "executor", "timer", "worker")
		w.mini.SetTime(at.Add(processes.DeadAfter + time.Second))
		w.unserved(t, tenant, "executor", "timer", "worker")
		w.unserved(t, "dev", "executor", "timer") // it lives while its Redis answers
		must(t, processes.In(w.Store).Forget(t.Context()))
		if known, _, err := processes.In(w.Store).All(t.Context()); err != nil || len(known) != 2 {
			t.Errorf("%+v, %v", known, err)
		}
		must(t, processes.In(w.Store).Register(t.Context(), p)) // it was frozen, and continues
		w.unserved(t, tenant, "executor", "timer")
		if !p.Started.Equal(at) {
			t.Errorf("started %v, want %v", p.Started, at)
		}
		w.mini.SetTime(at.Add(2*processes.ForgottenAfter + time.Minute))
		must(t, processes.In(w.Store).Forget(t.Context()))
		if known, _, err := processes.In(w.Store).All(t.Context()); err != nil || len(known) != 1 || known[0].Name != "inside" {
			t.Errorf("%+v, %v", known, err)
		}
	}},
	{"an unregistered reader counts, a stopped process does not", func(t *testing.T, w *environment) {
		if w.mini != nil {
			t.Skip("miniredis does not say when a consumer has read")
		}
		w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		w.unserved(t, tenant, "executor", "timer")
		w.read(t, store.ExecutorGroup, "executor-p")
		w.unserved(t, tenant, "timer")
		p := process("p", "executor")
		must(t, processes.In(w.Store).Register(t.Context(), p))
		must(t, processes.In(w.Store).SignOff(t.Context(), p))
		w.unserved(t, tenant, "executor", "timer")
	}},
	{"an entry that is no process is skipped", func(t *testing.T, w *environment) {
		must(t, w.rdb.HSet(t.Context(), store.ProcessesKey, "a", "{", "b", `{"process":"c"}`).Err())
		if known, _, err := processes.In(w.Store).All(t.Context()); err != nil || len(known) != 0 {
			t.Errorf("%+v, %v", known, err)
		}
	}},
}
