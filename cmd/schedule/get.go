package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// inspection is one run of schedule get, watch or dlq show.
type inspection struct {
	*command

	every time.Duration // of watch
}

func newGetCommand(sh *cli.Shell) *cobra.Command {
	return newShowCommand(sh, schedulerpb.EventStatus_EVENT_STATUS_UNSPECIFIED, &cobra.Command{
		Use:     "get ID",
		Short:   "Show an event",
		Example: "  flunq schedule get 4be0643f-1d98-573b-97cd-ca98a65347dd -o json | jq .payload",
		Aliases: []string{"show"},
	})
}

// newShowCommand completes a command that shows an event. The shell completes events with the status
// offered.
func newShowCommand(sh *cli.Shell, offered schedulerpb.EventStatus, c *cobra.Command) *cobra.Command {
	i := &inspection{command: newCommand(c, sh, "text", "json", "jsonl", "yaml")}
	c.Args = cli.OneArgument("event")
	c.ValidArgsFunction = completeEvents(i.command, offered)
	c.RunE = i.run(i.show)
	return c
}

func (i *inspection) show(ctx context.Context, c *client, args []string) error {
	row, err := c.event(ctx, args[0])
	if err != nil {
		return err
	}
	if i.format.String() == "text" {
		row.describe(i.sh)
		return nil
	}
	return row.print(i.sh, i.format)
}

// event returns an event.
func (c *client) event(ctx context.Context, id string) (eventRow, error) {
	out, err := c.Get(ctx, &schedulerpb.GetRequest{EventId: id})
	if err != nil {
		return eventRow{}, c.failed(err)
	}
	return rowOf(out.GetEvent()), refused(out.GetStatus())
}

func newWatchCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "Wait until an event is published",
		Long: `Prints an event whenever its state changes, until it is published. The exit code is 3 if
it ends in another way: cancelled, or dead.`,
		Example: "  flunq schedule watch 4be0643f-1d98-573b-97cd-ca98a65347dd",
		Args:    cli.OneArgument("event"),
	}
	i := &inspection{command: newCommand(c, sh, "text", "jsonl")}
	c.ValidArgsFunction = completeEvents(i.command, schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED)
	c.Flags().DurationVar(&i.every, "interval", time.Second, "ask every `DURATION`")
	c.RunE = i.run(i.watch)
	return c
}

func (i *inspection) watch(ctx context.Context, c *client, args []string) error {
	const least = 10 * time.Millisecond
	if i.every < least {
		return cli.Misusef("--interval %s: want %s or more", i.every, least)
	}
	for last := ""; ; {
		row, err := c.event(ctx, args[0])
		if err != nil {
			return err
		}
		if state := fmt.Sprint(row.Status, row.Attempts, clock(row.Due)); state != last {
			last = state
			if err := i.change(row); err != nil {
				return err
			}
		}
		switch {
		case row.Status == schedule.Fired:
			return nil
		case !row.Status.Open():
			return cli.Fail(cli.ExitFaulted, fmt.Errorf("event %s is %s and will not be published", row.ID, row.Status))
		}
		if err := cli.Pause(ctx, i.every); err != nil {
			return err
		}
	}
}

// change prints a new state of an event.
func (i *inspection) change(row eventRow) error {
	if i.format.String() == "jsonl" {
		return row.print(i.sh, i.format)
	}
	text := string(row.Status)
	switch in := row.dueIn(); {
	case row.in < 0:
		text += ", overdue by " + strings.TrimPrefix(in, "-")
	case in != "":
		text += ", due in " + in
	}
	if row.Attempts > 0 {
		text += fmt.Sprintf(", attempts %d", row.Attempts)
	}
	if row.Error != "" {
		text += ": " + row.Error
	}
	fmt.Fprintf(i.sh.Out, "%s  %s\n", clock(row.Updated), cli.OneLine(text))
	return nil
}
