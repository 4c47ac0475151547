package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/transfer"
)

// NewTenantsCommand returns the command flunq tenants.
func NewTenantsCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "tenants",
		Short: "List and remove tenants, and move one to another Redis",
		Example: `  flunq tenants ls
  flunq tenants mv acme --from redis://one:6379 \
    --to redis-cluster://a:6379,b:6379 --dry-run`,
		GroupID: cli.GroupOperate,
	}, newTenantsListCommand(sh), newTenantsMoveCommand(sh), newTenantsRemoveCommand(sh))
}

// tenantRow is a tenant in a listing.
type tenantRow struct {
	Tenant  string `json:"tenant"`
	Open    int64  `json:"open"`
	Ended   int64  `json:"ended"`
	Address string `json:"address,omitempty"` // of its master on a Redis Cluster
}

func newTenantsListCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Short:   "List the tenants, and where they are on a Redis Cluster",
		Example: `  flunq tenants ls -o json`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	t := newCommand(c, sh)
	t.target.WithoutTenant(c)
	c.RunE = t.target.Run(t.listTenants)
	return c
}

func (c command) listTenants(ctx context.Context, r *cli.Remote, _ []string) error {
	known, err := r.Store.Tenants(ctx)
	found, otherErr := r.Store.FindTenants(ctx)
	missing := cmp.Or(err, otherErr) // since a master of a cluster is down
	if missing != nil && !r.Store.Clustered() {
		return missing
	}
	names := append(known, found...)
	slices.Sort(names)
	var rows []tenantRow
	for _, name := range slices.Compact(names) {
		n, err := r.Store.Counts(ctx, name)
		at, otherErr := r.Store.AddressOf(ctx, name)
		if err := cmp.Or(err, otherErr); err != nil {
			if !r.Store.Clustered() {
				return err
			}
			missing = err
			continue
		}
		rows = append(rows, tenantRow{name, n.Open, n.Completed + n.Faulted + n.Cancelled, at})
	}
	if missing != nil {
		missing = fmt.Errorf("tenants on other masters, if there are any, are missing: %w", missing)
	}
	columns := []cli.Column[tenantRow]{
		{Title: "TENANT", Text: func(w tenantRow) string { return w.Tenant }},
		{Title: "OPEN", Text: func(w tenantRow) string { return strconv.FormatInt(w.Open, 10) }},
		{Title: "ENDED", Text: func(w tenantRow) string { return strconv.FormatInt(w.Ended, 10) }},
	}
	if r.Store.Clustered() {
		columns = append(columns, cli.Column[tenantRow]{Title: "MASTER", Text: func(w tenantRow) string { return w.Address }})
	}
	return errors.Join(cli.List[tenantRow]{
		Columns: columns,
		ID:      func(w tenantRow) string { return w.Tenant },
		Empty:   "no tenants; starting an execution creates one",
	}.Print(c.sh, c.format, rows), missing)
}

func newTenantsMoveCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "mv TENANT --from URL --to URL",
		Short: "Move a tenant to another Redis",
		Long: `Copies all data of a tenant, including its timers, compares both sides, deletes the original,
and only then hands the tenant over to the services of the other Redis. Meanwhile no process
may serve it on the old Redis: stop those that do, or let them serve others (--tenant). If the
command is interrupted, run it again. REDIS_PASSWORD applies to each URL without a password.
Programs that start executions or send events must use the new address afterwards. A
scheduler is such a program: its events for the tenant stay where it runs ('flunq schedule ls').`,
		Example: `  flunq tenants mv acme --from redis://one:6379 \
    --to redis-cluster://a:6379,b:6379 --yes`,
		Args: cli.OneArgument("tenant"),
	}
	var from, to string
	c.Flags().StringVar(&from, "from", "", "the Redis at `URL` that has the tenant")
	c.Flags().StringVar(&to, "to", "", "the Redis at `URL` that gets it")
	ch := change{command: command{sh: sh, format: cli.OutputFlag(c, "table", "json")}, Consent: cli.ConsentFlags(c)}
	c.RunE = func(c *cobra.Command, args []string) error {
		if from == "" || to == "" {
			return cli.Misusef("--from and --to are required: where the tenant is, and where it goes")
		}
		return ch.moveTenant(c.Context(), args[0], from, to)
	}
	return c
}

// movedTenant is the output of tenants mv.
type movedTenant struct {
	Tenant string `json:"tenant"`
	Keys   int    `json:"keys"`
	Timers int    `json:"timers"`
	DryRun bool   `json:"dry_run,omitempty"`
}

func (ch *change) moveTenant(ctx context.Context, tenant, from, to string) error {
	var stores [2]*store.Store
	for i, url := range []string{from, to} {
		rdb, err := cli.Dial(ctx, cli.WithPassword(ch.sh, url))
		if err != nil {
			return err
		}
		defer func() { _ = rdb.Close() }()
		stores[i] = store.New(rdb, store.Options{})
	}
	m := &transfer.Move{Tenant: tenant, From: stores[0], To: stores[1]}
	if err := m.Find(ctx); err != nil {
		return cli.BadID(err)
	}
	out := movedTenant{Tenant: tenant, Keys: m.Keys, Timers: m.Timers, DryRun: ch.Dry}
	what := fmt.Sprintf("tenant %s (%s, %s) from %s to %s", tenant, history.Count(m.Keys, "key"), history.Count(m.Timers, "timer"),
		cli.RedactedURL(from), cli.RedactedURL(to))
	verb := "would move"
	if !ch.Dry {
		if err := ch.confirm(ctx, "tenants mv", "move "+what); err != nil {
			return err
		}
		if err := m.Run(ctx); err != nil {
			return err
		}
		verb = "moved"
	}
	ch.sh.Hint("%s %s", verb, what)
	return cli.Show(ch.sh, ch.format, out, func() {})
}

// removedTenant is the output of tenants rm.
type removedTenant struct {
	Tenant string `json:"tenant"`
	Open   int64  `json:"open"`  // executions that had not ended
	Ended  int64  `json:"ended"` // executions that had
	Keys   int    `json:"keys"`  // before
	DryRun bool   `json:"dry_run,omitempty"`
}

func newTenantsRemoveCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "rm TENANT",
		Short: "Remove a tenant and all its data",
		Long: `Removes all data of a tenant: its executions with their histories, its workflows, timers,
dead letters and events. This cannot be undone, so the command asks for confirmation;
scripts use --yes. No process may serve the tenant meanwhile, since it would write data
again: stop those that do, or let them serve others (--tenant). Afterwards the command
scans all keys for leftovers.`,
		Example: `  flunq tenants rm acme --dry-run
  flunq tenants rm acme --yes`,
		Aliases: []string{"remove", "delete"},
		Args:    cli.OneArgument("tenant"),
	}
	ch := change{command: newCommand(c, sh, "text", "json", "yaml"), Consent: cli.ConsentFlags(c)}
	ch.target.WithoutTenant(c)
	c.RunE = ch.target.Run(ch.removeTenant)
	return c
}

func (ch *change) removeTenant(ctx context.Context, r *cli.Remote, args []string) error {
	tenant := args[0]
	_, keys, err := store.RemainingKeys(ctx, r.Store, tenant)
	if err != nil {
		return cli.BadID(err)
	}
	known, err := r.Store.Tenants(ctx)
	if err != nil {
		return err
	}
	if keys == 0 && !slices.Contains(known, tenant) {
		return fmt.Errorf("tenant %s: %w%s", tenant, store.ErrNotFound, cli.DidYouMean(tenant, known, ""))
	}
	if err := transfer.Unserved(ctx, r.Store, tenant); err != nil {
		return err
	}
	n, err := r.Store.Counts(ctx, tenant)
	if err != nil {
		return err
	}
	out := removedTenant{Tenant: tenant, Open: n.Open, Ended: n.Completed + n.Faulted + n.Cancelled, Keys: keys, DryRun: ch.Dry}
	what := fmt.Sprintf("tenant %s (open executions: %s, ended: %s; %s)", tenant,
		history.Number(out.Open), history.Number(out.Ended), history.Count(keys, "key"))
	if !ch.Dry {
		if err := ch.confirm(ctx, "tenants rm", "remove "+what); err != nil {
			return err
		}
		if err := clearTenant(ctx, r, tenant); err != nil {
			return err
		}
	}
	text := tenant + " is removed"
	if ch.Dry {
		text = "would remove " + what
	}
	return cli.PrintValue(ch.sh, ch.format, text, tenant, out)
}

// clearTenant removes a tenant, and checks that none of its data is left.
func clearTenant(ctx context.Context, r *cli.Remote, tenant string) error {
	if err := timers.New(r.Store).RemoveTenant(ctx, tenant); err != nil {
		return err
	}
	if err := r.Store.RemoveTenant(ctx, tenant); err != nil {
		return err
	}
	some, left, err := store.RemainingKeys(ctx, r.Store, tenant)
	if err == nil && left > 0 {
		err = fmt.Errorf("tenant %s: %s left, such as %s: a process writes to it; stop it and run the command again",
			tenant, history.Count(left, "key"), cli.Printable(some[0]))
	}
	return err
}
