package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
)

// removal is one run of the command rm.
type removal struct {
	sh      *cli.Shell
	target  *cli.Target
	format  *cli.Choice
	consent *cli.Consent
}

// NewRemoveCommand returns the command flunq rm.
func NewRemoveCommand(sh *cli.Shell) *cobra.Command {
	m := &removal{sh: sh}
	c := &cobra.Command{
		Use:     "rm ID…",
		Aliases: []string{"delete", "remove"},
		Short:   "Remove ended executions with their histories",
		Long: `Removes executions that have ended, with their histories. This cannot be undone, so the
command asks for confirmation; scripts use --yes. An execution that has not ended has to be
cancelled first. A child execution stays until its parent has ended.

The setting KEEP_FINISHED removes executions by their age, without this command.`,
		Example: `  flunq rm order-7
  flunq ps -s completed --before 30d --limit 0 -o ids | xargs flunq rm -y`,
		GroupID: cli.GroupOperate,
		Args:    cli.SomeArguments("execution"),
	}
	m.target = cli.TargetFlags(c, sh)
	m.format = cli.OutputFlag(c, "text", "json", "yaml", "ids")
	m.consent = cli.ConsentFlags(c)
	c.ValidArgsFunction = cli.CompleteExecutions(m.target, ended()...)
	c.RunE = func(c *cobra.Command, ids []string) error { return m.run(c.Context(), ids) }
	return c
}

// ended returns the statuses of executions that have ended.
func ended() (out []string) {
	for _, status := range actions.Statuses() {
		if examine.Ended(status) {
			out = append(out, status)
		}
	}
	return out
}

// removed is the result for one execution, in the JSON output.
type removed struct {
	ID      string `json:"id"`
	Status  string `json:"status"` // before
	Removed bool   `json:"removed"`
}

// run removes all executions, or none if one of them has not ended.
func (m *removal) run(ctx context.Context, ids []string) error {
	r, err := m.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	found, err := findAll(ctx, r, ids, func(x store.Execution) error {
		if examine.Ended(x.Status) {
			return nil
		}
		return fmt.Errorf("execution %s is %s: cancel it first (flunq cancel %s --wait)", x.ID, x.Status, x.ID)
	})
	if err != nil {
		return err
	}
	printed := make([]removed, len(found))
	for i, x := range found {
		printed[i] = removed{ID: x.ID, Status: x.Status}
	}
	if m.consent.Dry {
		return m.print(printed)
	}
	if !m.consent.Yes {
		for _, one := range printed {
			m.sh.Hint("remove %s (%s)", one.ID, one.Status)
		}
	}
	if err := m.consent.Confirm(ctx, m.sh, m.format, "remove"); err != nil {
		return err
	}
	return errors.Join(m.remove(ctx, r, printed), m.print(printed))
}

func (m *removal) remove(ctx context.Context, r *cli.Remote, all []removed) error {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	gone, err := r.Store.Remove(ctx, r.Tenant, ids)
	errs := []error{err}
	for i, one := range gone {
		if all[i].Removed = one; !one {
			errs = append(errs, fmt.Errorf("execution %s was not removed: its parent has not ended, or it has just been retried", ids[i]))
		}
	}
	return errors.Join(errs...)
}

func (m *removal) print(all []removed) error {
	switch format := m.format.String(); format {
	case "json", "yaml":
		return cli.WriteValue(m.sh.Out, format, all)
	default:
		for _, one := range all {
			switch id := cli.Printable(one.ID); {
			case m.consent.Dry && format == "text":
				fmt.Fprintf(m.sh.Out, "would remove %s, which is %s\n", id, one.Status)
			case one.Removed && format == "text":
				fmt.Fprintf(m.sh.Out, "%s is removed\n", id)
			case one.Removed || m.consent.Dry:
				fmt.Fprintln(m.sh.Out, id)
			}
		}
		return nil
	}
}
