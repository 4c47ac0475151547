package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// removal is one run of the command rm.
type removal struct{ batch }

// NewRemoveCommand returns the command flunq rm.
func NewRemoveCommand(sh *cli.Shell) *cobra.Command {
	m := &removal{}
	c := &cobra.Command{
		Use:     "rm [ID…]",
		Aliases: []string{"delete", "remove", "prune"},
		Short:   "Remove ended executions with their histories",
		Long: `Removes executions that have ended, with their histories. This cannot be undone, so the
command asks for confirmation; scripts use --yes. An execution that has not ended has to be
cancelled first. A child execution stays until its parent has ended.

The setting KEEP_FINISHED removes executions by their age, without this command.

` + batchHelp,
		Example: `  flunq rm order-7
  flunq rm --status completed --before 30d --dry-run
  flunq rm --workflow shop.order --before 30d --yes`,
		GroupID: cli.GroupOperate,
	}
	m.batch = newBatch(c, sh, actions.EndedStatuses())
	c.PreRunE = func(*cobra.Command, []string) error { return m.selection.check() }
	c.RunE = m.target.Run(m.run)
	return c
}

// removed is the result for one execution, in the JSON output.
type removed struct {
	ID      string `json:"id"`
	Status  string `json:"status"` // before
	Removed bool   `json:"removed"`
}

// run removes all named executions, or none if one of them has not ended; or all selected ones.
func (m *removal) run(ctx context.Context, r *cli.Remote, ids []string) error {
	found, err := m.find(ctx, r, ids, func(x store.Execution) error {
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
	if m.Dry {
		return errors.Join(m.print(printed), m.selection.unread.err())
	}
	if len(printed) > 0 {
		err := m.confirmAll(ctx, "remove", len(printed), func(i int) (id, status string) { return printed[i].ID, printed[i].Status })
		if err != nil {
			return err
		}
	}
	err = m.remove(ctx, r, printed)
	return errors.Join(err, m.print(printed), m.selection.unread.err())
}

func (m *removal) remove(ctx context.Context, r *cli.Remote, all []removed) error {
	var wrong []string
	gone := 0
	for some := range slices.Chunk(all, batchSize) {
		ids := make([]string, len(some))
		for i := range some {
			ids[i] = some[i].ID
		}
		if err := m.trail(ctx, r, r.Tenant, "rm", strings.Join(ids, " ")); err != nil {
			return err
		}
		done, err := r.Store.Remove(ctx, r.Tenant, ids)
		for i, one := range done {
			if some[i].Removed = one; one {
				gone++
			} else {
				wrong = append(wrong, fmt.Sprintf("execution %s was not removed: its parent has not ended, or it has just been retried", ids[i]))
			}
		}
		if err != nil {
			return errors.Join(err, someErrors(wrong))
		}
	}
	if len(all) > 1 {
		m.sh.Hint("removed %s of %s", history.Number(gone), history.Count(len(all), "execution"))
	}
	return someErrors(wrong)
}

func (m *removal) print(all []removed) error {
	return cli.List[removed]{
		ID: func(one removed) string { return one.ID },
		Line: func(one removed) string {
			switch {
			case m.Dry:
				return "would remove " + one.ID + ", which is " + one.Status
			case one.Removed:
				return one.ID + " is removed"
			default:
				return ""
			}
		},
	}.Print(m.sh, m.format, all)
}
