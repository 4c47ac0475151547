package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// signalCommand is one run of a command that sends a signal to executions.
type signalCommand struct {
	batch
	actions.Signal

	patience *cli.WaitFlags
	reason   string

	// reached reports whether an execution, which was in the state before, has reached the
	// state that the command asks for.
	reached func(before, now store.Execution) bool
}

// flags adds the flags that these commands share.
func (s *signalCommand) flags(c *cobra.Command, sh *cli.Shell) *cobra.Command {
	c.GroupID = cli.GroupOperate
	c.Long = strings.TrimSpace(c.Long + "\n\n" + batchHelp)
	s.batch = newBatch(c, sh, s.States)
	c.Flags().StringVar(&s.reason, "reason", "", "record `TEXT` in the history")
	s.patience = cli.NewWaitFlags(c, "until it is done")
	c.PreRunE = func(*cobra.Command, []string) error { return cmp.Or(s.patience.Check(), s.selection.check()) }
	c.RunE = s.target.Run(s.run)
	return c
}

// NewCancelCommand returns the command flunq cancel.
func NewCancelCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		Signal:  actions.Signals()["cancel"],
		reached: func(_, now store.Execution) bool { return examine.Ended(now.Status) },
	}
	return s.flags(&cobra.Command{
		Use:     "cancel [ID…]",
		Aliases: []string{"terminate"},
		Short:   "Cancel executions",
		Long: `Cancels executions with their tasks, timers and child executions. This cannot be undone,
so the command asks for confirmation; scripts use --yes.`,
		Example: `  flunq cancel order-7 --reason "ordered twice"
  flunq cancel --workflow shop.order --where '.input.order > 7' --dry-run
  flunq cancel --label incident=1207 --yes --wait`,
	}, sh)
}

// NewSuspendCommand returns the command flunq suspend.
func NewSuspendCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		Signal:  actions.Signals()["suspend"],
		reached: func(_, now store.Execution) bool { return now.Status == string(decide.Suspended) },
	}
	return s.flags(&cobra.Command{
		Use:   "suspend [ID…]",
		Short: "Suspend executions until they are resumed",
		Long: `Suspends executions: they start no new tasks. Running tasks finish; timers that fire
and events that arrive wait until the execution is resumed.`,
		Example: `  flunq suspend order-7
  flunq suspend order-7 --wait && flunq resume order-7
  flunq suspend --workflow shop.order --yes`,
	}, sh)
}

// NewResumeCommand returns the command flunq resume.
func NewResumeCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		Signal:  actions.Signals()["resume"],
		reached: func(_, now store.Execution) bool { return now.Status != string(decide.Suspended) },
	}
	return s.flags(&cobra.Command{
		Use:   "resume [ID…]",
		Short: "Resume suspended executions",
		Example: `  flunq resume order-7
  flunq resume --label incident=1207 --yes`,
	}, sh)
}

// NewRetryCommand returns the command flunq retry.
func NewRetryCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		Signal: actions.Signals()["retry"],
		reached: func(before, now store.Execution) bool {
			return now.Version > before.Version && now.Status != string(decide.Running) && now.Status != string(decide.Pending)
		},
	}
	return s.flags(&cobra.Command{
		Use:   "retry [ID…]",
		Short: "Retry faulted executions from the failed task",
		Long: `Runs the failed task of faulted executions again, and continues from there. Completed
tasks are not repeated.

--wait waits until the execution ends or waits for something; if it faults again the exit
code is 3.`,
		Example: `  flunq retry order-7 --wait
  flunq retry -w shop.order --since 1h --where '.error.status == 503' --yes`,
	}, sh)
}

// signalled is the result for one execution, in the JSON output.
type signalled struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Before string `json:"before"` // the status before
	Sent   bool   `json:"sent"`
	Status string `json:"status,omitempty"` // after waiting
	Reason string `json:"reason,omitempty"` // why it was not sent
}

// run sends the signal to all named executions, or to none if one of them cannot take it; or to
// all selected ones that can.
func (s *signalCommand) run(ctx context.Context, r *cli.Remote, ids []string) error {
	found, err := s.find(ctx, r, ids, s.Refuse)
	if err != nil {
		return err
	}
	printed := make([]signalled, len(found))
	for i, x := range found {
		printed[i] = signalled{ID: x.ID, Action: s.Verb, Before: x.Status}
	}
	if s.Dry {
		if len(printed) > 1 {
			s.sh.Hint("would %s %s", s.Verb, history.Count(len(printed), "execution"))
		}
		return errors.Join(s.print(printed), s.selection.unread.err())
	}
	if len(printed) > 0 && (s.Verb == "cancel" || s.selection.given()) {
		err := s.confirmAll(ctx, s.Verb, len(printed), func(i int) (id, status string) { return printed[i].ID, printed[i].Before })
		if err != nil {
			return err
		}
	}
	err = s.send(ctx, r, found, printed)
	if err == nil && len(found) > 0 {
		cli.HintUnserved(ctx, s.sh, r, "worker")
	}
	if err == nil && s.patience.Wait {
		err = s.await(ctx, r, found, printed)
	}
	return errors.Join(s.print(printed), err, s.refused(printed), s.selection.unread.err())
}

// send reads the executions again, and sends the signal to those that can still take it.
func (s *signalCommand) send(ctx context.Context, r *cli.Remote, found []store.Execution, printed []signalled) error {
	rows := printed
	for some := range slices.Chunk(found, batchSize) {
		current, err := r.Store.Outlines(ctx, r.Tenant, actions.IDs(some)...)
		if err != nil {
			return err
		}
		now, err := r.Store.NowOf(ctx, r.Tenant)
		if err != nil {
			return err
		}
		for i, x := range current {
			row := &rows[i]
			switch otherErr := s.Refuse(x); {
			case x.Status == "":
				row.Reason = "it no longer exists"
				continue
			case otherErr != nil:
				row.Reason = "it is " + x.Status + " meanwhile"
				continue
			}
			if err := r.Store.Publish(ctx, s.Event(x, s.reason, s.by(), now)); err != nil {
				return fmt.Errorf("execution %s: %w", x.ID, err)
			}
			row.Sent = true
		}
		rows = rows[len(some):]
	}
	return nil
}

// refused prints how many executions the signal was sent to, and returns an error about the others.
func (s *signalCommand) refused(printed []signalled) error {
	sent := 0
	var wrong []string
	for _, one := range printed {
		if one.Sent {
			sent++
		} else if one.Reason != "" {
			wrong = append(wrong, fmt.Sprintf("execution %s: %s", one.ID, one.Reason))
		}
	}
	if len(printed) > 1 {
		s.sh.Hint("%s: sent to %s of %s", s.Verb, history.Number(sent), history.Count(len(printed), "execution"))
	}
	return someErrors(wrong)
}

// await waits until every execution has reached the state or can no longer reach it.
func (s *signalCommand) await(ctx context.Context, r *cli.Remote, found []store.Execution, printed []signalled) error {
	var wrong []error
	for i, before := range found {
		if !printed[i].Sent {
			continue
		}
		x, err := s.patience.Until(ctx, s.sh, r, before.ID, func(now store.Execution) bool {
			return s.reached(before, now) || examine.Ended(now.Status) && now.Version > before.Version
		})
		printed[i].Status = x.Status
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case !s.reached(before, x), s.Verb == "cancel" && x.Status != string(decide.Cancelled):
			wrong = append(wrong, fmt.Errorf("execution %s is already %s", x.ID, x.Status))
		case s.Verb == "retry" && x.Status == string(decide.Faulted):
			wrong = append(wrong, s.faulted(ctx, r, before.ID))
		}
	}
	return errors.Join(wrong...)
}

// faulted returns the error with which a retried execution faulted again.
func (*signalCommand) faulted(ctx context.Context, r *cli.Remote, id string) error {
	x, err := r.Store.Execution(ctx, r.Tenant, id)
	if err != nil {
		return err
	}
	problem, err := actions.Problem(x)
	if err != nil || problem == nil {
		return errors.Join(cli.Fail(cli.ExitFaulted, fmt.Errorf("execution %s has faulted again", id)), err)
	}
	return cli.Fail(cli.ExitFaulted, fmt.Errorf("execution %s has faulted again: %w", id, problem))
}

func (s *signalCommand) print(printed []signalled) error {
	return cli.List[signalled]{
		ID: func(one signalled) string { return one.ID },
		Line: func(one signalled) string {
			switch {
			case s.Dry:
				return fmt.Sprintf("would %s %s, which is %s", s.Verb, one.ID, one.Before)
			case !one.Sent:
				return ""
			case one.Status != "":
				return one.ID + " is " + one.Status
			default:
				return s.Verb + " requested: " + one.ID
			}
		},
	}.Print(s.sh, s.format, printed)
}
