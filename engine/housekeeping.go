package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Retention says which stream entries are kept after all groups have handled them, and which ended
// executions are kept.
type Retention struct {
	Entries  int           // minimum number of entries to keep in each stream
	Age      time.Duration // entries younger than this are also kept
	Finished store.Keep    // ended executions to keep; the zero value keeps all
}

// DefaultRetention returns the Retention of an ordinary deployment: no execution is
// removed.
func DefaultRetention() Retention { return Retention{Entries: 10_000, Age: 10 * time.Second} }

const (
	lookEvery  = time.Second      // look for newly registered tenants, and continue removing executions
	trimEvery  = 10 * time.Second // trim streams, and begin to remove executions
	readEvery  = time.Minute      // reread all registered tenants even if their number is unchanged
	sweepEvery = 5 * time.Minute  // scan all keys for streams of unregistered tenants; remove idle consumers
	idleAfter  = time.Hour        // a consumer without work for this long is removed
	maxPages   = 100              // maximum number of pages of ended executions that one step reads
)

// housekeeping finds tenants, trims their streams, and removes executions that ended long
// ago.
type housekeeping struct {
	store     *store.Store
	tenantSet *delivery.TenantSet
	groups    []string
	discover  bool
	retention Retention
	observe   delivery.Observer
	name      string

	tenants  int64     // number of registered tenants
	readAt   time.Time // when they were last read, by Redis' clock
	scanned  time.Time // when all keys were last scanned
	trimmed  time.Time
	swept    time.Time // when idle consumers were last removed
	searched time.Time // when the last search for ended executions began

	left []string             // tenants yet to be searched for ended executions
	walk store.ForgetProgress // position in the first of them
}

func (e *Engine) addHousekeeping() {
	h := &housekeeping{
		store: e.Store, tenantSet: e.tenantSet, discover: e.opts.Discover, retention: e.opts.Retention,
		groups: e.groups(), observe: e.opts.Activity, name: "housekeeping-" + e.opts.Process,
	}
	every := lookEvery
	if !h.discover && !h.retention.Finished.Bounded() {
		every = trimEvery
	}
	e.add(Service{Kind: "housekeeping", Name: h.name, Step: h.Step, Every: every})
}

// Step does what is due.
func (h *housekeeping) Step(ctx context.Context) (wake time.Time, err error) {
	now, err := h.store.Now(ctx)
	if err != nil {
		return now, err
	}
	if h.discover {
		err = h.findTenants(ctx, now)
	}
	if (h.retention.Entries > 0 || h.retention.Age > 0) && now.Sub(h.trimmed) > trimEvery-lookEvery {
		h.trimmed = now
		err = errors.Join(err, h.trim(ctx, now))
	}
	if h.retention.Finished.Bounded() {
		err = errors.Join(err, h.forget(ctx, now))
	}
	return now.Add(lookEvery), err
}

// forget removes ended executions that the Retention does not keep, tenant by tenant, a bounded
// number per step. Each process does so independently: removing an execution twice is harmless.
func (h *housekeeping) forget(ctx context.Context, now time.Time) error {
	if len(h.left) == 0 {
		if now.Sub(h.searched) < trimEvery {
			return nil
		}
		h.searched, h.left = now, h.tenantSet.Names()
	}
	var errs []error
	for pages := 0; pages < maxPages && len(h.left) > 0; pages++ {
		gone, next, done, err := h.store.Forget(ctx, h.left[0], h.retention.Finished, h.walk)
		if gone > 0 {
			h.observe.Report(delivery.Activity{
				Service: "housekeeping", Consumer: h.name, What: delivery.Removed, Message: store.Message{Tenant: h.left[0]}, Count: gone,
			})
		}
		if h.walk = next; done {
			h.left, h.walk = h.left[1:], store.ForgetProgress{}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// findTenants adds registered tenants and, every few minutes, those that are not registered but have a
// stream in Redis. On a cluster these can be read while the master with the registered ones is down.
func (h *housekeeping) findTenants(ctx context.Context, now time.Time) error {
	names, err := h.registered(ctx, now)
	if now.Sub(h.scanned) >= sweepEvery && (err == nil || h.store.Clustered()) {
		found, otherErr := h.store.FindTenants(ctx)
		names, err = append(names, found...), cmp.Or(err, otherErr)
		if otherErr == nil || len(found) > 0 {
			h.scanned = now
		}
	}
	for _, tenant := range h.tenantSet.Add(names...) {
		err = errors.Join(err, stream.New(h.store).Groups(ctx, tenant, h.groups...))
	}
	return err
}

// registered returns the registered tenants, or nothing if their number is unchanged since a
// recent read.
func (h *housekeeping) registered(ctx context.Context, now time.Time) ([]string, error) {
	n, err := h.store.TenantCount(ctx)
	if err != nil || n == h.tenants && now.Sub(h.readAt) < readEvery {
		return nil, err
	}
	names, err := h.store.Tenants(ctx)
	if err == nil {
		h.tenants, h.readAt = n, now
	}
	return names, err
}

// trim trims streams and removes idle consumers.
func (h *housekeeping) trim(ctx context.Context, now time.Time) error {
	tenants := h.tenantSet.Names()
	_, err := stream.New(h.store).Trim(ctx, tenants, h.retention.Entries, h.retention.Age, h.groups...)
	errs := []error{err, stream.New(h.store).ForgetCrashes(ctx, tenants...)}
	if now.Sub(h.swept) >= sweepEvery {
		h.swept = now
		for _, group := range h.groups {
			errs = append(errs, stream.New(h.store).SweepConsumers(ctx, tenants, group, idleAfter))
		}
	}
	return errors.Join(errs...)
}
