// Package operate contains the commands for executions, timers, workflows and dead letters
// of a running engine.
package operate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// executionListing is one run of the command ps.
type executionListing struct {
	sh     *cli.Shell
	target *cli.Target
	format *cli.Choice

	statuses                       []string
	workflow, since, before, after string
	allTenants, stuck              bool
	limit                          int
}

// NewListCommand returns the command flunq ps.
func NewListCommand(sh *cli.Shell) *cobra.Command {
	l := &executionListing{sh: sh}
	c := &cobra.Command{
		Use:     "ps",
		Aliases: []string{"list"},
		Short:   "List executions, the newest first",
		Long: `Lists the executions of a tenant, newest first. An index by status keeps this fast with
millions of executions. Ages are measured by the clock of Redis.`,
		Example: `  flunq ps --status running,waiting
  flunq ps --status faulted --since 1h -o ids | xargs flunq retry
  flunq ps --workflow shop.order -o json | jq '.[].id'`,
		GroupID: cli.GroupOperate,
		Args:    cli.NoArguments,
	}
	l.target = cli.TargetFlags(c, sh)
	l.format = cli.ListFlag(c)
	f := c.Flags()
	f.StringSliceVarP(&l.statuses, "status", "s", nil, "only those with one of the `STATUSES`: "+strings.Join(actions.Statuses(), ", "))
	f.StringVarP(&l.workflow, "workflow", "w", "", "only those of the workflow `NAME`, with or without its namespace")
	f.StringVar(&l.since, "since", "", "only those created in the last `DURATION` (1h, P1D), or after a time")
	f.StringVar(&l.before, "before", "", "only those created before `TIME`, or longer ago than a duration")
	f.IntVar(&l.limit, "limit", 50, "list at most `N`; 0: all")
	f.StringVar(&l.after, "after", "", "continue after `CURSOR`")
	f.BoolVar(&l.stuck, "stuck", false, "only those that wait for something that is missing (see 'flunq timers restore')")
	f.BoolVarP(&l.allTenants, "all-tenants", "A", false, "include all tenants")
	cli.Offer(c, "status", cli.NewChoice(actions.Statuses()...))
	complete := completeWorkflows(l.target, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("workflow", complete); err != nil {
		panic(err) // the flag is defined above
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return l.run(c.Context()) }
	return c
}

func (l *executionListing) run(ctx context.Context) error {
	if l.limit < 0 {
		return cli.Misusef("--limit %d: want 0 or more", l.limit)
	}
	r, now, err := l.target.ConnectWithTime(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	query, err := l.query(now)
	if err != nil {
		return err
	}
	var unknown string
	if query.Workflow, unknown, err = l.workflowID(ctx, r); err != nil {
		return err
	}
	found, next, err := l.read(ctx, r, query)
	if err != nil {
		return cli.BadID(err)
	}
	if err := l.print(ctx, r, found, now); err != nil {
		return err
	}
	if unknown != "" && len(found) == 0 {
		l.sh.Hint("%s", unknown)
	}
	if next != "" {
		l.sh.Hint("more with --after %s", cli.Printable(next))
	}
	return nil
}

// workflowID resolves --workflow, with or without its namespace. For a workflow that is not
// registered, unknown lists the registered ones.
func (l *executionListing) workflowID(ctx context.Context, r *cli.Remote) (id, unknown string, err error) {
	if l.workflow == "" {
		return "", "", nil
	}
	tenants := []string{r.Tenant}
	if l.allTenants {
		if tenants, err = r.Store.Tenants(ctx); err != nil {
			return "", "", err
		}
	}
	var names, same []string
	for _, tenant := range tenants {
		all, err := r.Store.Workflows(ctx, tenant)
		if err != nil {
			return "", "", err
		}
		for _, w := range all {
			names = append(names, w.ID)
			if _, short, _ := strings.Cut(w.ID, "."); short == l.workflow {
				same = append(same, w.ID)
			}
		}
	}
	slices.Sort(same)
	same = slices.Compact(same)
	switch {
	case slices.Contains(names, l.workflow):
		return l.workflow, "", nil
	case len(same) == 1:
		return same[0], "", nil
	case len(same) > 1:
		return "", "", cli.Misusef("--workflow %s is ambiguous: %s", l.workflow, strings.Join(same, ", "))
	case len(names) == 0:
		return l.workflow, "no workflow is registered", nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return l.workflow, fmt.Sprintf("no workflow is named %s%s; registered: %s", cli.Printable(l.workflow),
		cli.DidYouMean(l.workflow, names, ""), cli.Printable(cli.ShortList(names))), nil
}

// query builds the query from the flags.
func (l *executionListing) query(now time.Time) (q store.ExecutionQuery, err error) {
	q = store.ExecutionQuery{After: l.after, Limit: l.limit}
	if q.Limit == 0 {
		q.Limit = math.MaxInt
	}
	if q.Statuses, err = cli.KnownStatuses("status", l.statuses); err != nil {
		return q, err
	}
	if q.CreatedAfter, err = sinceFlag("since", l.since, now); err != nil {
		return q, err
	}
	if l.stuck && len(q.Statuses) == 0 {
		q.Statuses = []string{string(decide.Running), string(decide.Waiting)}
	}
	q.CreatedBefore, err = sinceFlag("before", l.before, now)
	return q, err
}

// sinceFlag parses a flag that is a time or a duration before now. An empty flag is the
// zero time.
func sinceFlag(flag, given string, now time.Time) (time.Time, error) {
	if given == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(layout, given); err == nil {
			return at.UTC(), nil
		}
	}
	d, err := dsl.ParseDuration(given)
	if err != nil || !d.Until.IsZero() {
		return now, cli.Misusef("--%s %q: want a duration such as 1h or P1D, or a time such as 2026-01-01T00:00:00Z", flag, given)
	}
	return now.Add(-d.From(now).Sub(now)), nil
}

// read reads one page of executions of one tenant or of all.
func (l *executionListing) read(ctx context.Context, r *cli.Remote, q store.ExecutionQuery) (found []store.Execution, next string, err error) {
	if !l.allTenants {
		return l.pageOf(ctx, r, r.Tenant, q)
	}
	tenants, err := r.Store.Tenants(ctx)
	if err != nil {
		return nil, "", err
	}
	more := false
	for _, tenant := range tenants {
		some, next, err := l.pageOf(ctx, r, tenant, q)
		if err != nil {
			return nil, "", err
		}
		found, more = append(found, some...), more || next != ""
	}
	slices.SortStableFunc(found, func(a, b store.Execution) int {
		return cmp.Or(cmp.Compare(b.CreatedAt.UnixMilli(), a.CreatedAt.UnixMilli()), strings.Compare(b.ID, a.ID))
	})
	if len(found) > q.Limit {
		found, more = found[:q.Limit], true
	}
	if more && len(found) > 0 {
		next = found[len(found)-1].Cursor()
	}
	return found, next, nil
}

// pageOf reads one page of a tenant.
func (l *executionListing) pageOf(ctx context.Context, r *cli.Remote, tenant string, q store.ExecutionQuery) ([]store.Execution, string, error) {
	if l.stuck {
		return stuckOf(ctx, r, tenant, q)
	}
	return allOf(ctx, r, tenant, q)
}

// allOf reads until a page is full, since one read of the store examines a limited number.
func allOf(ctx context.Context, r *cli.Remote, tenant string, q store.ExecutionQuery) (found []store.Execution, next string, err error) {
	limit := q.Limit
	for {
		q.Limit = limit - len(found)
		some, next, err := r.Store.Executions(ctx, tenant, q)
		if err != nil {
			return nil, "", err
		}
		found = append(found, some...)
		if next == "" || len(found) == limit {
			return found, next, nil
		}
		q.After = next
	}
}

// stuckOf reads a page of executions that nothing will wake.
func stuckOf(ctx context.Context, r *cli.Remote, tenant string, q store.ExecutionQuery) (found []store.Execution, next string, err error) {
	limit := q.Limit
	for q.Limit = examinedAtOnce; ; q.After = next {
		var some []store.Execution
		if some, next, err = r.Store.Executions(ctx, tenant, q); err == nil {
			some, err = onlyStuck(ctx, r, tenant, some)
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

// examinedAtOnce is how many executions are read and examined at once.
const examinedAtOnce = 100

// onlyStuck returns those executions that nothing will wake.
func onlyStuck(ctx context.Context, r *cli.Remote, tenant string, some []store.Execution) ([]store.Execution, error) {
	outlooks, err := r.Examiner().Examine(ctx, tenant, some)
	return slices.DeleteFunc(some, func(x store.Execution) bool { return len(outlooks[x.ID].Stuck) == 0 }), err
}

// executionRow is an execution in a listing.
type executionRow struct {
	ID              string     `json:"id"`
	Tenant          string     `json:"tenant"`
	Workflow        string     `json:"workflow"`
	WorkflowVersion string     `json:"workflow_version,omitempty"`
	Definition      string     `json:"definition,omitempty"` // hash of the document
	Status          string     `json:"status"`
	Created         time.Time  `json:"created"`
	Ended           *time.Time `json:"ended,omitempty"`
	AgeMS           int64      `json:"age_ms"`
	DurationMS      *int64     `json:"duration_ms,omitempty"` // once it has ended
	Events          int64      `json:"events"`
	Parent          string     `json:"parent,omitempty"`
	ParentTask      string     `json:"parent_task,omitempty"`
	Stuck           []string   `json:"stuck,omitempty"` // tasks that nothing will ever end
}

func executionRowOf(x store.Execution, now time.Time) executionRow {
	row := executionRow{
		ID: x.ID, Tenant: x.Tenant, Workflow: x.Workflow, Definition: x.Definition, Status: x.Status, Created: x.CreatedAt,
		AgeMS: now.Sub(x.CreatedAt).Milliseconds(), Events: x.Version, Parent: x.Parent, ParentTask: x.ParentTask,
	}
	if !x.EndedAt.IsZero() {
		took := x.EndedAt.Sub(x.CreatedAt).Milliseconds()
		row.Ended, row.DurationMS = &x.EndedAt, &took
	}
	return row
}

// status formats the status and marks an execution that nothing will wake.
func (r executionRow) status() string {
	if len(r.Stuck) > 0 {
		return r.Status + ", stuck"
	}
	return r.Status
}

func (r executionRow) age() string {
	return history.Duration(time.Duration(r.AgeMS) * time.Millisecond)
}

func (r executionRow) duration() string {
	if r.DurationMS == nil {
		return ""
	}
	return history.Duration(time.Duration(*r.DurationMS) * time.Millisecond)
}

// rows adds to executions the versions of their documents and their stuck tasks.
func rows(ctx context.Context, r *cli.Remote, found []store.Execution, now time.Time) ([]executionRow, error) {
	versions, err := documentVersions(ctx, r, found)
	if err != nil {
		return nil, err
	}
	byTenant := map[string][]store.Execution{}
	for _, x := range found {
		byTenant[x.Tenant] = append(byTenant[x.Tenant], x)
	}
	outlooks := map[string]map[string]examine.Findings{}
	for tenant, of := range byTenant {
		if outlooks[tenant], err = r.Examiner().Examine(ctx, tenant, of); err != nil {
			return nil, err
		}
	}
	out := make([]executionRow, 0, len(found))
	for _, x := range found {
		row := executionRowOf(x, now)
		row.Stuck = outlooks[x.Tenant][x.ID].Stuck
		row.WorkflowVersion = versions[x.Tenant+" "+x.Workflow+" "+x.Definition]
		out = append(out, row)
	}
	return out, nil
}

// documentVersions returns the versions under which the documents of executions are registered, by
// tenant, workflow and hash.
func documentVersions(ctx context.Context, r *cli.Remote, found []store.Execution) (map[string]string, error) {
	wanted := map[string][]string{} // ids by tenant
	for _, x := range found {
		if x.Definition != "" && !slices.Contains(wanted[x.Tenant], x.Workflow) {
			wanted[x.Tenant] = append(wanted[x.Tenant], x.Workflow)
		}
	}
	out := map[string]string{}
	for tenant, ids := range wanted {
		workflows, err := r.Store.Versions(ctx, tenant, ids...)
		if err != nil {
			return nil, err
		}
		for _, w := range workflows {
			for _, v := range w.Versions {
				out[tenant+" "+w.ID+" "+v.Hash] = v.Version
			}
		}
	}
	return out, nil
}

func (l *executionListing) print(ctx context.Context, r *cli.Remote, found []store.Execution, now time.Time) error {
	shown, err := rows(ctx, r, found, now)
	if err != nil {
		return err
	}
	columns := []cli.Column[executionRow]{
		{Title: "ID", Text: func(x executionRow) string { return x.ID }},
		{Title: "WORKFLOW", Text: func(x executionRow) string { return x.Workflow }},
		{Title: "STATUS", Text: executionRow.status},
		{Title: "AGE", Text: executionRow.age},
		{Title: "DURATION", Text: executionRow.duration},
		{Title: "VERSION", Wide: true, Text: func(x executionRow) string { return cmp.Or(x.WorkflowVersion, shortHash(x.Definition)) }},
		{Title: "EVENTS", Wide: true, Text: func(x executionRow) string { return strconv.FormatInt(x.Events, 10) }},
		{Title: "PARENT", Wide: true, Text: func(x executionRow) string { return x.Parent }},
		{Title: "CREATED", Wide: true, Text: func(x executionRow) string { return x.Created.Format(time.RFC3339Nano) }},
	}
	if l.allTenants {
		tenant := cli.Column[executionRow]{Title: "TENANT", Text: func(x executionRow) string { return x.Tenant }}
		columns = append([]cli.Column[executionRow]{tenant}, columns...)
	}
	return cli.List[executionRow]{
		Columns: columns,
		ID:      func(x executionRow) string { return x.ID },
		Empty:   "no executions",
	}.Print(l.sh, l.format, shown)
}
