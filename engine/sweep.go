package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/timers"
)

// sweep compares what open executions wait for with what Redis has, and restores lost timers,
// subscriptions and requests. One process at a time sweeps.
type sweep struct {
	store     *store.Store
	examiner  *examine.Examiner
	tenantSet *delivery.TenantSet
	observe   delivery.Observer
	name      string
	every     time.Duration

	left     []string        // tenants yet to be examined in this round
	after    string          // position in the first of them
	reported map[string]bool // executions that cannot be repaired, by tenant and id
}

const (
	maxSwept      = 1000          // executions to examine in one step
	sweptAtOnce   = 100           // executions in one query
	sweptBytes    = 4 << 20       // of histories to examine together
	maxReported   = 10_000        // executions to remember as reported
	sweepOperator = "flunq serve" // who restored something, in histories
	sweepTurn     = "sweep"       // what the processes take turns at
	sweepMargin   = time.Second   // a turn expires this long before the next step
)

func (e *Engine) addSweep() {
	s := &sweep{
		store: e.Store, examiner: &examine.Examiner{Store: e.Store, Definitions: e.Definitions}, tenantSet: e.tenantSet,
		observe: e.opts.Activity, name: "sweep-" + e.opts.Process, every: e.opts.Sweep, reported: map[string]bool{},
	}
	e.add(Service{Kind: "sweep", Name: s.name, Step: s.Step, Every: e.opts.Sweep})
}

// Step examines the next executions if it is this process' turn.
func (s *sweep) Step(ctx context.Context) (wake time.Time, err error) {
	mine, err := processes.In(s.store).FirstInPeriod(ctx, sweepTurn, max(s.every-sweepMargin, s.every/2))
	if err != nil || !mine {
		return wake, err
	}
	defer s.examiner.Forget()
	if len(s.left) == 0 {
		s.left, s.after = s.tenantSet.Names(), ""
	}
	var errs []error
	for looked := 0; looked < maxSwept && len(s.left) > 0; {
		n, err := s.page(ctx, s.left[0])
		if looked += n; err != nil {
			errs = append(errs, err)
			s.after = ""
		}
		if s.after == "" {
			s.left = s.left[1:]
		}
	}
	return wake, errors.Join(errs...)
}

// page examines the next executions of a tenant.
func (s *sweep) page(ctx context.Context, tenant string) (looked int, err error) {
	open, next, err := s.store.Executions(ctx, tenant, store.ExecutionQuery{
		Statuses: []string{string(decide.Running), string(decide.Waiting), string(decide.Suspended)},
		Limit:    sweptAtOnce, After: s.after,
		Damaged: func(id string, damage error) { s.report(tenant, store.Execution{Tenant: tenant, ID: id}, damage) },
	})
	s.after = next
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(open))
	for i, x := range open {
		ids[i] = x.ID
	}
	sizes := inspect.New(s.store).Sizes(ctx, tenant, ids)
	for len(open) > 0 {
		n, bytes := 0, int64(0)
		for n < len(open) && (n == 0 || bytes+sizes[n] <= sweptBytes) {
			bytes += sizes[n]
			n++
		}
		findings, err := s.examiner.Examine(ctx, tenant, open[:n])
		if err != nil {
			return looked, err
		}
		for _, x := range open[:n] {
			if found, known := findings[x.ID]; known {
				if err := s.repair(ctx, tenant, x, found); err != nil {
					return looked, err
				}
			}
		}
		looked += n
		open, sizes = open[n:], sizes[n:]
	}
	return looked, nil
}

// repair restores what an execution lacks, except timers that an operator has cancelled.
func (s *sweep) repair(ctx context.Context, tenant string, x store.Execution, found examine.Findings) error {
	cancelled := func(n examine.Needed) bool { return n.CancelledBy != "" }
	missing := found.Missing
	missing.Timers = slices.DeleteFunc(slices.Clone(missing.Timers), func(t event.Timer) bool {
		return slices.ContainsFunc(found.Timers, func(n examine.Needed) bool { return cancelled(n) && n.Same(t) })
	})
	switch {
	case !missing.Empty():
		outcome, err := timers.New(s.store).Restore(ctx, store.Execution{Tenant: tenant, ID: x.ID, Version: found.Version, Workflow: x.Workflow}, missing, sweepOperator)
		if err != nil || outcome != store.Committed {
			return err // the execution has advanced in the meantime
		}
		s.notify(delivery.Restored, tenant, x, len(missing.Timers)+len(missing.Listen)+len(missing.Requests), nil)
	case found.Damage != "":
		s.report(tenant, x, errors.New(found.Damage))
	case len(found.Stuck) > 0 && !slices.ContainsFunc(found.Timers, cancelled):
		s.report(tenant, x, errors.New(found.Stuck[0]))
	}
	return nil
}

// report reports that an execution cannot be repaired, once per execution.
func (s *sweep) report(tenant string, x store.Execution, why error) {
	key := tenant + " " + x.ID
	if s.reported[key] {
		return
	}
	if len(s.reported) >= maxReported {
		clear(s.reported)
	}
	s.reported[key] = true
	s.notify(delivery.Stuck, tenant, x, 1, why)
}

func (s *sweep) notify(what delivery.What, tenant string, x store.Execution, count int, err error) {
	m := store.Message{Tenant: tenant, Event: event.Event{Tenant: tenant, Execution: x.ID, Workflow: x.Workflow}}
	s.observe.Report(delivery.Activity{Service: "sweep", Consumer: s.name, What: what, Message: m, Count: count, Err: err})
}
