package cmd

import "github.com/spf13/cobra"

// bridgeTopic is the help page about Kafka and NATS.
func bridgeTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "bridge",
		Short: "Events of workflows in Kafka and NATS",
		Long: `EVENT_STREAM_TYPE=kafka or nats makes 'flunq serve' a bridge as well: it
publishes the events of each tenant and takes in events from outside. State
transitions still happen in Redis. --only bridge runs nothing else. One process
at a time is a tenant's bridge; when it dies, another takes over after LEASE.

Out
  Events go to the topic flunq.TENANT.events (KAFKA_TOPIC), in NATS to the
  subject flunq.TENANT.events.TYPE (NATS_SUBJECT), as CloudEvents in binary
  or structured mode (KAFKA_MODE, NATS_MODE). BRIDGE_EVENTS selects them:
  emitted, those from workflows and 'flunq emit'; lifecycle, the specification's
  events about workflows and tasks (io.serverlessworkflow.task.started.v1, …);
  lifecycle,emitted, the default; all, the engine's own events as well.
  Workers, which need the same setting, write lifecycle events together with
  the history that they report; 'flunq history ID -o cloudevents' prints them.
  Outputs above 64 KiB are left out.
  The key is the execution's id. Events of an execution arrive in order, each at
  least once. The header flunq-entry, MILLISECONDS-NUMBER, only increases for
  a key: drop messages that are not above the last one of their key. NATS drops
  duplicates itself within the stream's duplicate window, two minutes. A stream
  that NATS_CREATE_STREAM makes keeps messages for NATS_MAX_AGE, 7 days.
  While the broker is unreachable or accepts nothing, as without the right to
  write or when a stream is full, events wait in Redis. An event that it will
  never accept, such as one that is too large, becomes a dead letter.
  Secrets are published as tokens, never in plain text.

In
  Records of flunq.TENANT.in (KAFKA_LISTEN), messages of flunq.TENANT.in.>
  (NATS_LISTEN), become events of the tenant, each exactly once: its offset
  and the event are written together. They reach the executions that listen
  for their type. A topic without {tenant} belongs to the tenant of --tenant.
  An unreadable message becomes a dead letter with its offset ('flunq dlq ls').
  KAFKA_LISTEN_TYPE or NATS_LISTEN_TYPE is the type of messages that are not
  CloudEvents. KAFKA_START=com.example.order=order, or NATS_START, starts the
  workflow order with the event's data as input, once for each source and id.

External executors
  With --only worker,timer,bridge and BRIDGE_EVENTS=all, other programs
  perform the tasks. They read io.flunq.task.requested, whose data has
  task_id, task_name, task_type, input and config (the task as in the
  document; vars has variables that its expressions use), and answer with
  io.flunq.task.completed, with the same executionid and taskid and the data
  {"task_id", "task_name", "success": true, "output"} or "success": false
  and an "error": {"type": URI, "status", "title", "detail"} as in RFC 7807,
  on a topic that is read and trusted, such as results with
  KAFKA_LISTEN='flunq.{tenant}.in,results' KAFKA_TRUSTED=results. From all
  other topics such events become dead letters, since their senders could
  forge results. Tasks that only compute never leave the workers.

Operating
  'flunq doctor' shows the backlog, missing topics and which process runs the
  bridge. Streams are not trimmed for a bridge that is switched off, until
  redis-cli XGROUP DESTROY tenant:TENANT:events bridge-kafka removes its
  group (bridge-nats for NATS).
  Metrics: bridge_published_total, bridge_received_total, bridge_lag,
  bridge_feed_lag, bridge_errors_total.

Example, with Kafka on localhost:9092
  EVENT_STREAM_TYPE=kafka KAFKA_CREATE_TOPICS=true flunq serve &
  flunq emit --type com.example.paid --data '{"order": 7}'
  kcat -b localhost -t flunq.default.events -C -c 1 -f '%h\n%s\n'
  echo '{"order": 8}' | kcat -b localhost -t flunq.default.in -P \
    -H ce_specversion=1.0 -H ce_id=1 -H ce_source=/shop -H ce_type=com.example.x
  flunq top`,
	}
}
