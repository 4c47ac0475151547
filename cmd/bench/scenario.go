package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// scenarioRun is a running scenario with its own tenant. It prepares Redis, starts the services,
// gives them work, waits until the work is done, and collects the results.
type scenarioRun struct {
	opts    Options
	rdb     wire.Redis // of the bench, not of the services
	store   *store.Store
	tenant  string
	before  int64 // number of timers that existed before
	results []Result

	progress Progress
}

func newScenarioRun(rdb wire.Redis, opts Options, p Progress) *scenarioRun {
	return &scenarioRun{
		opts: opts, rdb: rdb, store: store.New(rdb, store.Options{}), progress: p,
		tenant: "bench-" + strings.ToLower(rand.Text()[:8]),
	}
}

// timersKey is the set of all timers, or on a cluster of those of the tenant.
func (s *scenarioRun) timersKey() string { return s.store.Keys().Timers(s.tenant) }

func (s *scenarioRun) streamKey() string { return s.store.Keys().Stream(s.tenant) }

// rawKey returns a key for data of the bench itself.
func (s *scenarioRun) rawKey(name string) string {
	return s.store.Keys().Tenant(s.tenant) + ":raw:" + name
}

func (s *scenarioRun) add(r Result) {
	r.Scenario = s.progress.Scenario
	s.results = append(s.results, r)
}

// report reports the progress of a measurement.
func (s *scenarioRun) report(measuring string, share float64) {
	s.progress.Measuring, s.progress.Share = measuring, min(max(share, 0), 1)
	if s.opts.Progress != nil {
		s.opts.Progress(s.progress)
	}
}

// fresh removes earlier data and creates the stream with its groups.
func (s *scenarioRun) fresh(ctx context.Context) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	var err error
	if s.before, err = s.rdb.ZCard(ctx, s.timersKey()).Result(); err != nil {
		return fmt.Errorf("count the timers: %w", err)
	}
	// A new store, since the tenant must be registered again.
	s.store = store.New(s.rdb, store.Options{})
	return stream.New(s.store).Groups(ctx, s.tenant)
}

// clear removes everything that the scenario has written and, unless the Redis is its own,
// nothing else.
func (s *scenarioRun) clear(ctx context.Context) error {
	if s.opts.Own {
		if err := s.rdb.FlushDB(ctx).Err(); err != nil {
			return fmt.Errorf("empty the database: %w", err)
		}
		return nil
	}
	err := wire.EachMaster(ctx, s.rdb, func(ctx context.Context, master wire.Redis, _ string) (err error) {
		for _, tenant := range []string{s.tenant, s.tenant + loadSuffix} {
			keys := master.Scan(ctx, 0, s.store.Keys().Tenant(tenant)+":*", page).Iterator()
			for keys.Next(ctx) {
				err = errors.Join(err, master.Unlink(ctx, keys.Val()).Err())
			}
			err = errors.Join(err, keys.Err())
		}
		return err
	})
	for _, tenant := range []string{s.tenant, s.tenant + loadSuffix} {
		err = errors.Join(err, s.clearTimers(ctx, tenant), s.rdb.SRem(ctx, s.store.Keys().Tenants(), tenant).Err())
	}
	if err != nil {
		return fmt.Errorf("remove the data of tenant %s: %w", s.tenant, err)
	}
	return nil
}

// clearTimers removes the timers of a tenant.
func (s *scenarioRun) clearTimers(ctx context.Context, tenant string) error {
	key := s.store.Keys().Timers(tenant)
	entries := s.rdb.ZScan(ctx, key, 0, `*"tenant_id":"`+tenant+`"*`, page).Iterator()
	var errs []error
	for more := true; more; {
		var members []any
		for len(members) < page {
			if more = entries.Next(ctx); !more {
				break
			}
			members = append(members, entries.Val())
			entries.Next(ctx) // its score
		}
		if len(members) > 0 {
			errs = append(errs, s.rdb.ZRem(ctx, key, members...).Err())
		}
	}
	return errors.Join(append(errs, entries.Err())...)
}

// loadSuffix ends the name of the tenant that causes load.
const loadSuffix = "-load"

// page is the number of items read or sent in one request.
const page = 500

// await polls count until it reaches want, and returns how long that took. It returns an error, and the
// count so far, after stallTimeout without progress.
func (s *scenarioRun) await(ctx context.Context, measuring string, want int, count func(context.Context) (int, error)) (last int, took time.Duration, err error) {
	began := time.Now()
	changed := began
	for {
		n, err := count(ctx)
		if err != nil {
			return last, took, err
		}
		now := time.Now()
		if took = now.Sub(began); n >= want {
			s.report(measuring, 1)
			return n, took, nil
		}
		if n != last {
			changed, last = now, n
			s.report(measuring, float64(n)/float64(want))
		} else if now.Sub(changed) > stallTimeout {
			return last, took, fmt.Errorf("%s: %d of %d after %v, no progress for %v", measuring, n, want, took.Round(time.Second), stallTimeout)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return last, took, err
		}
	}
}

const (
	pollEvery    = 4 * time.Millisecond
	stallTimeout = 30 * time.Second
)

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// profile writes a CPU profile of this process during a scenario.
func (s *scenarioRun) profile(name string) (stop func() error, err error) {
	if s.opts.Profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(s.opts.Profiles, 0o750); err != nil {
		return nil, fmt.Errorf("create the folder for profiles: %w", err)
	}
	cpu, err := os.Create(filepath.Join(s.opts.Profiles, name+".cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		allocations, err := os.Create(filepath.Join(s.opts.Profiles, name+".allocs.pprof"))
		if err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
		err = pprof.Lookup("allocs").WriteTo(allocations, 0)
		return errors.Join(err, allocations.Close(), cpu.Close())
	}, nil
}
