package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/dsl"
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
	if err := askClock(ctx, r.rdb, &now, strings.ToUpper(verb)); err != nil {
		return err
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

// askClock sends a command to the clock and reads its answer.
func askClock(ctx context.Context, rdb *redis.Client, into any, args ...any) error {
	text, err := rdb.Do(ctx, append([]any{dev.Command}, args...)...).Text()
	var refused redis.Error
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		return misusef("the Redis at %s keeps real time: only 'flunq dev --clock virtual' has a clock that can be moved", rdb.Options().Addr)
	case errors.As(err, &refused):
		return misusef("%s", strings.TrimPrefix(err.Error(), "ERR "))
	case err != nil:
		return fail(exitUnreachable, fmt.Errorf("ask for the clock: %w", err))
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read the clock's answer: %w", err)
	}
	return nil
}

// giveUp is how long a clock may stand with the same things under way.
const giveUp = 10 * time.Second

func (k *clockCommand) advance(ctx context.Context, text string) error {
	d, err := spanOf(text)
	if err != nil {
		return misusef("%v (or 3d, 1w, 2d12h)", err)
	}
	r, err := k.target.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	var now dev.Clock
	if err := askClock(ctx, r.rdb, &now, "SHOW"); err != nil {
		return err
	}
	move, err := moveClock(ctx, r.rdb, now.Now, d.From(now.Now))
	if err != nil {
		return err
	}
	if k.format.String() != "text" {
		err = writeValue(k.sh.Out, k.format.String(), move)
	} else {
		k.tell(move)
	}
	if err == nil && !move.Done {
		left := elapsed(move.Target.Sub(move.Now))
		return fail(exitLimit, fmt.Errorf("the clock stands at %s, %s before the end: %s; wait for what takes real time and advance again",
			move.Now.Format(time.RFC3339Nano), left, move.Busy))
	}
	return err
}

// spanOf reads a duration as documents have it, or as people write days and weeks: 3d, 2d12h.
func spanOf(text string) (dsl.Duration, error) {
	d, err := dsl.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	rest := text
	for _, unit := range []struct {
		letter string
		days   int64
	}{{"w", 7}, {"d", 1}} {
		number, behind, found := strings.Cut(rest, unit.letter)
		n, wrong := strconv.ParseUint(number, 10, 20)
		if !found || wrong != nil {
			continue
		}
		d.Days += int64(n) * unit.days
		rest = behind
	}
	if rest == "" && text != "" {
		return d, nil
	}
	clock, wrong := time.ParseDuration(rest)
	if wrong != nil || clock < 0 || rest == text {
		return d, err
	}
	d.Clock = clock
	return d, nil
}

// moveClock moves the clock in slices, so that it can be interrupted, until the end
// is reached or nothing changes any more.
func moveClock(ctx context.Context, rdb *redis.Client, from, target time.Time) (dev.Move, error) {
	all := dev.Move{From: from, Now: from, Target: target}
	for changed := time.Now(); ; {
		left := max(0, target.Sub(all.Now))
		var move dev.Move
		if err := askClock(ctx, rdb, &move, "ADVANCE", (left + time.Millisecond - 1).Milliseconds()); err != nil {
			return all, err
		}
		if move.Now.After(all.Now) || move.Fired > 0 {
			changed = time.Now()
		}
		all.Now, all.Done, all.Busy = move.Now, move.Done, move.Busy
		all.Fired += move.Fired
		all.Timers = append(all.Timers, move.Timers...)
		if all.Done || time.Since(changed) > giveUp {
			return all, nil
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
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
		fmt.Fprintf(k.sh.Out, "and %d more\n", more)
	}
	timers := fmt.Sprintf("%d timers", move.Fired)
	if move.Fired == 1 {
		timers = "1 timer"
	}
	fmt.Fprintf(k.sh.Out, "%s, %s later: %s fired\n", move.Now.Format(time.RFC3339Nano), elapsed(move.Now.Sub(move.From)), timers)
}
