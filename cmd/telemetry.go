package cmd

import "github.com/spf13/cobra"

// telemetryTopic is the help page about traces, metrics and logs.
func telemetryTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "telemetry",
		Short: "Traces, metrics and logs",
		Long: `Without any setting, 'flunq serve' answers /metrics in the format of Prometheus
on --http, and logs to stderr. .release/monitoring in flunq's sources has a
dashboard for Grafana and alert rules for Prometheus.

OpenTelemetry
  'flunq serve' sends traces, metrics and logs to a collector if the standard
  variables name one; without them nothing is sent:

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 flunq serve

  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, …_METRICS_… and …_LOGS_… name one for
  each of them, OTEL_TRACES_EXPORTER=none leaves one out.
  OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc.
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_METRIC_EXPORT_INTERVAL and the others of
  the SDK are read, too. OTEL_SDK_DISABLED=true sends nothing.

Traces
  An execution is a trace, which is sent when it ends: a span for each task
  run, with an event for each wait, retry and suspension. Attempts of a task
  are spans of their own. A child execution is a trace that links to the
  task that started it.
  Calls carry the header traceparent, unless the document sets one, so that
  the spans of the called services lie below the task's span.
  An event that a task takes, and the start by an event of the scheduler, are
  linked to the span of their sender that the attributes (or headers, or
  gRPC metadata) traceparent and tracestate name.
  The ids of spans follow from the ids of executions and tasks: what is sent
  twice, after 'flunq retry' for example, has the same ids.
  Attributes: flunq.tenant.id, flunq.execution.id, flunq.workflow.namespace,
  .name and .version on the execution; flunq.task.reference, .type, .iteration
  and .attempt on tasks; flunq.state on both; http.request.method, url.full
  and http.response.status_code on calls.
  Traces are sent at most once. Those of an execution that ends while its
  process dies, or faster than they can be read, are missing;
  flunq_traces_dropped_total counts what the process knows of.

Metrics
  The same names at /metrics and in the collector: worker_…, executor_… and
  timer_… for the services (events processed, errors, dead letters, durations
  in seconds), flunq_… for what is in Redis (timers, streams, executions, dead
  letters), scheduler_…, grpc_server_… and bridge_… where these run.
  At most 100 tenants have labels of their own; the others share (other).

Logs
  What goes to stderr, at the level of LOG_LEVEL, with the same fields.`,
	}
}
