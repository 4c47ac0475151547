package cmd

import "github.com/spf13/cobra"

// schedulerTopic is the help page about the scheduler of events.
func schedulerTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "scheduler",
		Short: "Events that are published at a given time",
		Long: `Any program asks over gRPC for an event to be published between one minute and
fifteen days ahead. It is published at that time or later, never earlier by
the clock of Redis, at least once, whatever dies. 'flunq serve --scheduler'
answers on 127.0.0.1:50051, 'flunq dev --scheduler' on a clock that can be
advanced; 'flunq schedule' is a client. The service is
scheduler.v1.SchedulerService; a server describes it to clients such as
grpcurl.

Topics (--topic)
  workflow:NAME, workflow:NAME:VERSION
      starts an execution with the payload as input. Its id is the event's, so
      it starts once.
  event:TYPE
      publishes a CloudEvent to the executions that listen for it; an execution
      receives it once.
  NAME
      with SCHEDULER_SINK=redis appends to the Redis stream
      scheduler:execute:NAME, whose readers trim it; with SCHEDULER_SINK=kafka
      produces to the topic NAME of Kafka.

Requests
  The id of an event is a UUID that the client chooses. The same request
  again is a success, also after a lost reply; another content under the
  same id is a CONFLICT. An event that was cancelled with SUCCESS is never
  published; one that may be out already cannot be cancelled.

States
  SCHEDULED  waits for its time
  FIRING     a process publishes it; if that process dies, another one does
             after the lease (SCHEDULER_LEASE, 30 s)
  FIRED      was published
  CANCELLED  will not be published
  DEAD       was refused, or failed SCHEDULER_MAX_ATTEMPTS (10) times; 'flunq
             schedule dlq' lists, replays and drops such events

Failures
  A publication of which nobody knows whether it happened is repeated, with
  the same id: readers drop an id that they know. Only what is kept in Redis
  and goes to a Redis stream is published exactly once, in one step of Redis.
  While a sink is away nothing counts as a failure. Events are due by the
  clock of Redis.

Where events are kept
  SCHEDULER_RECORDS=redis (the default): in Redis, so its persistence
  (appendfsync) decides what a crash of Redis loses.
  SCHEDULER_RECORDS=dynamodb: in DynamoDB. Redis holds an index that may be
  lost at any moment; a reconciler makes it whole again. 'flunq schedule
  init' creates the table.
  With SCHEDULER_FEED=kafka requests reach the index through a topic of
  Kafka. Other programs may write to it, too.

Partitions
  Processes share 16 partitions (SCHEDULER_TOTAL_PARTITIONS). 'flunq
  schedule partitions N' changes their number while the scheduler runs;
  nothing is lost.`,
	}
}
