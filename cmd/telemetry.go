package cmd

import "github.com/spf13/cobra"

// telemetryTopic is the help page about traces, metrics and logs.
func telemetryTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "telemetry",
		Short: "Traces, metrics and logs",
		Long: `By default, 'flunq serve' answers /metrics in the Prometheus format on --http,
and logs to stderr. .release/monitoring in flunq's sources has a
dashboard for Grafana and alert rules for Prometheus.

OpenTelemetry
  'flunq serve' sends traces, metrics and logs to a collector if the standard
  variables name one:

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 flunq serve

  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, …_METRICS_… and …_LOGS_… name one for
  each signal; OTEL_TRACES_EXPORTER=none disables one.
  OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc.
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_METRIC_EXPORT_INTERVAL and the SDK's other
  variables also apply. OTEL_SDK_DISABLED=true disables everything.

Traces
  An execution is a trace, which is sent when it ends: a span for each task
  run, with an event for each wait, retry and suspension. Attempts of a task
  are spans of their own. A child execution is a trace that links to the
  task that started it.
  Calls carry the header traceparent, unless the document sets one, so that
  the spans of called services appear below the task's span.
  A span links to the sender's span, which the attributes (or headers, or gRPC
  metadata) traceparent and tracestate name, when a task receives an event
  and when the scheduler starts an execution.
  The ids of spans derive from the ids of executions and tasks, so a span that
  is sent twice, for example after 'flunq retry', keeps its id.
  Attributes: flunq.tenant.id, flunq.execution.id, flunq.workflow.namespace,
  .name and .version on the execution; flunq.task.reference, .type, .iteration
  and .attempt on tasks; flunq.state on both; http.request.method, url.full
  and http.response.status_code on calls.
  Traces are sent at most once. Traces are lost if the process dies as an
  execution ends, if the collector stays away, or if executions end faster
  than they can be read; flunq_traces_dropped_total counts the losses that the
  process knows of.

Metrics
  The same names at /metrics and in the collector: worker_…, executor_… and
  timer_… for the services (events processed, errors, dead letters, durations
  in seconds), flunq_… for what is in Redis (timers, streams, executions, dead
  letters), scheduler_…, grpc_server_… and bridge_… for those that run.
  At most 100 tenants have labels of their own; the others share (other).

Logs
  The same records as on stderr, at the level of LOG_LEVEL, with all fields.`,
	}
}
