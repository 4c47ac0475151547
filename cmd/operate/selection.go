package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

// selection selects executions by the flags of a command.
type selection struct {
	statuses, labels               []string
	workflow, since, before, where string
	stuck                          bool
	limit                          int

	allowed   []string     // the statuses of executions that the command can change; nil: all
	condition *condition   // of --where; nil if it is not given
	wanted    event.Labels // of --label
	unread    unread       // by all
}

// unread are the errors of executions that cannot be read, by tenant and id.
type unread map[string]error

// of returns what a query of a tenant needs to list the other executions.
func (u unread) of(tenant string) func(id string, damage error) {
	return func(id string, damage error) { u[tenant+" "+id] = fmt.Errorf("tenant %s: %w", tenant, damage) }
}

// err returns one error with all of them; nil if there are none.
func (u unread) err() (err error) {
	for _, id := range slices.Sorted(maps.Keys(u)) {
		err = errors.Join(err, u[id])
	}
	return err
}

// selectionHelp explains --where and --label.
const selectionHelp = `--where is a jq expression over an object with the members id, tenant, workflow,
definition, status, created, ended, events, parent, labels, input, output, error and
context. The last four are read only if the expression names them; context is computed
from the history, which takes longer. An execution for which the expression fails is
not selected. --label also finds the tags of documents.`

// selectionFlags adds the flags, with a default for --limit.
func selectionFlags(c *cobra.Command, t *cli.Target, limit int) *selection {
	s := &selection{}
	f := c.Flags()
	f.StringSliceVarP(&s.statuses, "status", "s", nil, "only those with one of the `STATUSES`: "+strings.Join(actions.Statuses(), ", "))
	f.StringVarP(&s.workflow, "workflow", "w", "", "only those of the workflow `NAME`, with or without its namespace, or of NAME:VERSION")
	f.StringVar(&s.since, "since", "", "only those created in the last `DURATION` (1h, 3d, P1D), or after a time")
	f.StringVar(&s.before, "before", "", "only those created before `TIME`, or longer ago than a duration")
	f.StringVar(&s.where, "where", "", "only those for which the jq `EXPRESSION` is true, such as '.input.order == 7'")
	f.StringArrayVarP(&s.labels, "label", "l", nil, "only those with the label `NAME=VALUE`, or NAME with any value; repeatable")
	f.BoolVar(&s.stuck, "stuck", false, "only those that wait for something that is missing (see 'flunq timers restore')")
	cli.LimitFlag(c, &s.limit, limit, "at most `N` of them, the newest; 0: all")
	cli.Offer(c, "status", cli.NewChoice(actions.Statuses()...))
	cli.CompleteFlag(c, "workflow", completeWorkflows(t, cobra.ShellCompDirectiveNoFileComp))
	return s
}

// given reports whether any flag restricts the selection. An empty one does not: it may come from a
// script's unset variable, and all executions would be selected.
func (s *selection) given() bool {
	return len(s.statuses)+len(s.labels) > 0 || s.workflow+s.since+s.before+s.where != "" || s.stuck
}

// either requires the ids of executions or flags that select some.
func (s *selection) either(c *cobra.Command, ids []string) error {
	switch {
	case len(ids) > 0 && (s.given() || s.limit > 0):
		return cli.Misusef("%s: name executions or select them with flags, not both%s", c.Name(), cli.SeeHelp(c))
	case len(ids) == 0 && !s.given():
		return cli.Misusef("%s: no execution given: name executions, or select them, for example with --workflow%s", c.Name(), cli.SeeHelp(c))
	default:
		return nil
	}
}

// all reads the selected executions of the tenant that have one of the allowed statuses. If
// there are none, it says so. It keeps the errors of those that cannot be read.
func (s *selection) all(ctx context.Context, sh *cli.Shell, r *cli.Remote) ([]store.Execution, error) {
	now, err := r.Store.NowOf(ctx, r.Tenant)
	if err != nil {
		return nil, err
	}
	query, unknown, err := s.query(ctx, r, []string{r.Tenant}, now)
	if err != nil {
		return nil, err
	}
	s.unread = unread{}
	query.Damaged = s.unread.of(r.Tenant)
	found, _, err := s.page(ctx, r, r.Tenant, query)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		sh.Hint("%s", cmp.Or(unknown, "no execution is selected: none is "+cli.OneOf(query.Statuses)+" and matches"))
	}
	return found, s.condition.hint(ctx, sh, r, len(found))
}

// check checks the flags. It needs no connection.
func (s *selection) check() (err error) {
	for i, status := range s.statuses {
		status = strings.TrimSpace(status)
		s.statuses[i] = status
		switch known := actions.Statuses(); {
		case !slices.Contains(known, status):
			return cli.Misusef("--status %q: want %s%s", status, cli.OneOf(known), cli.DidYouMean(status, known, ""))
		case s.allowed != nil && !slices.Contains(s.allowed, status):
			return cli.Misusef("--status %s: want %s", status, cli.OneOf(s.allowed))
		}
	}
	if s.stuck && len(s.possible()) == 0 {
		return cli.Misusef("--stuck finds executions that are %s; this command needs %s", cli.OneOf(stuckStatuses()), cli.OneOf(s.allowed))
	}
	if _, err := sinceFlag("since", s.since, time.Time{}); err != nil {
		return err
	}
	if _, err := sinceFlag("before", s.before, time.Time{}); err != nil {
		return err
	}
	if name, version, versioned := strings.Cut(s.workflow, ":"); versioned && (name == "" || version == "") {
		return cli.Misusef("--workflow %q: want NAME or NAME:VERSION", s.workflow)
	}
	if s.wanted, err = event.ParseLabelFilter(s.labels); err != nil {
		return cli.Misusef("--label: %w", err)
	}
	if s.where != "" {
		s.condition, err = newCondition(s.where)
	}
	return err
}

// stuckStatuses returns the statuses of executions that --stuck finds.
func stuckStatuses() []string { return []string{string(decide.Running), string(decide.Waiting)} }

// possible returns the statuses that selected executions can have; nil: all.
func (s *selection) possible() []string {
	switch {
	case len(s.statuses) > 0:
		return s.statuses
	case s.stuck && s.allowed != nil:
		return slices.DeleteFunc(stuckStatuses(), func(status string) bool { return !slices.Contains(s.allowed, status) })
	case s.stuck:
		return stuckStatuses()
	default:
		return s.allowed
	}
}

// query builds the query from the flags. For a workflow that is not registered, unknown lists
// the registered ones.
func (s *selection) query(ctx context.Context, r *cli.Remote, tenants []string, now time.Time) (q store.ExecutionQuery, unknown string, err error) {
	q.Limit, q.Statuses = cmp.Or(s.limit, math.MaxInt), s.possible()
	if q.CreatedAfter, err = sinceFlag("since", s.since, now); err != nil {
		return q, "", err
	}
	if q.CreatedBefore, err = sinceFlag("before", s.before, now); err != nil {
		return q, "", err
	}
	name, version, versioned := strings.Cut(s.workflow, ":")
	if name == "" {
		return q, "", nil
	}
	q.Workflow, unknown, err = workflowID(ctx, r, name, tenants...)
	if err != nil || !versioned || unknown != "" {
		return q, unknown, err
	}
	hashes := map[string]string{} // of the version, by tenant
	for _, tenant := range tenants {
		hash, _, err := registry.New(r.Store).Definition(ctx, tenant, q.Workflow, version)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return q, "", err
		}
		if hash != "" {
			hashes[tenant] = hash
		}
	}
	if len(hashes) == 0 {
		unknown = fmt.Sprintf("workflow %s has no version %s ('flunq workflows ls -o wide' lists them)", cli.Printable(q.Workflow), cli.Printable(version))
	}
	q.Pass = func(x store.Execution) bool { return x.Definition != "" && x.Definition == hashes[x.Tenant] }
	return q, unknown, nil
}

// sinceFlag parses a flag that is a time or a duration before now. An empty flag is the
// zero time.
func sinceFlag(flag, given string, now time.Time) (time.Time, error) {
	if given == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, given, time.Local); err == nil {
			return at.UTC(), nil
		}
	}
	d, err := dsl.ParseSpan(given)
	if err != nil {
		return now, cli.Misusef("--%s %q: %v, or a time such as 2026-01-01T00:00:00Z", flag, given, err)
	}
	return d.Before(now), nil
}

// page reads one page of a tenant's executions. It reads until the page is full, since one read of the
// store examines a limited number. Its memory does not grow with the number of executions that are
// examined.
func (s *selection) page(ctx context.Context, r *cli.Remote, tenant string, q store.ExecutionQuery) (found []store.Execution, next string, err error) {
	narrows := s.stuck || s.condition != nil || len(s.wanted) > 0
	for limit := q.Limit; ; q.After = next {
		q.Limit = limit - len(found)
		if narrows {
			q.Limit = batchSize
		}
		var some []store.Execution
		if some, next, err = r.Store.Executions(ctx, tenant, q); err == nil {
			some, err = s.narrow(ctx, r, tenant, some)
		}
		if err != nil {
			return nil, "", err
		}
		if found = append(found, some...); len(found) > limit {
			return found[:limit], found[limit-1].Cursor(), nil
		}
		if next == "" || len(found) == limit {
			return found, next, nil
		}
	}
}
