package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// timerChange is one run of a command that changes timers.
type timerChange struct {
	change

	verb, past string
	now        time.Time

	execution, key string // of the timers to change, besides those with an id

	// plan describes what the command does to a timer, or returns why it must not; do does
	// it.
	plan func(ctx context.Context, r *cli.Remote, p timers.Pending) (string, error)
	do   func(ctx context.Context, r *cli.Remote, p timers.Pending) (changed timers.Pending, done bool, err error)
}

// changedTimer is the result for one timer in the JSON output.
type changedTimer struct {
	ID     string     `json:"id"`
	Action string     `json:"action"`
	Plan   string     `json:"plan"`
	Done   bool       `json:"done"`
	NewID  string     `json:"new_id,omitempty"`
	Due    *time.Time `json:"due,omitempty"`
}

// flags adds the flags that these commands share.
func (t *timerChange) flags(c *cobra.Command, sh *cli.Shell) *cobra.Command {
	t.change = newChange(c, sh, "text", "json", "yaml")
	c.ValidArgsFunction = completeTimers(t.target)
	c.RunE = t.target.RunAt(t.run)
	return c
}

func newTimersFireCommand(sh *cli.Shell) *cobra.Command {
	t := &timerChange{verb: "fire", past: "fired"}
	t.plan = func(ctx context.Context, r *cli.Remote, p timers.Pending) (string, error) {
		if p.Err != nil {
			return "", fmt.Errorf("timer %s cannot fire: %w; 'flunq timers cancel %s' removes it", p.ID, p.Err, p.ID)
		}
		status, err := actions.Status(ctx, r.Store, p.Tenant, p.Execution)
		return "fires now: " + actions.Consequence(p, status), err
	}
	t.do = func(ctx context.Context, r *cli.Remote, p timers.Pending) (timers.Pending, bool, error) {
		done, err := actions.FireTimer(ctx, r.Store, p, t.by())
		return p, done, err
	}
	return t.flags(&cobra.Command{
		Use:   "fire ID…",
		Short: "Fire timers before they are due",
		Long: `Publishes the events of timers as if they were due, and removes the timers, atomically for
each timer. An execution that waits for one continues.`,
		Example: `  flunq timers fire hk2x9c1f2g0-5b1c
  flunq timers fire --yes $(flunq timers ls --execution order-7 -o ids)`,
		Args: cli.SomeArguments("timer"),
	}, sh)
}

func newTimersCancelCommand(sh *cli.Shell) *cobra.Command {
	t := &timerChange{verb: "cancel", past: "cancelled"}
	var force bool
	t.plan = func(ctx context.Context, r *cli.Remote, p timers.Pending) (string, error) {
		status, err := actions.Status(ctx, r.Store, p.Tenant, p.Execution)
		if err != nil {
			return "", err
		}
		loss, needed, err := actions.Loss(ctx, r.Examiner, p, status)
		if err != nil {
			return "", err
		}
		if needed && !force {
			return "", fmt.Errorf("timer %s is needed: %s; --force cancels it anyway, 'flunq timers fire' ends the wait", p.ID, loss)
		}
		return "never fires: " + loss, nil
	}
	t.do = func(ctx context.Context, r *cli.Remote, p timers.Pending) (timers.Pending, bool, error) {
		done, err := actions.CancelTimer(ctx, r.Store, p, t.by())
		return p, done, err
	}
	c := t.flags(&cobra.Command{
		Use:   "cancel {ID… | --execution ID --key KEY}",
		Short: "Cancel timers, so that they never fire",
		Long: `Removes timers. Without the timer it waits for, or without the only timeout of a task
that listens or runs a workflow, an execution would wait forever; without its delivery,
an event would be lost. Such timers need --force. To end a wait, fire its timer; to end an
execution, use 'flunq cancel'. 'flunq timers restore EXECUTION' restores timers.`,
		Example: `  flunq timers cancel hk2x9c1f2g0-5b1c
  flunq timers cancel hk2x9c1f2g0-5b1c --dry-run
  flunq timers cancel --execution order-7 --key payment`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case (t.key == "") != (t.execution == ""):
				return cli.Misusef("timers cancel: --execution and --key belong together%s", cli.SeeHelp(c))
			case t.key != "" && len(args) == 0:
				return nil
			default:
				return cli.SomeArguments("timer")(c, args)
			}
		},
	}, sh)
	c.Flags().StringVar(&t.execution, "execution", "", "cancel a timer of the execution `ID`, such as an input")
	c.Flags().StringVar(&t.key, "key", "", "cancel the timer with the key `KEY`")
	cli.CompleteFlag(c, "execution", cli.CompleteExecutions(t.target))
	c.Flags().BoolVar(&force, "force", false, "also cancel awaited timers, last timeouts and deliveries")
	return c
}

func newTimersMoveCommand(sh *cli.Shell) *cobra.Command {
	t := &timerChange{verb: "reschedule", past: "rescheduled"}
	var to, in, by string
	when := func(p timers.Pending) (time.Time, error) { return t.moment(p, to, in, by) }
	t.plan = func(_ context.Context, _ *cli.Remote, p timers.Pending) (string, error) {
		if p.Err != nil {
			return "", fmt.Errorf("timer %s cannot be moved: %w", p.ID, p.Err)
		}
		at, err := when(p)
		if err != nil {
			return "", err
		}
		text := at.Format(time.RFC3339Nano)
		if t.format.String() == "text" {
			text = cli.Moment(at)
		}
		return "is " + actions.Due(at, t.now, text), nil
	}
	t.do = func(ctx context.Context, r *cli.Remote, p timers.Pending) (timers.Pending, bool, error) {
		at, err := when(p)
		if err != nil {
			return p, false, err
		}
		return actions.MoveTimer(ctx, r.Store, p, at, t.by())
	}
	c := t.flags(&cobra.Command{
		Use:     "reschedule ID",
		Aliases: []string{"move"},
		Short:   "Move a timer to another time",
		Long: `Moves a timer to another time. It keeps its meaning for its execution; its id changes,
and is printed. A timer that is moved to the past fires immediately.`,
		Example: `  flunq timers reschedule hk2x9c1f2g0-5b1c --in 10m
  flunq timers reschedule hk2x9c1f2g0-5b1c --by -1h --dry-run
  flunq timers reschedule hk2x9c1f2g0-5b1c --to 2026-02-01T09:00:00+01:00`,
		Args: func(c *cobra.Command, args []string) error {
			if given := isSet(to) + isSet(in) + isSet(by); given != 1 {
				return cli.Misusef("reschedule: want one of --to, --in and --by, got %d%s", given, cli.SeeHelp(c))
			}
			return cli.OneArgument("timer")(c, args)
		},
	}, sh)
	c.Flags().StringVar(&to, "to", "", "move it to `TIME` (RFC 3339)")
	c.Flags().StringVar(&in, "in", "", "move it to `DURATION` from now: 10m, 3d, PT10M")
	c.Flags().StringVar(&by, "by", "", "move it by `DURATION`, forward or back: 1h, -30m")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName { // as start calls them
		return pflag.NormalizedName(cmp.Or(map[string]string{"at": "to", "after": "in"}[name], name))
	})
	return c
}

// isSet returns 1 if a flag is given, otherwise 0.
func isSet(flag string) int { return min(len(flag), 1) }

// moment computes the new time from the flags of reschedule.
func (t *timerChange) moment(p timers.Pending, to, in, by string) (time.Time, error) {
	if to != "" {
		return timeFlag("to", to)
	}
	if in != "" {
		return delayFlag("in", in, t.now)
	}
	shift, err := actions.Shift(by)
	if err != nil {
		return t.now, cli.Misusef("--by %q: %v", by, err)
	}
	return shift(p.Moment()), nil
}

// run changes all timers, or none if one of them cannot be changed.
func (t *timerChange) run(ctx context.Context, r *cli.Remote, now time.Time, ids []string) error {
	t.now = now
	found, changes, err := t.prepare(ctx, r, ids)
	if err != nil {
		return err
	}
	if t.Dry {
		return t.print(changes)
	}
	previews := make([]string, len(changes))
	for i, c := range changes {
		previews[i] = t.preview(c)
	}
	if err := t.confirm(ctx, "timers "+t.verb, previews...); err != nil {
		return err
	}
	err = t.apply(ctx, r, found, changes)
	return errors.Join(t.print(changes), err)
}

// prepare finds the timers and describes what the command does to each.
func (t *timerChange) prepare(ctx context.Context, r *cli.Remote, ids []string) (found []timers.Pending, changes []changedTimer, err error) {
	var wrong []error
	if t.key != "" {
		keyed, err := keyedTimers(ctx, r, t.execution, t.key)
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, keyed...)
	}
	for _, id := range ids {
		p, err := findTimer(ctx, r, id)
		plan := ""
		if err == nil {
			plan, err = t.plan(ctx, r, p)
		}
		found, wrong = append(found, p), append(wrong, err)
		changes = append(changes, changedTimer{ID: p.ID, Action: t.verb, Plan: plan})
	}
	return found, changes, errors.Join(wrong...)
}

// keyedTimers returns the ids of the timers of an execution with a key.
func keyedTimers(ctx context.Context, r *cli.Remote, execution, key string) (ids []string, err error) {
	found, _, err := timers.New(r.Store).List(ctx, timers.Filter{Tenant: r.Tenant, Execution: execution}, "", math.MaxInt)
	for _, p := range found {
		if p.Key == key && p.Keyed() {
			ids = append(ids, p.ID)
		}
	}
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("timer %q of execution %s: %w: it may have fired or been cancelled", key, execution, store.ErrNotFound)
	}
	return ids, err
}

func (t *timerChange) apply(ctx context.Context, r *cli.Remote, found []timers.Pending, changes []changedTimer) error {
	var wrong []error
	for i, p := range found {
		changed, done, err := t.do(ctx, r, p)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("timer %s: %w", p.ID, err))
		case !done:
			wrong = append(wrong, fmt.Errorf("timer %s: %w: it has fired meanwhile, or was cancelled or moved", p.ID, store.ErrNotFound))
		default:
			changes[i].Done = true
			if changed.ID != p.ID {
				due := changed.Moment().UTC()
				changes[i].NewID, changes[i].Due = changed.ID, &due
			}
		}
	}
	return errors.Join(wrong...)
}

// preview describes what the command would do to a timer.
func (t *timerChange) preview(c changedTimer) string {
	return fmt.Sprintf("would %s %s: it %s", t.verb, c.ID, c.Plan)
}

func (t *timerChange) print(changes []changedTimer) error {
	return cli.List[changedTimer]{Line: func(c changedTimer) string {
		switch {
		case t.Dry:
			return t.preview(c)
		case c.NewID != "":
			return fmt.Sprintf("%s is now %s: it %s", c.ID, c.NewID, c.Plan)
		case c.Done:
			return t.past + " " + c.ID
		default:
			return ""
		}
	}}.Print(t.sh, t.format, changes)
}
