package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
)

// signalCommand is one run of a command that sends a signal to executions.
type signalCommand struct {
	sh       *cli.Shell
	target   *cli.Target
	format   *cli.Choice
	patience *cli.WaitFlags
	consent  *cli.Consent // nil if the command destroys nothing
	reason   string
	as       *operator

	actions.Signal

	// reached reports whether an execution, which was in the state before, has reached the
	// state that the command asks for.
	reached func(before, now store.Execution) bool
}

// flags adds the flags that these commands share.
func (s *signalCommand) flags(c *cobra.Command) *cobra.Command {
	c.GroupID = cli.GroupOperate
	c.Args = cli.SomeArguments("execution")
	s.target = cli.TargetFlags(c, s.sh)
	s.format = cli.OutputFlag(c, "text", "json", "yaml", "ids")
	c.Flags().StringVar(&s.reason, "reason", "", "record `TEXT` in the history")
	s.as = operatorFlag(c)
	s.patience = cli.NewWaitFlags(c, "until it is done")
	c.ValidArgsFunction = cli.CompleteExecutions(s.target, s.States...)
	c.RunE = func(c *cobra.Command, args []string) error { return s.run(c.Context(), args) }
	return c
}

// NewCancelCommand returns the command flunq cancel.
func NewCancelCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		sh: sh, Signal: actions.Signals()["cancel"],
		reached: func(_, now store.Execution) bool { return examine.Ended(now.Status) },
	}
	c := s.flags(&cobra.Command{
		Use:     "cancel ID…",
		Aliases: []string{"terminate"},
		Short:   "Cancel executions",
		Long: `Cancels executions with their tasks, timers and child executions. This cannot be undone,
so the command asks for confirmation; scripts use --yes.`,
		Example: `  flunq cancel order-7 --reason "ordered twice"
  flunq cancel --yes --wait $(flunq ps -w shop.order --status waiting -o ids)`,
	})
	s.consent = cli.ConsentFlags(c)
	return c
}

// NewSuspendCommand returns the command flunq suspend.
func NewSuspendCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		sh: sh, Signal: actions.Signals()["suspend"],
		reached: func(_, now store.Execution) bool { return now.Status == string(decide.Suspended) },
	}
	return s.flags(&cobra.Command{
		Use:   "suspend ID…",
		Short: "Suspend executions until they are resumed",
		Long: `Suspends executions: they begin no further task. Running tasks finish; timers that fire
and events that arrive wait until the execution is resumed.`,
		Example: `  flunq suspend order-7
  flunq suspend order-7 --wait && flunq resume order-7`,
	})
}

// NewResumeCommand returns the command flunq resume.
func NewResumeCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		sh: sh, Signal: actions.Signals()["resume"],
		reached: func(_, now store.Execution) bool { return now.Status != string(decide.Suspended) },
	}
	return s.flags(&cobra.Command{
		Use:   "resume ID…",
		Short: "Resume suspended executions",
		Example: `  flunq resume order-7
  flunq ps --status suspended -o ids | xargs flunq resume`,
	})
}

// NewRetryCommand returns the command flunq retry.
func NewRetryCommand(sh *cli.Shell) *cobra.Command {
	s := &signalCommand{
		sh: sh, Signal: actions.Signals()["retry"],
		reached: func(before, now store.Execution) bool {
			return now.Version > before.Version && now.Status != string(decide.Running) && now.Status != string(decide.Pending)
		},
	}
	return s.flags(&cobra.Command{
		Use:   "retry ID…",
		Short: "Retry faulted executions from the failed task",
		Long: `Runs the failed task of faulted executions again, and continues from there. Completed
tasks are not repeated.

--wait waits until the execution ends or waits for something; if it faults again the exit
code is 3.`,
		Example: `  flunq retry order-7 --wait
  flunq ps --status faulted --since 1h -o ids | xargs flunq retry`,
	})
}

// signalled is the result for one execution, in the JSON output.
type signalled struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Before string `json:"before"` // the status before
	Sent   bool   `json:"sent"`
	Status string `json:"status,omitempty"` // after waiting
}

// run sends the signal to all executions, or to none if one of them cannot take it.
func (s *signalCommand) run(ctx context.Context, ids []string) error {
	if err := s.patience.Check(); err != nil {
		return err
	}
	r, err := s.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	found, err := findAll(ctx, r, ids, s.Refuse)
	if err != nil {
		return err
	}
	printed := make([]signalled, len(found))
	for i, x := range found {
		printed[i] = signalled{ID: x.ID, Action: s.Verb, Before: x.Status}
	}
	if err := s.confirm(ctx, printed); err != nil || s.dry() {
		return errors.Join(err, s.printDry(printed))
	}
	err = s.send(ctx, r, found, printed)
	if err == nil {
		err = cli.HintUnserved(ctx, s.sh, r, "worker")
	}
	if err == nil && s.patience.Wait {
		err = s.await(ctx, r, found, printed)
	}
	return errors.Join(s.print(printed), err)
}

func (s *signalCommand) dry() bool { return s.consent != nil && s.consent.Dry }

// findAll reads executions, each once. It returns an error for each that refuse returns one for.
func findAll(ctx context.Context, r *cli.Remote, ids []string, refuse func(store.Execution) error) ([]store.Execution, error) {
	var found []store.Execution
	var wrong []error
	for _, id := range ids {
		x, err := cli.FindExecution(ctx, r, id)
		if err == nil {
			err = refuse(x)
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if !slices.ContainsFunc(found, func(other store.Execution) bool { return other.ID == id }) {
			found = append(found, x)
		}
	}
	if len(wrong) == 1 {
		return nil, wrong[0]
	}
	return found, errors.Join(wrong...)
}

// confirm asks for confirmation if the command destroys something.
func (s *signalCommand) confirm(ctx context.Context, printed []signalled) error {
	if s.consent == nil || s.consent.Dry {
		return nil
	}
	if !s.consent.Yes {
		for _, one := range printed {
			s.sh.Hint("%s %s (%s)", s.Verb, one.ID, one.Before)
		}
	}
	return s.consent.Confirm(ctx, s.sh, s.format, s.Verb)
}

func (s *signalCommand) send(ctx context.Context, r *cli.Remote, found []store.Execution, printed []signalled) error {
	now, err := r.Store.Now(ctx)
	if err != nil {
		return err
	}
	for i, x := range found {
		e := s.Event(x, s.reason, s.as.name(s.sh), now)
		if err := r.Store.Publish(ctx, e); err != nil {
			return fmt.Errorf("execution %s: %w", x.ID, err)
		}
		printed[i].Sent = true
	}
	return nil
}

// await waits until every execution has reached the state or can no longer reach it.
func (s *signalCommand) await(ctx context.Context, r *cli.Remote, found []store.Execution, printed []signalled) error {
	var wrong []error
	for i, before := range found {
		x, err := s.patience.Until(ctx, r, before.ID, func(now store.Execution) bool {
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
	for _, one := range printed {
		switch {
		case !one.Sent:
		case s.format.String() == "ids":
			fmt.Fprintln(s.sh.Out, cli.Printable(one.ID))
		case s.format.String() != "text":
		case one.Status != "":
			fmt.Fprintf(s.sh.Out, "%s is %s\n", cli.Printable(one.ID), one.Status)
		default:
			fmt.Fprintf(s.sh.Out, "%s requested: %s\n", s.Verb, cli.Printable(one.ID))
		}
	}
	if format := s.format.String(); format == "json" || format == "yaml" {
		return cli.WriteValue(s.sh.Out, format, printed)
	}
	return nil
}

func (s *signalCommand) printDry(printed []signalled) error {
	if !s.dry() {
		return nil
	}
	if format := s.format.String(); format == "json" || format == "yaml" {
		return cli.WriteValue(s.sh.Out, format, printed)
	}
	for _, one := range printed {
		fmt.Fprintf(s.sh.Out, "would %s %s, which is %s\n", s.Verb, cli.Printable(one.ID), one.Before)
	}
	return nil
}
