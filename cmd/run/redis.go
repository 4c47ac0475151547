package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim"
)

// onRedis runs the workflow on a real Redis. This process runs the services, beside those
// of other processes, until the execution ends.
func (r *Runner) onRedis(ctx context.Context, cfg sim.Config) (*sim.Result, error) {
	if r.record != "" || r.speed != "" || r.seed != 1 || r.start != "" && r.start != "now" {
		return nil, cli.Misusef("--record, --speed, --seed and --start require the virtual clock, not --redis-url")
	}
	rdb, err := cli.Dial(ctx, cli.WithPassword(r.Sh, r.redis))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rdb.Close() }()
	cfg.ID = cmp.Or(cfg.ID, strings.ToLower(rand.Text()))
	if (cfg.Mocks != nil || cfg.Secrets != nil) && r.tenant == cli.DefaultTenant {
		// Processes that serve a shared tenant do not have the mocks and secrets of this
		// run.
		cfg.Tenant = store.PrivatePrefix + "run-" + strings.ToLower(rand.Text()[:12])
		fmt.Fprintf(r.Sh.Err, "using the private tenant %s, which no other process serves; it is removed afterwards\n", cfg.Tenant)
	}
	opts := engine.Defaults()
	opts.Process, opts.Command, opts.Transient = cli.ProcessName(), "run", cfg.Tenant != r.tenant
	opts.Tenants = []string{cfg.Tenant}
	opts.Block(watchEvery * 5) // stopping waits for blocked reads
	opts.Secrets, opts.Version = cfg.Secrets, cfg.Version
	opts.Transport = realTransport(cfg)
	e, err := engine.New(rdb, opts)
	if err != nil {
		return nil, err
	}
	result, err := r.follow(ctx, e, cfg)
	return result, errors.Join(err, r.leave(context.WithoutCancel(ctx), e.Store, cfg, result))
}

// leaveTime is the maximum time of the cleanup in Redis.
const leaveTime = 10 * time.Second

// leave sets the status of an execution that has not ended, and removes a tenant that was created for
// this run. For any other tenant it sets r.left if the execution has not ended.
func (r *Runner) leave(ctx context.Context, st *store.Store, cfg sim.Config, result *sim.Result) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	open := false
	found, unread := st.Outlines(ctx, cfg.Tenant, cfg.ID)
	if unread == nil {
		status := decide.Status(found[0].Status)
		if open = status != "" && !status.Ended(); open && result != nil {
			result.Status = status
		}
	}
	if cfg.Tenant != r.tenant {
		err := timers.New(st).RemoveTenant(ctx, cfg.Tenant)
		if err == nil {
			err = st.RemoveTenant(ctx, cfg.Tenant)
		}
		if err != nil {
			return fmt.Errorf("tenant %s is left on this Redis: %w", cfg.Tenant, err)
		}
		if result != nil && !result.Status.Ended() {
			r.left = "the execution was removed with its tenant"
		}
		return nil
	}
	if !open {
		return unread
	}
	missing, err := inspect.New(st).Unserved(ctx, cfg.Tenant, map[string]string{"worker": store.WorkerGroup})
	if err != nil {
		return err
	}
	r.left = fmt.Sprintf("execution %s continues: other processes serve tenant %s", cfg.ID, cfg.Tenant)
	if len(missing) > 0 {
		r.left = fmt.Sprintf("execution %s has not ended: it continues when a process serves tenant %s (flunq serve)", cfg.ID, cfg.Tenant)
	}
	address := r.redis
	if cli.HasPassword(address) {
		address = "…" // the password must not be printed
	}
	r.left += fmt.Sprintf("\nto end it: flunq cancel %s --yes --tenant %s --redis-url %s", cfg.ID, cfg.Tenant, address)
	return nil
}

// realTransport returns the transport of a run on a real Redis: the latency of mocks passes
// in real time.
func realTransport(cfg sim.Config) http.RoundTripper {
	if cfg.Mocks == nil {
		return httpcall.Outward(cfg.Transport)
	}
	return cfg.Mocks.Transport(cli.Pause, nil)
}

// follow starts the execution and prints its history until it ends.
func (r *Runner) follow(ctx context.Context, e *engine.Engine, cfg sim.Config) (*sim.Result, error) {
	if err := r.launch(ctx, e, cfg); err != nil {
		return nil, err
	}
	export := r.exported(&cfg)
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(stop, slog.New(slog.NewTextHandler(r.Sh.Err, nil))) }()
	go sendEvents(stop, e, cfg)
	result, err := r.watch(ctx, e, cfg)
	if result != nil {
		export(result)
	}
	cancel()
	return result, errors.Join(err, <-done)
}

func (r *Runner) launch(ctx context.Context, e *engine.Engine, cfg sim.Config) error {
	if err := e.Prepare(ctx); err != nil {
		return err
	}
	for _, def := range append(cfg.With, cfg.Definition) {
		if _, err := e.Definitions.Register(ctx, cfg.Tenant, def); err != nil {
			return err
		}
	}
	return e.Start(ctx, cfg.Definition, engine.StartRequest{Tenant: cfg.Tenant, ID: cfg.ID, Input: cfg.Input, Nonce: cfg.Nonce})
}

// sendEvents publishes the events of a mocks file at their times.
func sendEvents(ctx context.Context, e *engine.Engine, cfg sim.Config) {
	if cfg.Mocks == nil {
		return
	}
	began := time.Now()
	for i, mock := range cfg.Mocks.Events {
		if cli.Pause(ctx, mock.After-time.Since(began)) != nil {
			return
		}
		out := mock.Event(i, time.Now())
		out.Tenant = cfg.Tenant
		out, err := decide.InputRequest(out, cfg.ID, time.Now())
		if err == nil {
			err = e.Store.Publish(ctx, out)
		}
		if err != nil {
			return // the engine's own services report problems with Redis
		}
	}
}

// watchEvery is the interval between two polls of the history.
const watchEvery = 20 * time.Millisecond

// watch prints the history as it grows, whichever process writes it.
func (r *Runner) watch(ctx context.Context, e *engine.Engine, cfg sim.Config) (*sim.Result, error) {
	result, starts := &sim.Result{Execution: cfg.ID}, sim.Starts{}
	began := time.Now()
	for at := int64(0); ; {
		entries, err := e.Store.History(ctx, cfg.Tenant, cfg.ID, at, 1000)
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		at += int64(len(entries))
		count(result, entries)
		_ = starts.Add(entries) // never fails
		cfg.Observe(entries)
		result.Elapsed = time.Since(began)
		switch {
		case result.Status.Ended():
			return result, nil
		case len(entries) > 0:
			continue
		case cfg.MaxTime > 0 && result.Elapsed > cfg.MaxTime:
			result.Stop = sim.TimeUp
			return result, nil
		case cfg.MaxTasks > 0 && result.Tasks > cfg.MaxTasks:
			result.Stop = sim.TasksUp
			result.Busiest = starts.Busiest(cfg.Definition)
			return result, nil
		}
		select {
		case <-ctx.Done():
			result.Stop = sim.Interrupt
			return result, nil
		case <-time.After(watchEvery):
		}
	}
}

// count adds the events of a part of the history to the result.
func count(result *sim.Result, entries []event.Event) {
	for _, e := range entries {
		result.Events++
		switch e.Type {
		case event.TaskRequested:
			result.Tasks++
		case event.WorkflowCompleted:
			result.Status = decide.Completed
		case event.WorkflowFailed:
			result.Status = decide.Faulted
		case event.WorkflowCancelled:
			result.Status = decide.Cancelled
		default:
			result.Status = decide.Running
		}
		if result.Status.Ended() {
			var ended event.Ended
			if decide.DecodeData(e, &ended) == nil {
				result.Output, result.Error = ended.Output, ended.Error
			}
		}
	}
}
