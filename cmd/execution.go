package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/operate"
	"flunq.io/flunq/engine/store"
)

// fewNewest is the number of executions that are read for completion and suggestions.
const fewNewest = 50

// findExecution reads an execution. The error for an unknown id suggests similar ids.
func findExecution(ctx context.Context, r *remote, id string) (store.Execution, error) {
	x, err := r.store.Execution(ctx, r.tenant, id)
	if !errors.Is(err, store.ErrNotFound) {
		return x, badID(err)
	}
	recent, _, wrong := r.store.Executions(ctx, r.tenant, store.ExecutionQuery{Limit: fewNewest})
	if wrong != nil {
		return x, wrong
	}
	var known []string
	for _, other := range recent {
		known = append(known, other.ID)
	}
	where := ""
	if r.tenant != defaultTenant {
		where = " of tenant " + r.tenant
	}
	removed := ""
	if keep, wrong := r.store.Kept(ctx, r.tenant); wrong == nil && keep.Bounded() {
		removed = " (" + keptOf(keep) + ")"
	}
	return x, fmt.Errorf("%w%s%s%s; 'flunq ps' lists those there are", err, where, didYouMean(id, known, ""), removed)
}

// keptOf tells which ended executions are kept.
func keptOf(keep store.Keep) string {
	var bounds []string
	if keep.Age > 0 {
		bounds = append(bounds, "for "+keptText(keep.Age))
	}
	if keep.Count > 0 {
		bounds = append(bounds, fmt.Sprintf("the newest %d", keep.Count))
	}
	return "those that have ended are kept " + strings.Join(bounds, " and ")
}

// outline reads only the fields of an execution that can change while a command waits.
func outline(ctx context.Context, r *remote, id string) (store.Execution, error) {
	found, err := r.store.Outlines(ctx, r.tenant, id)
	if err != nil {
		return store.Execution{}, err
	}
	if found[0].Status == "" {
		return found[0], fmt.Errorf("execution %s: %w any more", id, store.ErrNotFound)
	}
	return found[0], nil
}

// patience holds the flags --wait and --timeout.
type patience struct {
	wait    bool
	timeout time.Duration
}

// patienceFlags adds these flags.
func patienceFlags(c *cobra.Command, what string) *patience {
	var p patience
	c.Flags().BoolVar(&p.wait, "wait", false, "wait "+what)
	c.Flags().DurationVar(&p.timeout, "timeout", 0, "with --wait: wait at most for `DURATION` (10s, 5m)")
	return &p
}

func (p *patience) check() error {
	if p.timeout != 0 && !p.wait {
		return misusef("--timeout goes with --wait")
	}
	if p.timeout < 0 {
		return misusef("--timeout %v: want more than 0", p.timeout)
	}
	return nil
}

// lastPause is the longest interval of polling an execution.
const lastPause = 250 * time.Millisecond

// until polls an execution until done reports true.
func (p *patience) until(ctx context.Context, r *remote, id string, done func(store.Execution) bool) (store.Execution, error) {
	began := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, lastPause) {
		x, err := outline(ctx, r, id)
		if err != nil || done(x) {
			return x, err
		}
		if left := p.timeout - time.Since(began); p.timeout > 0 {
			if left <= 0 {
				return x, fail(exitLimit, fmt.Errorf("execution %s is still %s after %v", id, x.Status, p.timeout))
			}
			pause = min(pause, left)
		}
		select {
		case <-ctx.Done():
			return x, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// hintUnserved prints a hint about services that no process runs for the tenant.
func hintUnserved(ctx context.Context, sh *shell, r *remote, services ...string) error {
	file, err := readConfig(sh)
	if err != nil {
		return err
	}
	set, _, err := loadSettings(sh, file)
	if err != nil {
		set = defaultSettings() // invalid settings of services do not concern this command
	}
	groups := set.groups()
	maps.DeleteFunc(groups, func(service, _ string) bool { return !slices.Contains(services, service) })
	missing, err := r.store.Unserved(ctx, r.tenant, groups)
	if err != nil || len(missing) == 0 {
		return err
	}
	slices.SortFunc(missing, func(a, b string) int { return slices.Index(services, a) - slices.Index(services, b) })
	sh.hint("no process runs the %s service for tenant %s, so its work waits: start 'flunq serve' on this Redis", oneOf(missing), r.tenant)
	return nil
}

// documentOf reads the document that an execution runs, if it is known.
func documentOf(ctx context.Context, r *remote, x store.Execution) (document, error) {
	if x.Definition == "" {
		return document{}, nil
	}
	text, err := r.store.DefinitionBySHA(ctx, x.Tenant, x.Workflow, x.Definition)
	if errors.Is(err, store.ErrNotFound) {
		return document{}, nil
	}
	if err != nil {
		return document{}, err
	}
	return storedDocument(x.Workflow, text), nil
}

// completeExecutions completes the ids of the newest executions, only those with one of the
// statuses if any are given.
func completeExecutions(t *target, statuses ...string) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		r, err := t.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer r.close()
		query := store.ExecutionQuery{Limit: fewNewest, Statuses: statuses}
		found, _, err := r.store.Executions(ctx, r.tenant, query)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, x := range found {
			ids = append(ids, printable(fmt.Sprintf("%s\t%s, %s", x.ID, x.Workflow, x.Status)))
		}
		return without(ids, given), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// knownStatuses checks the statuses given to a flag.
func knownStatuses(flag string, words []string) ([]string, error) {
	var out []string
	for _, word := range words {
		word = strings.TrimSpace(word)
		if !slices.Contains(operate.Statuses(), word) {
			return nil, misusef("--%s %q: want %s%s", flag, word, oneOf(operate.Statuses()), didYouMean(word, operate.Statuses(), ""))
		}
		out = append(out, word)
	}
	return out, nil
}
