package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

// migration is one run of the command migrate.
type migration struct {
	command

	selection    *selection
	as           *operator
	name, to     string // the workflow, if it is given, and the version
	from, reason string
	dry          bool
}

// NewMigrateCommand returns the command flunq migrate.
func NewMigrateCommand(sh *cli.Shell) *cobra.Command {
	m := &migration{}
	c := &cobra.Command{
		Use:   "migrate [ID…] --to [NAME:]VERSION",
		Short: "Move running executions to another version of their workflow",
		Long: `Moves executions that have not ended to another registered version of their workflow. An
execution is moved only if its whole history also follows from the new document, so that
it continues as if it had used that document from the start; otherwise the first event
that does not match is shown. Results of tasks are kept, and running calls finish
unchanged.

The move is atomic and is recorded in the history. 'flunq migrate ID --to OLD' moves it
back, as long as everything since then follows from the old document.

Name executions, or select those of a workflow with --workflow or --to NAME:VERSION, and
refine the selection with --status, --since, --before, --where, --label and --stuck. The
exit code is 4 if one of them cannot be migrated. Register a version with 'flunq workflows register'.`,
		Example: `  flunq migrate order-7 --to 1.1.0
  flunq migrate --to shop.order:1.1.0 --dry-run
  flunq migrate --workflow shop.order --from 1.0.0 --to 1.1.0 -o json`,
		GroupID: cli.GroupOperate,
	}
	m.command = newCommand(c, sh, "text", "json", "jsonl", "yaml", "ids")
	m.selection = selectionFlags(c, m.target, 0)
	m.selection.allowed = actions.OpenStatuses()[1:] // a pending execution has not begun
	f := c.Flags()
	f.StringVar(&m.to, "to", "", "migrate to `VERSION`, or NAME:VERSION")
	cli.CompleteFlag(c, "to", cli.Complete(m.target, func(ctx context.Context, r *cli.Remote) (words []string, err error) {
		found, err := registry.New(r.Store).Workflows(ctx, r.Tenant)
		for _, w := range found {
			for _, v := range w.Versions {
				words = append(words, cli.Printable(w.ID+":"+v.Version))
			}
		}
		return words, err
	}))
	f.StringVar(&m.from, "from", "", "only executions of `VERSION`")
	f.BoolVar(&m.dry, "dry-run", false, "only print which executions can be migrated, and why others cannot")
	f.StringVar(&m.target.Secrets, "secrets", "", "read the secrets from `FILE`, if the document's decisions depend on them")
	f.StringVar(&m.reason, "reason", "", "record `TEXT` in the history")
	m.as = operatorFlag(c, sh)
	c.ValidArgsFunction = cli.CompleteExecutions(m.target, m.selection.allowed...)
	c.PreRunE = func(_ *cobra.Command, ids []string) error { return m.check(ids) }
	c.RunE = m.target.Run(m.run)
	return c
}

// check returns an error if the flags are invalid.
func (m *migration) check(ids []string) error {
	if name, version, named := strings.Cut(m.to, ":"); named {
		m.name, m.to = name, version
	}
	switch {
	case m.to == "":
		return cli.Misusef("migrate: want --to VERSION or --to NAME:VERSION")
	case len(ids) == 0 && m.name == "" && m.selection.workflow == "":
		return cli.Misusef("migrate: want the ids of executions, or --workflow NAME")
	case len(ids) > 0 && (m.selection.given() || m.selection.limit > 0):
		return cli.Misusef("migrate: name executions or select them with flags, not both")
	}
	if err := m.selection.check(); err != nil {
		return err
	}
	if workflow, from, versioned := strings.Cut(m.selection.workflow, ":"); versioned {
		if m.from != "" && m.from != from {
			return cli.Misusef("--workflow %s and --from %s name different versions", m.selection.workflow, m.from)
		}
		m.selection.workflow, m.from = workflow, from
	}
	if w := m.selection.workflow; w != "" && m.name != "" && !event.IsWorkflow(w, m.name) && !event.IsWorkflow(m.name, w) {
		return cli.Misusef("--workflow %s and --to %s:%s name different workflows", w, m.name, m.to)
	}
	m.name = cmp.Or(m.selection.workflow, m.name)
	return nil
}

func (m *migration) run(ctx context.Context, r *cli.Remote, ids []string) error {
	found, err := m.find(ctx, r, ids)
	if err != nil {
		return err
	}
	by := actions.Migrator{Store: r.Store, Definitions: r.Definitions, By: m.as.by(), Reason: m.reason, From: m.from, Dry: m.dry}
	return errors.Join(m.each(ctx, found, by), m.selection.unread.err())
}

// find reads the executions and checks that the version is registered.
func (m *migration) find(ctx context.Context, r *cli.Remote, ids []string) (found []store.Execution, err error) {
	workflow := m.name
	if workflow != "" {
		w, err := findWorkflow(ctx, r, workflow+":"+m.to)
		if err != nil {
			return nil, err
		}
		workflow = w.Workflow
	}
	if len(ids) == 0 {
		m.selection.workflow = workflow
		return m.selection.all(ctx, m.sh, r)
	}
	found, err = findAll(ctx, r, ids, func(x store.Execution) error {
		if workflow != "" && x.Workflow != workflow {
			return fmt.Errorf("execution %s runs %s, not %s", x.ID, x.Workflow, workflow)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, checkVersion(ctx, r, found, m.to)
}

// checkVersion returns an error if the workflow of an execution has no such version.
func checkVersion(ctx context.Context, r *cli.Remote, all []store.Execution, version string) error {
	known := map[string]bool{}
	for _, x := range all {
		if known[x.Workflow] {
			continue
		}
		if _, err := findWorkflow(ctx, r, x.Workflow+":"+version); err != nil {
			return err
		}
		known[x.Workflow] = true
	}
	return nil
}

// each migrates the executions one by one and prints each result.
func (m *migration) each(ctx context.Context, found []store.Execution, by actions.Migrator) error {
	out := cli.Stream[actions.Migration]{Sh: m.sh, Format: m.format, Text: m.text, ID: func(row actions.Migration) string {
		if row.Result == actions.Migrated || row.Result == actions.MayBe {
			return row.ID
		}
		return ""
	}}
	count := map[string]int{}
	var failure error
	for _, x := range found {
		row, err := by.Migrate(ctx, x, m.to)
		if err != nil {
			failure = err
			break
		}
		if row.Result != actions.Skipped {
			count[row.Result]++
			out.Print(row)
		}
	}
	if m.format.String() == "text" && (failure == nil || len(count) > 0) {
		m.summarize(count)
	}
	if err := errors.Join(out.End(), failure); err != nil {
		return err
	}
	if count[actions.CannotBe] > 0 {
		return cli.Reported(cli.ExitUnexpected)
	}
	return nil
}

// text prints the result for one execution.
func (m *migration) text(row actions.Migration) {
	out := m.sh.Out
	style := cli.Green
	if row.Result == actions.CannotBe {
		style = cli.Red
	}
	result := fmt.Sprintf("%-*s", len(actions.CannotBe), row.Result)
	versions := ""
	if row.FromVersion != "" { // it has begun and not ended
		versions = "  " + row.FromVersion + " -> " + row.ToVersion
	}
	fmt.Fprintf(out, "%s  %s%s\n", cli.Paint(m.sh.OutColor(), style, result), cli.Printable(row.ID), cli.Printable(versions))
	if row.Reason != "" {
		fmt.Fprintf(out, "  %s\n", cli.OneLine(row.Reason))
	}
	if row.At != nil {
		fmt.Fprintf(out, "  at line %d of %s:%s (task %s)\n", row.At.Line, cli.Printable(row.Workflow), cli.Printable(row.ToVersion), cli.Printable(history.Task(row.Task)))
	}
	for _, note := range row.Notes {
		fmt.Fprintf(out, "  note: %s\n", cli.OneLine(note))
	}
}

// summarize prints how many executions have each result.
func (m *migration) summarize(count map[string]int) {
	all := 0
	var counts []string
	for _, result := range []string{actions.Migrated, actions.MayBe, actions.Unchanged, actions.CannotBe} {
		n := count[result]
		if result == actions.Unchanged {
			result = "unchanged"
		}
		if n > 0 {
			counts = append(counts, history.Number(n)+" "+result)
		}
		all += n
	}
	switch all {
	case 0:
		m.sh.Hint("no execution to migrate")
	case 1:
	default:
		fmt.Fprintf(m.sh.Out, "%s: %s\n", history.Count(all, "execution"), strings.Join(counts, ", "))
	}
}
