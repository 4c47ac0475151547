package engine

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store"
)

// Retention says how much of the streams is kept for those who read along, behind
// what every group has done.
type Retention struct {
	Entries int           // at least so many of each stream
	Age     time.Duration // and all that are not older
}

// DefaultRetention is that of an ordinary deployment.
func DefaultRetention() Retention { return Retention{Entries: 10_000, Age: 10 * time.Second} }

const (
	lookEvery = time.Second      // for tenants that have been made known
	tidyEvery = 10 * time.Second // trim streams
	seekEvery = 5 * time.Minute  // among all keys, for streams that nobody has made known
	idleAfter = time.Hour        // a consumer without work is gone
)

// housekeeping finds tenants and keeps their streams short.
type housekeeping struct {
	store     *store.Store
	roster    *delivery.Roster
	groups    []string
	discover  bool
	retention Retention

	tidied, sought time.Time
}

func (e *Engine) addHousekeeping() {
	h := &housekeeping{
		store: e.Store, roster: e.roster, discover: e.opts.Discover, retention: e.opts.Retention,
		groups: e.groups(),
	}
	every := lookEvery
	if !h.discover {
		every = tidyEvery
	}
	e.add(Service{Group: "housekeeping", Name: "housekeeping-" + e.opts.Process, Step: h.Step, Every: every})
}

// Step does what is due.
func (h *housekeeping) Step(ctx context.Context) (wake time.Time, err error) {
	now, err := h.store.Now(ctx)
	if err != nil {
		return now, err
	}
	if h.discover {
		err = h.find(ctx, now)
	}
	if h.retention != (Retention{}) && now.Sub(h.tidied) > tidyEvery-lookEvery {
		h.tidied = now
		err = errors.Join(err, h.tidy(ctx))
	}
	return now.Add(lookEvery), err
}

// find takes up tenants: those that were made known, and now and then those whose
// streams stand in Redis without.
func (h *housekeeping) find(ctx context.Context, now time.Time) error {
	names, err := h.store.Tenants(ctx)
	if err == nil && now.Sub(h.sought) >= seekEvery {
		h.sought = now
		var more []string
		more, err = h.store.FindTenants(ctx)
		names = append(names, more...)
	}
	for _, tenant := range h.roster.Add(names...) {
		err = errors.Join(err, h.store.Groups(ctx, tenant, h.groups...))
	}
	return err
}

// tidy drops what nobody needs any more.
func (h *housekeeping) tidy(ctx context.Context) error {
	var errs []error
	for _, tenant := range h.roster.Names() {
		_, err := h.store.Trim(ctx, tenant, h.retention.Entries, h.retention.Age, h.groups...)
		errs = append(errs, err, h.store.ForgetDeaths(ctx, tenant))
		for _, group := range h.groups {
			errs = append(errs, h.store.SweepConsumers(ctx, tenant, group, idleAfter))
		}
	}
	return errors.Join(errs...)
}
