package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/cmd/operate"
	"flunq.io/flunq/engine/history"
)

// clockCommand is one run of a command about the clock of a flunq dev.
type clockCommand struct {
	sh     *shell
	target *target
	format *choice
}

func newClockCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "clock",
		Short: "Move the clock of a flunq dev",
		Long: `The clock of a 'flunq dev --clock virtual' goes at real pace until it is paused or
moved. Advancing it stops at every timer on the way, until all is done that follows
from it; a wait of 30 days takes moments.`,
		Example: `  flunq clock advance 3d
  flunq clock advance P1M -o json
  flunq clock pause && flunq clock show`,
		GroupID: groupOperate,
		Args:    knownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newClockAdvanceCommand(sh),
		newClockVerbCommand(sh, "show", "Show what time it is there"),
		newClockVerbCommand(sh, "pause", "Let the clock stand"),
		newClockVerbCommand(sh, "resume", "Let the clock go on"),
	)
	return c
}

func newClockVerbCommand(sh *shell, verb, short string) *cobra.Command {
	k := &clockCommand{sh: sh}
	c := &cobra.Command{Use: verb, Short: short, Example: "  flunq clock " + verb, Args: noArguments}
	k.target, k.format = targetFlags(c, sh), outputFlag(c, "text", "json", "yaml")
	c.RunE = func(c *cobra.Command, _ []string) error { return k.verb(c.Context(), verb) }
	return c
}

func newClockAdvanceCommand(sh *shell) *cobra.Command {
	k := &clockCommand{sh: sh}
	c := &cobra.Command{
		Use:   "advance DURATION",
		Short: "Let time pass in a moment",
		Long: `Moves the clock on by DURATION: 3d, 36h, P1M, or to a time such as
2026-02-01T00:00:00Z. It stops at every timer on the way, until all is done that
follows from it. Calls take the time they take: where one does not end, the clock
stays where it is, and the command says so (exit code 7).`,
		Example: `  flunq clock advance 3d
  flunq clock advance 2026-02-01T00:00:00Z`,
		Args: oneArgument("duration"),
	}
	k.target, k.format = targetFlags(c, sh), outputFlag(c, "text", "json", "yaml")
	c.RunE = func(c *cobra.Command, args []string) error { return k.advance(c.Context(), args[0]) }
	return c
}

func (k *clockCommand) verb(ctx context.Context, verb string) error {
	r, err := k.target.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	var now dev.Clock
	if err := operate.AskClock(ctx, r.rdb, &now, strings.ToUpper(verb)); err != nil {
		return clockCode(err)
	}
	if k.format.String() != "text" {
		return writeValue(k.sh.Out, k.format.String(), now)
	}
	state := string(now.Mode)
	if now.Paused {
		state += ", paused"
	}
	fmt.Fprintf(k.sh.Out, "%s (%s)\n", now.Now.Format(time.RFC3339Nano), state)
	return nil
}

// clockCode marks an error of a clock with the exit code that it means.
func clockCode(err error) error {
	switch {
	case errors.Is(err, operate.ErrClock):
		return fail(exitMisuse, err)
	case errors.Is(err, operate.ErrSilent):
		return fail(exitUnreachable, err)
	default:
		return err
	}
}

func (k *clockCommand) advance(ctx context.Context, text string) error {
	d, err := operate.Span(text)
	if err != nil {
		return misusef("%v (or 3d, 1w, 2d12h)", err)
	}
	r, err := k.target.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	var now dev.Clock
	if err := operate.AskClock(ctx, r.rdb, &now, "SHOW"); err != nil {
		return clockCode(err)
	}
	move, err := operate.MoveClock(ctx, r.rdb, now.Now, d.From(now.Now))
	if err != nil {
		return clockCode(err)
	}
	if k.format.String() != "text" {
		err = writeValue(k.sh.Out, k.format.String(), move)
	} else {
		k.tell(move)
	}
	if err == nil && !move.Done {
		left := history.Duration(move.Target.Sub(move.Now))
		return fail(exitLimit, fmt.Errorf("the clock stands at %s, %s before the end: %s; wait for what takes real time and advance again",
			move.Now.Format(time.RFC3339Nano), left, move.Busy))
	}
	return err
}

// tell says how far the clock got, and by what.
func (k *clockCommand) tell(move dev.Move) {
	const most = 20
	for i, t := range move.Timers {
		if i == most {
			break
		}
		who := t.Execution + " " + t.TaskID
		fmt.Fprintf(k.sh.Out, "%s  %s of %s\n", t.Due().UTC().Format(time.RFC3339Nano), printable(string(t.Kind)), printable(who))
	}
	if more := move.Fired - min(most, len(move.Timers)); more > 0 {
		fmt.Fprintf(k.sh.Out, "and %s more\n", history.Number(more))
	}
	timers := history.Count(move.Fired, "timer")
	fmt.Fprintf(k.sh.Out, "%s, %s later: %s fired\n", move.Now.Format(time.RFC3339Nano), history.Duration(move.Now.Sub(move.From)), timers)
}
