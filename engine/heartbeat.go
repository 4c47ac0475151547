package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
)

// heartbeat registers the process in Redis while Run is active so that the commands doctor,
// top and start can find it.
type heartbeat struct {
	store    *store.Store
	breakers *breaker.Set
	health   func() []Health
	entry    processes.Process
	swept    time.Time // when entries of other processes were last removed
	wait     int       // steps until the entry is written again
}

// beatEvery is the interval at which the heartbeat checks the circuit breakers for a change,
// which it writes immediately.
const beatEvery = time.Second

// maxCircuits is the maximum number of circuit breakers in an entry.
const maxCircuits = 20

func (e *Engine) newHeartbeat() *heartbeat {
	host, _ := os.Hostname() // empty if unknown
	h := &heartbeat{store: e.Store, breakers: e.opts.Breakers, health: e.Health, entry: processes.Process{
		Name: e.opts.Process, Command: e.opts.Command, Host: host, PID: os.Getpid(), Version: e.opts.Version,
		Tenants: e.opts.Tenants, All: e.opts.Discover, Embedded: e.opts.Embedded, Transient: e.opts.Transient,
		LeaseMS: e.opts.Lease.Milliseconds(), Limits: &processes.Limits{Executions: e.opts.Open, RedisPercent: e.opts.RedisPercent},
	}}
	if e.opts.Discover {
		h.entry.Tenants = nil
	}
	for _, s := range []processes.Service{
		{Name: "worker", Group: e.opts.Worker.Group, Consumers: e.consumers("worker", min(e.opts.Workers, 1))},
		{Name: "executor", Group: e.opts.Executor.Group, Consumers: e.consumers("executor", min(e.opts.Executors, 1))},
		{Name: "timer", Group: e.opts.Timer.Group, Consumers: e.consumers("timer", e.opts.Timers)},
	} {
		if len(s.Consumers) > 0 {
			h.entry.Services = append(h.entry.Services, s)
		}
	}
	if e.opts.Bridge != nil {
		h.entry.Services = append(h.entry.Services, processes.Service{Name: "bridge", Group: e.opts.BridgeGroup, Consumers: []string{}})
	}
	return h
}

// service returns the heartbeat as a service for Run.
func (h *heartbeat) service() Service {
	return Service{Kind: "heartbeat", Name: "heartbeat-" + h.entry.Name, Step: h.Step, Every: beatEvery}
}

// Step renews the entry if it is due or a circuit breaker has changed. Every few minutes it
// removes entries of processes that stopped long ago.
func (h *heartbeat) Step(ctx context.Context) (wake time.Time, err error) {
	circuits := h.circuits()
	if h.wait--; h.wait > 0 && slices.Equal(circuits, h.entry.Circuits) {
		return wake, nil
	}
	h.wait, h.entry.Circuits = 0, circuits
	for i := range h.entry.Services {
		h.entry.Services[i].Failing = ""
	}
	for _, s := range h.health() {
		if one := h.entry.Service(s.Kind); one != nil && s.Status == Unhealthy {
			one.Failing = fmt.Sprintf("%.300s", s.Err)
		}
	}
	if err := processes.In(h.store).Register(ctx, &h.entry); err != nil {
		return wake, err
	}
	now := h.entry.Heartbeat
	if now.Sub(h.swept) >= sweepEvery {
		if err := processes.In(h.store).Forget(ctx); err != nil {
			return wake, err
		}
		h.swept = now
	}
	h.wait = int(processes.HeartbeatEvery / beatEvery)
	return now.Add(processes.HeartbeatEvery), nil
}

// circuits returns the breakers that are not closed.
func (h *heartbeat) circuits() (out []processes.Circuit) {
	for _, b := range h.breakers.States() {
		if b.State != breaker.Closed && len(out) < maxCircuits {
			out = append(out, processes.Circuit{Tenant: b.Tenant, Host: b.Host, Failures: b.Failures, Until: b.Until})
		}
	}
	return out
}

// signOff records that the process has stopped.
func (h *heartbeat) signOff(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return processes.In(h.store).SignOff(ctx, &h.entry)
}
