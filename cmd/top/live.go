// Package top shows an engine that runs somewhere: what tui.Source asks for, over
// its Redis.
package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/cmd/operate"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/inspect"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/tui"
)

// Options say which engine is shown.
type Options struct {
	Tenant  string
	Place   string // where it is, for people
	Version string // of flunq, for recordings
	Folder  string // that recordings are written to

	Operator string // who acts, for histories

	Worker, Executor, Timer string        // groups of the services
	Lease                   time.Duration // after which a silent process has lost what it had
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Tenant: "default", Folder: ".", Operator: "unknown", Lease: 30 * time.Second,
		Worker: store.WorkerGroup, Executor: store.ExecutorGroup, Timer: store.TimerGroup,
	}
}

// Live is an engine as the screen sees it.
type Live struct {
	opts  Options
	store *store.Store
	lib   *definitions.Cache

	mild   bool // a Redis that does not tell when consumers have shown up
	sample sampler
	known  tenants
	docs   documents
	follow follower
	looks  *inspect.Examiner
}

// patience is how long Redis may take for one answer.
const patience = 4 * time.Second

// New is the engine on a Redis. If that is one of a flunq dev with a clock that can
// be moved, it is a tui.Timekeeper as well.
func New(ctx context.Context, rdb *redis.Client, opts Options) (tui.Source, error) {
	st := store.New(rdb.WithTimeout(patience), store.Options{})
	server, err := st.Server(ctx)
	if err != nil {
		return nil, lost(ctx, err)
	}
	l := &Live{
		opts: opts, store: st, lib: definitions.New(st, decide.Options{Version: opts.Version}),
		mild: server.Version == "",
	}
	l.looks = &inspect.Examiner{Store: l.store, Definitions: l.lib}
	var now dev.Clock
	switch err := operate.AskClock(ctx, rdb, &now, "SHOW"); {
	case errors.Is(err, operate.ErrClock):
		return l, nil
	case err != nil:
		return nil, lost(ctx, err)
	case now.Mode == dev.Virtual:
		return &Virtual{Live: l, rdb: rdb, start: now.Now}, nil
	default:
		return l, nil
	}
}

// lost is an error as the screen wants to have it: one that may pass is tui.ErrLost.
func lost(ctx context.Context, err error) error {
	passes := store.Temporary(err) || errors.Is(err, operate.ErrSilent)
	if err == nil || !passes || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", tui.ErrLost, err)
}

// tenants are those on the Redis, as they were known a moment ago.
type tenants struct {
	mu    sync.Mutex
	names []string
	asked time.Time
}

// tenantsEvery is how often they are asked for.
const tenantsEvery = 30 * time.Second

func (t *tenants) all(ctx context.Context, st *store.Store) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.IsZero() && time.Since(t.asked) < tenantsEvery {
		return t.names, nil
	}
	names, err := st.Tenants(ctx)
	if err == nil {
		t.names, t.asked = names, time.Now()
	}
	return names, err
}
