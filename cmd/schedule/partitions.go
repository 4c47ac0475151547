package schedule

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

func newPartitionsCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "partitions [COUNT]",
		Short: "Show or change the number of partitions",
		Long: `Shows the partitions and the processes that share them, or changes the number of partitions
while the scheduler runs. New events then go into COUNT partitions; events in former partitions
are published from there, and a former partition is removed once it is empty. Set
SCHEDULER_TOTAL_PARTITIONS to the same number, or unset it, before a process restarts.`,
		Example: `  flunq schedule partitions
  flunq schedule partitions 32`,
		Args: cli.AtMostOne("count"),
	}
	t := newCommand(c, sh, "text", "json", "yaml")
	c.RunE = t.run(t.partitions)
	return c
}

// partitions is the JSON output.
type partitions struct {
	Count     int      `json:"count"`
	Former    []int    `json:"former"` // partitions beyond the first Count that may still hold events
	Processes []string `json:"processes"`
}

// partitions shows the partitions, or changes their number.
func (t *command) partitions(ctx context.Context, c *client, args []string) error {
	text := strings.Join(args, "")
	count, err := strconv.ParseInt(text, 10, 32)
	if text != "" && (err != nil || count < 1) {
		return cli.Misusef("partitions %q: want a positive integer", text)
	}
	out, err := c.Partitions(ctx, &schedulerpb.PartitionsRequest{})
	if err == nil && count > 0 {
		out, err = c.Partitions(ctx, &schedulerpb.PartitionsRequest{From: out.GetCount(), Count: int32(count)})
	}
	if err != nil {
		return c.failed(err)
	}
	if err := refused(out.GetStatus()); err != nil {
		return err
	}
	p := partitions{Count: int(out.GetCount()), Processes: out.GetProcesses()}
	for _, n := range out.GetPartitions() {
		if n >= out.GetCount() {
			p.Former = append(p.Former, int(n))
		}
	}
	if t.format.String() != "text" {
		return cli.WriteValue(t.sh.Out, t.format.String(), p)
	}
	fmt.Fprintf(t.sh.Out, "%s, shared by %s\n", history.Count(p.Count, "partition"), history.Count(len(p.Processes), "process"))
	for _, name := range p.Processes {
		fmt.Fprintf(t.sh.Out, "  %s\n", cli.Printable(name))
	}
	if len(p.Former) > 0 {
		fmt.Fprintf(t.sh.Out, "former partitions that may hold events: %s\n", strings.Trim(fmt.Sprint(p.Former), "[]"))
	}
	return nil
}
