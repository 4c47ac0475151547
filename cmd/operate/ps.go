// Package operate contains the commands for executions, timers, workflows and dead letters
// of a running engine.
package operate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

// executionListing is one run of the command ps.
type executionListing struct {
	command

	selection  *selection
	after      string
	allTenants bool
	watch      bool
}

// NewListCommand returns the command flunq ps.
func NewListCommand(sh *cli.Shell) *cobra.Command {
	l := &executionListing{}
	c := &cobra.Command{
		Use:     "ps",
		Aliases: []string{"list"},
		Short:   "List executions, the newest first",
		Long: `Lists the executions of a tenant, newest first. An index by status keeps this fast with
millions of executions. Ages are measured by the clock of Redis.

` + selectionHelp + `

--watch prints the table again whenever it changes; if stdout is not a terminal, it
prints each execution that changes as a line.`,
		Example: `  flunq ps --status running,waiting
  flunq ps --where '.input.order == 7' --label team=payments
  flunq ps --status faulted --since 1h -o ids | xargs flunq retry
  flunq ps --workflow shop.order -o json | jq '.[].id'`,
		GroupID: cli.GroupOperate,
		Args:    cli.NoArguments,
	}
	l.command = newCommand(c, sh)
	f := c.Flags()
	l.selection = selectionFlags(c, l.target, 50)
	f.StringVar(&l.after, "after", "", "continue after `CURSOR`")
	cli.AllTenantsFlag(c, &l.allTenants, "include all tenants")
	f.BoolVar(&l.watch, "watch", false, "print again what changes, until interrupted")
	c.PreRunE = func(*cobra.Command, []string) error { return l.check() }
	c.RunE = l.target.Run(l.run)
	return c
}

func (l *executionListing) check() error {
	if format := l.format.String(); l.watch && (format == "json" || format == "yaml") {
		return cli.Misusef("--watch and -o %s exclude each other: want -o table, wide, jsonl or ids", format)
	}
	return l.selection.check()
}

// run lists what can be read, even if a master of a cluster does not respond or an execution is damaged,
// and returns an error that says what is missing.
func (l *executionListing) run(ctx context.Context, r *cli.Remote, _ []string) error {
	now, err := r.Now(ctx, l.allTenants)
	if err != nil {
		return err
	}
	tenants, missing := l.tenants(ctx, r)
	if len(tenants) == 0 && missing != nil {
		return missing
	}
	query, unknown, err := l.selection.query(ctx, r, tenants, now)
	if err != nil {
		return err
	}
	query.After = l.after
	if l.watch {
		return (&watchedListing{executionListing: l, remote: r, query: query}).run(ctx)
	}
	damaged, total, printed, next := unread{}, query.Limit, 0, ""
	for more := true; more; {
		if query.Limit = total - printed; len(tenants) == 1 && (l.format.String() == "ids" || l.format.String() == "jsonl") {
			query.Limit = min(query.Limit, 1000) // print lines as they arrive: there may be millions
		}
		var found []store.Execution
		if found, next, err = l.read(ctx, r, tenants, query, damaged); err != nil {
			return cli.BadID(err)
		}
		if len(found) == 0 && printed == 0 && errors.Join(missing, damaged.err()) != nil {
			return errors.Join(missing, damaged.err())
		}
		if err := l.print(ctx, r, found, now); err != nil {
			return err
		}
		printed, query.After = printed+len(found), next
		more = next != "" && printed < total
	}
	missing = errors.Join(missing, damaged.err())
	if err := l.selection.condition.hint(ctx, l.sh, r, printed); err != nil {
		return err
	}
	if unknown != "" && printed == 0 {
		l.sh.Hint("%s", unknown)
	}
	if next != "" {
		l.sh.Hint("more with --after %s", cli.Printable(next))
	}
	return missing
}

// tenants returns the tenants whose executions to list, and an error about those that cannot be reached.
func (l *executionListing) tenants(ctx context.Context, r *cli.Remote) ([]string, error) {
	if !l.allTenants {
		return []string{r.Tenant}, nil
	}
	return store.Reachable(ctx, r.Store, "executions")
}

// read reads one page of the executions of tenants, and adds those that cannot be read to damaged.
func (l *executionListing) read(
	ctx context.Context, r *cli.Remote, tenants []string, q store.ExecutionQuery, damaged unread,
) (found []store.Execution, next string, err error) {
	more := false
	for _, tenant := range tenants {
		q.Damaged = damaged.of(tenant)
		some, next, err := l.selection.page(ctx, r, tenant, q)
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

// executionRow is an execution in a listing.
type executionRow struct {
	ID              string       `json:"id"`
	Tenant          string       `json:"tenant"`
	Workflow        string       `json:"workflow"`
	WorkflowVersion string       `json:"workflow_version,omitempty"`
	Definition      string       `json:"definition,omitempty"` // hash of the document
	Status          string       `json:"status"`
	Created         time.Time    `json:"created"`
	Ended           *time.Time   `json:"ended,omitempty"`
	AgeMS           int64        `json:"age_ms"`
	DurationMS      *int64       `json:"duration_ms,omitempty"` // once it has ended
	Events          int64        `json:"events"`
	Parent          string       `json:"parent,omitempty"`
	ParentTask      string       `json:"parent_task,omitempty"`
	Labels          event.Labels `json:"labels,omitempty"` // its own, without the tags of its document
	Stuck           []string     `json:"stuck,omitempty"`  // tasks that nothing will ever end
}

func executionRowOf(x store.Execution, now time.Time) executionRow {
	row := executionRow{
		ID: x.ID, Tenant: x.Tenant, Workflow: x.Workflow, Definition: x.Definition, Status: x.Status, Created: x.CreatedAt,
		AgeMS: now.Sub(x.CreatedAt).Milliseconds(), Events: x.Version, Parent: x.Parent, ParentTask: x.ParentTask, Labels: x.Labels,
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
	if r.Ended == nil {
		return ""
	}
	return history.Duration(r.Ended.Sub(r.Created))
}

func (r executionRow) labels() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		out = append(out, name+"="+r.Labels[name])
	}
	return strings.Join(out, ",")
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
	stuck := map[string][]string{} // by tenant and id
	for tenant, all := range byTenant {
		for some := range slices.Chunk(all, batchSize) { // findings take 5 kB each
			findings, err := r.Examiner.Examine(ctx, tenant, some)
			if err != nil {
				return nil, err
			}
			for id, f := range findings {
				if len(f.Stuck) > 0 {
					stuck[tenant+" "+id] = f.Stuck
				}
			}
		}
	}
	out := make([]executionRow, 0, len(found))
	for _, x := range found {
		row := executionRowOf(x, now)
		row.Stuck = stuck[x.Tenant+" "+x.ID]
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
		workflows, err := registry.New(r.Store).Versions(ctx, tenant, ids...)
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
	if l.format.String() == "ids" {
		return cli.List[store.Execution]{ID: func(x store.Execution) string { return x.ID }}.Print(l.sh, l.format, found)
	}
	shown, err := rows(ctx, r, found, now)
	if err != nil {
		return err
	}
	return l.list().Print(l.sh, l.format, shown)
}

// list returns the columns of the table.
func (l *executionListing) list() cli.List[executionRow] {
	columns := []cli.Column[executionRow]{
		{Title: "ID", Text: func(x executionRow) string { return x.ID }},
		{Title: "WORKFLOW", Text: func(x executionRow) string { return x.Workflow }},
		{Title: "STATUS", Text: executionRow.status},
		{Title: "AGE", Text: executionRow.age},
		{Title: "DURATION", Text: executionRow.duration},
		{Title: "VERSION", Wide: true, Text: func(x executionRow) string { return cmp.Or(x.WorkflowVersion, shortHash(x.Definition)) }},
		{Title: "EVENTS", Wide: true, Text: func(x executionRow) string { return strconv.FormatInt(x.Events, 10) }},
		{Title: "PARENT", Wide: true, Text: func(x executionRow) string { return x.Parent }},
		{Title: "LABELS", Wide: true, Text: executionRow.labels},
		{Title: "CREATED", Wide: true, Text: func(x executionRow) string { return cli.Moment(x.Created) }},
	}
	if l.allTenants {
		tenant := cli.Column[executionRow]{Title: "TENANT", Text: func(x executionRow) string { return x.Tenant }}
		columns = append([]cli.Column[executionRow]{tenant}, columns...)
	}
	return cli.List[executionRow]{
		Columns: columns,
		ID:      func(x executionRow) string { return x.ID },
		Empty:   "no executions",
	}
}
