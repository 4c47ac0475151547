package cmd

import "github.com/spf13/cobra"

// schedulerTopic is the help page about the scheduler of events.
func schedulerTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "scheduler",
		Short: "Publishing events at a given time",
		Long: `Any program can ask over gRPC for an event to be published, between one minute
and fifteen days ahead. By the clock of Redis, it is published at that time or
later, never earlier, and at least once, even if processes die. 'flunq serve
--scheduler' answers on 127.0.0.1:50051; 'flunq dev --scheduler' does so on a
clock that can be advanced; 'flunq schedule' is a client. The service is
scheduler.v1.SchedulerService, and clients such as grpcurl can ask a server
for its description.

Topics (--topic)
  workflow:NAME, workflow:NAME:VERSION
      starts an execution with the payload as input. Its id is the event's, so
      it starts once. In workflow: and event: topics, a payload that is not JSON
      becomes a string: its text, or base64 of other bytes.
  event:TYPE
      publishes a CloudEvent to the executions that listen for it; an execution
      receives it once.
  NAME
      with SCHEDULER_SINK=redis appends to the Redis stream
      scheduler:execute:NAME, which its readers have to trim (on a Redis Cluster
      scheduler:{scheduler}:execute:NAME); with SCHEDULER_SINK=kafka produces to
      the topic NAME of Kafka.
  Keys and headers become part of such records. The headers of event:TYPE become
  attributes of the CloudEvent; workflow:NAME uses neither.

Requests
  The id of an event is a UUID that the client chooses. Repeating a request,
  as after a lost reply, is a SUCCESS; other content under the same id is a
  CONFLICT. An event that was cancelled with SUCCESS is never published; one
  that may already be published cannot be cancelled.

States
  SCHEDULED  waits for its time
  FIRING     a process is publishing it; if that process dies, another one
             publishes it after the lease (SCHEDULER_LEASE, 30 s)
  FIRED      was published
  CANCELLED  will not be published
  DEAD       was refused, or failed SCHEDULER_MAX_ATTEMPTS (10) times; 'flunq
             schedule dlq' lists, replays and drops such events

Failures
  If it is unknown whether a publication succeeded, it is repeated with the
  same id, so readers should drop ids that they have seen. Only an event that
  is kept in Redis and published to a Redis stream is published exactly once,
  by one script. An unreachable sink does not count as a failure.

Where events are kept
  SCHEDULER_RECORDS=redis (the default): in Redis, whose persistence
  (appendfsync) decides what a crash of Redis loses.
  SCHEDULER_RECORDS=dynamodb: in DynamoDB. Redis holds an index that may be
  lost at any moment; a reconciler restores it. 'flunq schedule init'
  creates the table.
  With SCHEDULER_FEED=kafka requests reach the index through a topic of
  Kafka, to which other programs may also write.

Partitions
  Processes share 16 partitions (SCHEDULER_TOTAL_PARTITIONS). 'flunq
  schedule partitions N' changes their number while the scheduler runs;
  nothing is lost.`,
	}
}
