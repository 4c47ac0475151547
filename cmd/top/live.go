// Package top implements tui.Source for a running engine through its Redis.
package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/tui"
)

// Options select the engine.
type Options struct {
	Tenant  string
	Place   string // the address to show
	Version string // of flunq, for recordings
	Folder  string // for recordings

	Operator string // the name recorded in histories

	Worker, Executor, Timer string        // consumer groups of the services
	Lease                   time.Duration // after which the messages of a silent process are claimed
}

// Defaults returns the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Tenant: "default", Folder: ".", Operator: "unknown", Lease: 30 * time.Second,
		Worker: store.WorkerGroup, Executor: store.ExecutorGroup, Timer: store.TimerGroup,
	}
}

// Live is a running engine.
type Live struct {
	opts        Options
	store       *store.Store
	definitions *definitions.Cache

	noIdle   bool // this Redis does not report when consumers were last active
	sample   sampler
	tenants  cached[[]string]
	cluster  cached[store.Cluster]
	examiner *examine.Examiner
}

// patience is how long Redis may take to answer a command.
const patience = 4 * time.Second

// New returns the engine on a Redis. For a flunq dev with a virtual clock, the result also
// implements tui.TimeMover.
func New(ctx context.Context, rdb wire.Redis, opts Options) (tui.Source, error) {
	st := store.New(wire.WithTimeout(rdb, patience), store.Options{})
	server, err := st.Server(ctx)
	if err != nil {
		return nil, lost(ctx, err)
	}
	l := &Live{
		opts: opts, store: st, definitions: definitions.New(st, decide.Options{Version: opts.Version}),
		noIdle: server.Version == "",
	}
	l.examiner = &examine.Examiner{Store: l.store, Definitions: l.definitions}
	var now dev.Clock
	switch err := actions.AskClock(ctx, rdb, &now, "SHOW"); {
	case err != nil && !errors.Is(err, actions.ErrClock):
		return nil, lost(ctx, err)
	case now.Mode == dev.Virtual:
		return &Virtual{Live: l, rdb: rdb, start: now.Now}, nil
	default:
		return l, nil
	}
}

// lost wraps an error that may be temporary in tui.ErrLost.
func lost(ctx context.Context, err error) error {
	passes := store.Temporary(err) || errors.Is(err, actions.ErrSilent)
	if err == nil || !passes || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", tui.ErrLost, err)
}

// cached is a value that is read again when it is too old.
type cached[T any] struct {
	mu    sync.Mutex
	value T
	asked time.Time
}

func (c *cached[T]) get(ctx context.Context, maxAge time.Duration, read func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < maxAge {
		return c.value, nil
	}
	value, err := read(ctx)
	if err == nil {
		c.value, c.asked = value, time.Now()
	}
	return value, err
}
