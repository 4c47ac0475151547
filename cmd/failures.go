package cmd

import "github.com/spf13/cobra"

// failuresTopic is the help page about what can fail in production.
func failuresTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "failures",
		Short: "What can fail in production, and what happens then",
		Long: `A process dies
  Another one claims its messages after a lease (LEASE, 30 s). A message on
  which two processes died is handled in isolation; after five crashes it
  becomes a dead letter.

Redis is unavailable, fails over, or refuses writes (read-only, full, no disk)
  The services wait, even at startup. Every transition is one script, so it is
  done completely or not at all. Commands that wait or follow (--wait, --follow,
  --watch) try again for up to a minute; others end with an error, with exit
  code 6 if they cannot reach Redis. redis-sentinel://host,host/MASTER and
  redis-cluster://host,host work ('flunq help cluster').

The clock of Redis jumps
  Timers, inputs and scheduled events follow it. After a jump forward they come
  early; after one back they wait until it has caught up. The work of dead
  processes is taken over after a lease nevertheless; only scheduled events that
  are kept in DynamoDB wait. Other clocks do not matter. 'flunq doctor' compares
  the clock of Redis with its own.

Redis loses a timer, a listener or a request
  A sweep (SWEEP_INTERVAL, 30 s) compares what open executions wait for with
  what Redis contains, and recreates what is missing.

A workflow grows without limit
  Limits stop it ('flunq help limits'), and the error names the limit. Above
  90 % of Redis' maxmemory no execution begins.

A host fails
  Its circuit breaker, one for each tenant and host, opens for 30 s after 10
  failures in a row. POST, PUT, PATCH and DELETE carry an Idempotency-Key; a
  repeated call has the same one.

An event cannot be handled
  After three attempts (MAX_RETRIES) it becomes a dead letter; the same commit
  ends its execution and cancels its timers and children.

A scheduled event cannot be published
  See 'flunq help scheduler'.`,
	}
}
