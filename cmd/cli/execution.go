package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// fewNewest is the number of executions that are read for completion and suggestions.
const fewNewest = 50

// FindExecution reads an execution. The error for an unknown id says when it is to start, or suggests
// similar ids.
func FindExecution(ctx context.Context, r *Remote, id string) (store.Execution, error) {
	x, err := r.Store.Execution(ctx, r.Tenant, id)
	if !errors.Is(err, store.ErrNotFound) {
		return x, BadID(err)
	}
	const search = time.Second // among all timer keys of the tenant, which may be millions
	short, cancel := context.WithTimeout(ctx, search)
	defer cancel()
	if starts, otherErr := timers.New(r.Store).Starts(short, r.Tenant, id); otherErr == nil && len(starts) > 0 {
		return x, fmt.Errorf("%w: it starts at %s, as timer %s", err, Moment(starts[0].Moment()), starts[0].ID)
	}
	recent, _, otherErr := r.Store.Executions(ctx, r.Tenant, store.ExecutionQuery{Limit: fewNewest, Damaged: func(string, error) {}})
	if otherErr != nil {
		return x, otherErr
	}
	var known []string
	for _, other := range recent {
		known = append(known, other.ID)
	}
	where := ""
	if r.Tenant != DefaultTenant {
		where = " in tenant " + r.Tenant
	}
	removed := ""
	if keep, otherErr := r.Store.Kept(ctx, r.Tenant); otherErr == nil && keep.Bounded() {
		removed = " (" + KeptOf(keep) + ")"
	}
	return x, fmt.Errorf("%w%s%s%s; 'flunq ps' lists executions", err, where, DidYouMean(id, known, ""), removed)
}

// KeptOf describes which ended executions are kept.
func KeptOf(keep store.Keep) string {
	var bounds []string
	if keep.Age > 0 {
		bounds = append(bounds, "for "+spanText(keep.Age))
	}
	if keep.Count > 0 {
		bounds = append(bounds, fmt.Sprintf("the newest %d", keep.Count))
	}
	return "ended executions are kept " + strings.Join(bounds, " and ")
}

// outline reads the fields of an execution that can change while a command waits.
func outline(ctx context.Context, r *Remote, id string) (store.Execution, error) {
	found, err := r.Store.Outlines(ctx, r.Tenant, id)
	if err != nil {
		return store.Execution{}, err
	}
	if found[0].Status == "" {
		return found[0], fmt.Errorf("execution %s: %w any more", id, store.ErrNotFound)
	}
	return found[0], nil
}

// WaitFlags holds the flags --wait and --timeout.
type WaitFlags struct {
	Wait    bool
	timeout time.Duration
}

// NewWaitFlags adds --wait and --timeout to a command; what says what --wait waits for.
func NewWaitFlags(c *cobra.Command, what string) *WaitFlags {
	var p WaitFlags
	c.Flags().BoolVar(&p.Wait, "wait", false, "wait "+what)
	c.Flags().DurationVar(&p.timeout, "timeout", 0, "with --wait: wait for at most `DURATION` (10s, 5m)")
	Require(c, "timeout", "wait")
	return &p
}

// Check returns an error if --timeout is negative.
func (f *WaitFlags) Check() error {
	if f.timeout < 0 {
		return Misusef("--timeout %v: want more than 0", f.timeout)
	}
	return nil
}

// lastPause is the longest interval between two attempts to read something.
const lastPause = 250 * time.Millisecond

// Until polls an execution until done reports true or the timeout has passed. It outlasts outages.
func (f *WaitFlags) Until(ctx context.Context, sh *Shell, r *Remote, id string, done func(store.Execution) bool) (x store.Execution, err error) {
	waiting := ctx
	if f.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, lastPause) {
		err := sh.Outlast(waiting, func() error {
			now, err := outline(waiting, r, id)
			if err == nil {
				x = now
			}
			return err
		})
		if err == nil && done(x) {
			return x, nil
		}
		if err == nil {
			err = Pause(waiting, pause)
		}
		switch {
		case err == nil:
		case waiting.Err() == nil, ctx.Err() != nil:
			return x, err
		case x.Status == "":
			return x, Fail(ExitLimit, fmt.Errorf("execution %s could not be read within %s", id, history.Duration(f.timeout)))
		default:
			return x, Fail(ExitLimit, fmt.Errorf("execution %s is still %s after %s", id, x.Status, history.Duration(f.timeout)))
		}
	}
}

// outage is how long a command that waits for something tolerates an unavailable Redis.
const outage = time.Minute

// Outlast repeats a read while Redis is unavailable, as in a failover, for at most a minute.
func (sh *Shell) Outlast(ctx context.Context, read func() error) error {
	began := time.Now()
	err := read()
	for hinted := false; store.Temporary(err) && ctx.Err() == nil && time.Since(began) < outage; err = read() {
		if !hinted {
			sh.Hint("trying again for up to a minute: %v", err)
			hinted = true
		}
		if err := Pause(ctx, lastPause); err != nil {
			return err
		}
	}
	return err
}

// Repeatable adds to an error the id with which a command can be repeated without doing it twice, if Redis
// may have done it although its reply was lost, or too few replicas have confirmed it.
func Repeatable(id string, err error) error {
	if !store.Unanswered(err) && !errors.Is(err, wire.ErrUnconfirmed) {
		return err
	}
	return RepeatWith(id, err)
}

// RepeatWith is like Repeatable, for any error.
func RepeatWith(id string, err error) error {
	return fmt.Errorf("%w; it may have taken effect nevertheless: to repeat the command, give it --id %s", err, id)
}

// HintUnserved prints a hint if no process runs some of the services for the tenant, if that can be
// found out.
func HintUnserved(ctx context.Context, sh *Shell, r *Remote, services ...string) {
	set, err := ReadSettings(sh)
	if err != nil {
		set = DefaultSettings() // invalid settings of services do not concern this command
	}
	groups := set.Groups()
	maps.DeleteFunc(groups, func(service, _ string) bool { return !slices.Contains(services, service) })
	missing, err := inspect.New(r.Store).Unserved(ctx, r.Tenant, groups)
	if err != nil || len(missing) == 0 {
		return
	}
	slices.SortFunc(missing, func(a, b string) int { return slices.Index(services, a) - slices.Index(services, b) })
	sh.Hint("no process runs the %s service for tenant %s, so its work waits: start 'flunq serve' on this Redis", OneOf(missing), r.Tenant)
}

// DocumentOf reads the document that an execution runs. It is empty if the document is
// unknown.
func DocumentOf(ctx context.Context, r *Remote, x store.Execution) (Document, error) {
	text, err := actions.DocumentText(ctx, r.Store, x)
	if err != nil || text == "" {
		return Document{}, err
	}
	return StoredDocument(x.Workflow, text), nil
}

// CompleteExecutions completes the ids of the newest executions. If statuses are given, it offers
// only executions with one of them.
func CompleteExecutions(t *Target, statuses ...string) cobra.CompletionFunc {
	return Complete(t, func(ctx context.Context, r *Remote) (ids []string, err error) {
		query := store.ExecutionQuery{Limit: fewNewest, Statuses: statuses, Damaged: func(string, error) {}}
		found, _, err := r.Store.Executions(ctx, r.Tenant, query)
		for _, x := range found {
			ids = append(ids, Printable(fmt.Sprintf("%s\t%s, %s", x.ID, x.Workflow, x.Status)))
		}
		return ids, err
	})
}

// Complete completes ids in their order, each with a description after a tab. Those given
// before are not offered again.
func Complete(t *Target, ids func(context.Context, *Remote) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), CompletionTimeout)
		defer cancel()
		r, err := t.Connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer r.Close()
		found, err := ids(ctx, r)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(one string) bool {
			id, _, _ := strings.Cut(one, "\t")
			return slices.Contains(given, id)
		})
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
