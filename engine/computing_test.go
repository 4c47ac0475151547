package engine_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// An execution that computes endlessly can be cancelled, and delays neither other
// executions nor the stop of its process.
func TestCommandsWhileComputing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Workers, opts.Lease = "computing", http.DefaultTransport, 1, lease
		opts.Block(10 * time.Millisecond)
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- e.Run(ctx, slog.New(slog.DiscardHandler)) }()

		start(t, e, "endless", `do: [{again: {set: {n: '${ [range(1000)] | add }'}, then: again}}]`, "{}")
		start(t, e, "endless-too", `do: [{again: {set: {n: '${ [range(1000)] | add }'}, then: again}}]`, "{}")
		begun(t, e, "endless")
		begun(t, e, "endless-too")
		if err := e.Store.Publish(t.Context(), event.Event{
			ID: "endless/cancel", Source: "/test", Type: event.ExecutionCancelled, Time: time.Now(),
			Tenant: tenant, Execution: "endless", Data: event.Encode(event.Ended{Reason: "enough"}),
		}); err != nil {
			t.Fatal(err)
		}
		if x := ended(t, e, "endless"); x.Status != string(decide.Cancelled) {
			t.Errorf("it is %s, error %s", x.Status, x.Error)
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if x, err := e.Store.Execution(t.Context(), tenant, "endless-too"); err != nil || decide.Status(x.Status).Ended() {
			t.Errorf("the other one is %s, %v", x.Status, err)
		}
	})
}
