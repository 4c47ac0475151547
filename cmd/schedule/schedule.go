// Package schedule contains the command flunq schedule, a client of the scheduler's gRPC
// server.
package schedule

import (
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
)

// NewScheduleCommand returns the command flunq schedule.
func NewScheduleCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "schedule",
		Short: "Publish events at a later time",
		Long: `Asks a scheduler to publish events later: between a minute and 15 days ahead by default.
'flunq serve --scheduler' and 'flunq dev --scheduler' run one. Each event is published at or
after its time, at least once.

A topic is a Redis stream (scheduler:execute:TOPIC) or, if the scheduler has
SCHEDULER_SINK=kafka, a topic of Kafka. Two kinds always reach a tenant of flunq: event:TYPE
sends an event to executions that listen for it, and workflow:NAME starts an execution with the
payload as its input.

The scheduler is found by --grpc, SCHEDULER_ADDRESS, a running 'flunq dev', or at
127.0.0.1:50051.`,
		Example: `  flunq schedule add --topic orders --after 15m --payload '{"order": 7}'
  flunq schedule add --topic workflow:reminder --after 14d --payload @input.json
  flunq schedule ls --status scheduled --due 1h
  flunq schedule cancel 4be0643f-1d98-573b-97cd-ca98a65347dd --yes`,
		GroupID: cli.GroupOperate,
	}, newAddCommand(sh), newGetCommand(sh), newListCommand(sh), newCancelCommand(sh), newMoveCommand(sh),
		newWatchCommand(sh), newDeadCommand(sh), newPartitionsCommand(sh), newInitCommand(sh))
}
