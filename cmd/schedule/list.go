package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// listing is one run of schedule ls or dlq ls.
type listing struct {
	*command

	status *cli.Choice // nil: list dead events

	topic, due, dueBefore, dueAfter, after string
	partition, limit                       int
	payloads                               bool
}

func newListCommand(sh *cli.Shell) *cobra.Command {
	l := &listing{status: cli.NewChoice("all")}
	for _, s := range schedule.Statuses() {
		l.status.Words = append(l.status.Words, strings.ToLower(string(s)))
	}
	c := &cobra.Command{
		Use:   "ls",
		Short: "List scheduled events",
		Long: `Lists events, open ones roughly in the order in which they are due. Events that were published or
cancelled are listed for as long as the scheduler keeps them (SCHEDULER_RETENTION).`,
		Example: `  flunq schedule ls --status scheduled --due 1h
  flunq schedule ls --status scheduled --limit 0 -o jsonl --payloads > all.jsonl`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	f := c.Flags()
	f.Var(l.status, "status", "only those that are `STATUS`: "+cli.OneOf(l.status.Words))
	cli.Offer(c, "status", l.status)
	f.StringVar(&l.due, "due", "", "only those due within `DURATION` (1h, PT30M)")
	f.StringVar(&l.dueBefore, "due-before", "", "only those due before `TIME` (RFC 3339)")
	f.StringVar(&l.dueAfter, "due-after", "", "only those due after `TIME` (RFC 3339)")
	cli.Exclude(c, "due", "due-before")
	f.IntVar(&l.partition, "partition", -1, "only those of the partition `N`")
	return l.flags(c, sh)
}

// flags adds the flags that both listings share.
func (l *listing) flags(c *cobra.Command, sh *cli.Shell) *cobra.Command {
	l.command = newCommand(c, sh)
	f := c.Flags()
	f.StringVar(&l.topic, "topic", "", "only those of the topic `NAME`")
	cli.LimitFlag(c, &l.limit, 50, "list at most `N`; 0: all")
	f.StringVar(&l.after, "after", "", "continue after the `CURSOR` that the previous listing printed")
	f.BoolVar(&l.payloads, "payloads", false, "include the payloads in -o json, jsonl and yaml")
	c.RunE = l.command.run(l.run)
	return c
}

// request builds the request from the flags.
func (l *listing) request() (*schedulerpb.ListRequest, error) {
	r := &schedulerpb.ListRequest{Topic: l.topic, Limit: int32(l.limit), Cursor: l.after, Payloads: l.payloads}
	if l.status == nil {
		r.Status = schedulerpb.EventStatus_EVENT_STATUS_DEAD
		return r, nil
	}
	if word := l.status.String(); word != "all" {
		r.Status = schedulerpb.EventStatus(schedulerpb.EventStatus_value[statusPrefix+strings.ToUpper(word)])
	}
	if l.partition < -1 || l.partition > 1<<30 {
		return nil, cli.Misusef("--partition %d: want 0 or more", l.partition)
	}
	if l.partition >= 0 {
		partition := int32(l.partition)
		r.Partition = &partition
	}
	if l.due != "" {
		within, err := delay(l.due)
		if err != nil {
			return nil, cli.Misusef("--due %q: %v", l.due, err)
		}
		r.DueWithin = within
	}
	var err error
	if r.DueBefore, err = timeOfFlag("--due-before", l.dueBefore); err != nil {
		return nil, err
	}
	r.DueAfter, err = timeOfFlag("--due-after", l.dueAfter)
	return r, err
}

func (l *listing) run(ctx context.Context, c *client, _ []string) error {
	request, err := l.request()
	if err != nil {
		return err
	}
	list := cli.List[eventRow]{Columns: eventColumns(l.status == nil), ID: eventID, Empty: "no events"}
	if l.status == nil {
		list.Empty = "no dead events"
	}
	// In these formats rows can be printed as they arrive.
	streamed := l.format.String() == "jsonl" || l.format.String() == "ids"
	var rows []eventRow
	var cursor string
	none := true
	open := map[string]bool{} // listed events that may come again, in another list
	err = c.each(ctx, request, func(e *schedulerpb.Event) error {
		cursor, none = e.GetCursor(), false
		row := rowOf(e)
		if open[row.ID] {
			return nil
		}
		if row.Status.Open() && request.GetStatus() == 0 {
			open[row.ID] = true
		}
		if streamed {
			return list.Print(l.sh, l.format, []eventRow{row})
		}
		rows = append(rows, row)
		return nil
	})
	if err == nil && none && request.Partition != nil {
		err = checkPartition(ctx, c, request.GetPartition())
	}
	if err != nil {
		return err
	}
	if !streamed {
		if err := list.Print(l.sh, l.format, rows); err != nil {
			return err
		}
	}
	if cursor != "" {
		l.sh.Hint("more with --after %s", cli.Quote(cli.Printable(cursor)))
	}
	return nil
}

// checkPartition returns an error if the scheduler does not have a partition.
func checkPartition(ctx context.Context, c *client, partition int32) error {
	out, err := c.Partitions(ctx, &schedulerpb.PartitionsRequest{})
	if err != nil {
		return c.failed(err)
	}
	if slices.Contains(out.GetPartitions(), partition) {
		return nil
	}
	return fmt.Errorf("there is no partition %d: the scheduler has %d, numbered from 0 ('flunq schedule partitions')", partition, out.GetCount())
}

// each calls take with each event of a listing.
func (c *client) each(ctx context.Context, request *schedulerpb.ListRequest, take func(*schedulerpb.Event) error) error {
	stream, err := c.List(ctx, request)
	if err != nil {
		return c.failed(err)
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.failed(err)
		}
		if err := take(e); err != nil {
			return err
		}
	}
}
