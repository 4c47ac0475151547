package engine

import (
	"context"
	"os"
	"time"

	"flunq.io/flunq/engine/store"
)

// heartbeat registers the process in Redis while Run is under way, so that doctor, top
// and start know who runs what. The simulator steps the services itself and has none.
type heartbeat struct {
	store *store.Store
	entry store.Process
	swept time.Time
}

func (e *Engine) newHeartbeat() *heartbeat {
	host, _ := os.Hostname() // unknown is empty
	h := &heartbeat{store: e.Store, entry: store.Process{
		Name: e.opts.Process, Command: e.opts.Command, Host: host, PID: os.Getpid(), Version: e.opts.Version,
		Tenants: e.opts.Tenants, All: e.opts.Discover, Embedded: e.opts.Embedded, Transient: e.opts.Transient,
	}}
	if e.opts.Discover {
		h.entry.Tenants = nil
	}
	for _, s := range []store.RunningService{
		{Name: "worker", Group: e.opts.Worker.Group, Consumers: e.consumers("worker", min(e.opts.Workers, 1))},
		{Name: "executor", Group: e.opts.Executor.Group, Consumers: e.consumers("executor", min(e.opts.Executors, 1))},
		{Name: "timer", Group: e.opts.Timer.Group, Consumers: e.consumers("timer", e.opts.Timers)},
	} {
		if len(s.Consumers) > 0 {
			h.entry.Services = append(h.entry.Services, s)
		}
	}
	return h
}

// service is the heartbeat as one of the services that Run loops over.
func (h *heartbeat) service() Service {
	return Service{Group: "heartbeat", Name: "heartbeat-" + h.entry.Name, Step: h.Step, Every: store.HeartbeatEvery}
}

// Step renews the entry, and now and then removes those of processes long gone.
func (h *heartbeat) Step(ctx context.Context) (wake time.Time, err error) {
	if err := h.store.Register(ctx, &h.entry); err != nil {
		return wake, err
	}
	now := h.entry.Heartbeat
	if now.Sub(h.swept) >= seekEvery {
		if err := h.store.ForgetProcesses(ctx); err != nil {
			return wake, err
		}
		h.swept = now
	}
	return now.Add(store.HeartbeatEvery), nil
}

// signOff notes that the process has stopped.
func (h *heartbeat) signOff(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return h.store.SignOff(ctx, &h.entry)
}
