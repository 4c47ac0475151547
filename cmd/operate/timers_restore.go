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
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// restoring is one run of timers restore.
type restoring struct{ change }

func newTimersRestoreCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore EXECUTION…",
		Short: "Restore missing timers that executions wait for",
		Long: `Compares what an execution waits for with what is in Redis, and restores what was
cancelled or lost. Missing timers are due at their last known time; overdue ones fire
immediately. Missing listeners are restored, and a task that no executor has is requested
again.

The repair of an execution is atomic and is recorded in its history. Nothing else is
changed. 'flunq ps --stuck' lists executions that need it.`,
		Example: `  flunq timers restore order-7 --dry-run
  flunq ps --stuck -o ids | xargs flunq timers restore --yes`,
		Args: cli.SomeArguments("execution"),
	}
	t := &restoring{newChange(c, sh, "text", "json", "yaml")}
	c.ValidArgsFunction = cli.CompleteExecutions(t.target, actions.OpenStatuses()[1:]...)
	c.RunE = t.target.Run(t.run)
	return c
}

// restored is the result for one execution in the JSON output.
type restored struct {
	ID       string     `json:"id"`
	Timers   []timerRow `json:"timers"`   // timers set again
	Listen   []string   `json:"listen"`   // event types listened for again
	Requests []string   `json:"requests"` // tasks requested again
	Done     bool       `json:"done"`

	of      store.Execution // at the version for which missing was determined
	missing timers.Restoration
	lines   []string // describe what is missing
}

func (rs *restoring) run(ctx context.Context, r *cli.Remote, ids []string) (err error) {
	var plans []restored
	var wrong []error
	for _, id := range ids {
		plan, err := rs.plan(ctx, r, id)
		plans, wrong = append(plans, plan), append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	var missing []string
	for _, plan := range plans {
		for _, line := range plan.lines {
			missing = append(missing, plan.ID+": "+line)
		}
	}
	if rs.Dry || len(missing) == 0 {
		return rs.print(plans)
	}
	if err := rs.confirm(ctx, "timers restore", missing...); err != nil {
		return err
	}
	for i := range plans {
		if len(plans[i].lines) > 0 {
			plans[i], err = rs.restore(ctx, r, plans[i].ID)
			wrong = append(wrong, err)
		}
	}
	return errors.Join(rs.print(plans), errors.Join(wrong...))
}

// plan determines which of the things that an execution waits for are missing.
func (*restoring) plan(ctx context.Context, r *cli.Remote, id string) (plan restored, err error) {
	plan.ID = id
	x, err := cli.FindExecution(ctx, r, id)
	if err != nil {
		return plan, err
	}
	if examine.Ended(x.Status) {
		return plan, fmt.Errorf("execution %s is %s: it waits for nothing", id, x.Status)
	}
	now, err := r.Store.NowOf(ctx, r.Tenant)
	if err != nil {
		return plan, err
	}
	found, err := r.Examiner.Examine(ctx, x.Tenant, []store.Execution{x})
	if err != nil {
		return plan, err
	}
	o, known := found[id]
	switch {
	case o.Damage != "":
		return plan, fmt.Errorf("execution %s: what it waits for is unknown: %s", id, o.Damage)
	case !known && x.Version > 0:
		return plan, fmt.Errorf("execution %s: its state cannot be rebuilt here, so what it waits for is unknown", id)
	case o.Unsure && o.Missing.Empty():
		return plan, fmt.Errorf("execution %s: something that it waits for is missing, but may still arrive: is every service of 'flunq serve' running?", id)
	}
	plan.of, plan.missing = store.Execution{Tenant: x.Tenant, ID: id, Workflow: x.Workflow, Version: o.Version}, o.Missing
	for _, needed := range o.Timers {
		if !needed.Missing {
			continue
		}
		row := neededRow(needed, now)
		plan.Timers = append(plan.Timers, row)
		of := cmp.Or(history.Task(row.Task), "the workflow")
		plan.lines = append(plan.lines, fmt.Sprintf("%s timer of %s, %s", row.Kind, of, actions.Due(row.Due, now, cli.Moment(row.Due))))
	}
	if plan.Listen = append(plan.Listen, o.Missing.Listen...); len(plan.Listen) > 0 {
		plan.lines = append(plan.lines, "subscription to "+strings.Join(plan.Listen, " and "))
	}
	for _, e := range o.Missing.Requests {
		plan.Requests = append(plan.Requests, e.Task)
		plan.lines = append(plan.lines, "request of "+history.Task(e.Task)+", which no executor has")
	}
	return plan, nil
}

// restore plans again and restores what is missing. It retries if the execution advances in the
// meantime.
func (rs *restoring) restore(ctx context.Context, r *cli.Remote, id string) (plan restored, err error) {
	const attempts = 10
	for range attempts {
		if plan, err = rs.plan(ctx, r, id); err != nil || len(plan.lines) == 0 {
			return plan, err
		}
		outcome, err := timers.New(r.Store).Restore(ctx, plan.of, plan.missing, rs.by())
		if err != nil {
			return plan, err
		}
		if outcome == store.Committed {
			plan.Done = true
			return plan, nil
		}
	}
	return plan, fmt.Errorf("execution %s keeps advancing: nothing was restored", id)
}

func (rs *restoring) print(plans []restored) error {
	if rs.format.String() != "text" {
		return cli.WriteValue(rs.sh.Out, rs.format.String(), plans)
	}
	for _, plan := range plans {
		if len(plan.lines) == 0 {
			rs.sh.Hint("execution %s: nothing is missing", plan.ID)
		}
		for _, line := range plan.lines {
			switch {
			case rs.Dry:
				fmt.Fprintf(rs.sh.Out, "would restore %s: %s\n", cli.Printable(plan.ID), cli.Printable(line))
			case plan.Done:
				fmt.Fprintf(rs.sh.Out, "restored %s: %s\n", cli.Printable(plan.ID), cli.Printable(line))
			}
		}
	}
	return nil
}
