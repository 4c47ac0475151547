package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
)

// clockCommand is one run of a command that reads or changes the clock of flunq dev.
type clockCommand struct {
	sh     *cli.Shell
	target *cli.Target
	format *cli.Choice
}

// NewClockCommand returns the command flunq clock.
func NewClockCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "clock",
		Short: "Pause or advance the virtual clock of flunq dev",
		Long: `The clock of 'flunq dev --clock virtual' runs at real speed until it is paused or
advanced. Advancing stops at every timer on the way, until everything that follows from
it is done; a wait of 30 days takes moments.`,
		Example: `  flunq clock advance 3d
  flunq clock advance P1M -o json
  flunq clock pause && flunq clock show`,
		GroupID: cli.GroupOperate,
	}, newClockAdvanceCommand(sh), newClockVerbCommand(sh, "show", "Show the time of the clock"),
		newClockVerbCommand(sh, "pause", "Pause the clock"), newClockVerbCommand(sh, "resume", "Resume the clock"))
}

func newClockVerbCommand(sh *cli.Shell, verb, short string) *cobra.Command {
	k := &clockCommand{sh: sh}
	c := &cobra.Command{Use: verb, Short: short, Example: "  flunq clock " + verb, Args: cli.NoArguments}
	k.target, k.format = cli.TargetFlags(c, sh), cli.OutputFlag(c, "text", "json", "yaml")
	k.target.WithoutTenant(c)
	c.RunE = k.target.Run(func(ctx context.Context, r *cli.Remote, _ []string) error { return k.verb(ctx, r, verb) })
	return c
}

func newClockAdvanceCommand(sh *cli.Shell) *cobra.Command {
	k := &clockCommand{sh: sh}
	c := &cobra.Command{
		Use:   "advance DURATION|TIME",
		Short: "Advance the clock",
		Long: `Advances the clock by DURATION (3d, 36h, P1M), or to a time such as 2026-02-01T00:00:00Z.
It stops at every timer on the way, until everything that follows from it is done. Calls
take real time: if one does not end, the clock stops there, and the command says so (exit
code 7).`,
		Example: `  flunq clock advance 3d
  flunq clock advance 2026-02-01T00:00:00Z`,
		Args: cli.OneArgument("duration"),
	}
	k.target, k.format = cli.TargetFlags(c, sh), cli.OutputFlag(c, "text", "json", "yaml")
	k.target.WithoutTenant(c)
	c.RunE = func(c *cobra.Command, args []string) error { return k.advance(c.Context(), args[0]) }
	return c
}

func (c *clockCommand) verb(ctx context.Context, r *cli.Remote, verb string) error {
	var now dev.Clock
	if err := actions.AskClock(ctx, r.Redis, &now, strings.ToUpper(verb)); err != nil {
		return clockCode(err)
	}
	state := string(now.Mode)
	if now.Paused {
		state += ", paused"
	}
	return cli.PrintValue(c.sh, c.format, cli.Moment(now.Now)+" ("+state+")", "", now)
}

// clockCode adds the exit code to an error of the clock.
func clockCode(err error) error {
	switch {
	case errors.Is(err, actions.ErrClock):
		return cli.Fail(cli.ExitMisuse, err)
	case errors.Is(err, actions.ErrSilent):
		return cli.Fail(cli.ExitUnreachable, err)
	default:
		return err
	}
}

func (c *clockCommand) advance(ctx context.Context, text string) error {
	var target func(now time.Time) time.Time
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		target = func(time.Time) time.Time { return at }
	} else if d, err := dsl.ParseSpan(text); err == nil {
		target = d.From
	} else {
		return cli.Misusef("advance %q: %v, or a time such as 2026-02-01T00:00:00Z", text, err)
	}
	r, err := c.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	var now dev.Clock
	if err := actions.AskClock(ctx, r.Redis, &now, "SHOW"); err != nil {
		return clockCode(err)
	}
	to := target(now.Now)
	if to.Before(now.Now) {
		return cli.Misusef("advance %q: the clock is already at %s", text, cli.Moment(now.Now))
	}
	move, err := actions.MoveClock(ctx, r.Redis, now.Now, to)
	if err != nil {
		return clockCode(err)
	}
	err = cli.Show(c.sh, c.format, move, func() { c.print(move) })
	if err == nil && !move.Done {
		left := history.Duration(move.Target.Sub(move.Now))
		return cli.Fail(cli.ExitLimit, fmt.Errorf("the clock is at %s, %s before the target: %s; wait until the work that takes real time is done and advance again",
			cli.Moment(move.Now), left, move.Busy))
	}
	return err
}

// print prints how far the clock moved and which timers fired.
func (c *clockCommand) print(move dev.Move) {
	const limit = 20
	shown := move.Timers[:min(limit, len(move.Timers))]
	for _, t := range shown {
		who := strings.TrimSpace(t.Execution + " " + history.Task(t.TaskID)) // an input, or a timeout of the workflow, has no task
		fmt.Fprintf(c.sh.Out, "%s  %s of %s\n", cli.Moment(t.Due()), cli.Printable(string(t.Kind)), cli.Printable(who))
	}
	if more := move.Fired - len(shown); more > 0 {
		fmt.Fprintf(c.sh.Out, "and %s more\n", history.Number(more))
	}
	var fired []string
	if move.Fired > 0 || move.Events+move.Dead == 0 {
		fired = append(fired, history.Count(move.Fired, "timer")+" fired")
	}
	if move.Events > 0 {
		fired = append(fired, history.Count(move.Events, "scheduled event")+" published")
	}
	if move.Dead > 0 {
		fired = append(fired, history.Number(move.Dead)+" dead ('flunq schedule dlq ls')")
	}
	fmt.Fprintf(c.sh.Out, "%s, %s later: %s\n", cli.Moment(move.Now), history.Duration(move.Now.Sub(move.From)), strings.Join(fired, ", "))
}
