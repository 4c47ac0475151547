// Package otlp exports telemetry to an OpenTelemetry collector: a trace of each execution that ends,
// metrics, and logs. It sends nothing unless the standard variables OTEL_… ask for it.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// name is the name of the instrumentation.
const name = "flunq.io/flunq"

// Options configures an Exporter.
type Options struct {
	Env     func(name string) string // returns the variables that enable signals; the SDK reads the others itself
	Version string                   // of flunq
	Process string                   // the name of the process
	Log     *slog.Logger             // for reporting failures to send
}

// Exporter sends traces, metrics and logs. A nil Exporter sends nothing; its methods may be called.
type Exporter struct {
	opts     Options
	resource *resource.Resource

	traces  *sdktrace.TracerProvider // this field and the next two: nil if nothing is sent
	metrics sdkmetric.Exporter
	logs    *sdklog.LoggerProvider

	ended   chan execution // ended executions whose traces have not been sent
	dropped prometheus.Counter
	stop    func() // sends the remaining traces; nil if nothing reads ended

	closers []func(context.Context) error

	mu         sync.Mutex
	complained time.Time // when a failure to send was last logged
}

// Open returns an Exporter, or nil if the environment asks for none. It does not wait for the
// collector. An error means that the configuration is invalid.
func Open(ctx context.Context, opts Options) (*Exporter, error) {
	e := &Exporter{opts: opts}
	// The SDK reports variables that it cannot parse, and ignores them.
	otel.SetLogger(logr.FromSlogHandler(opts.Log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !ofResource(err) { // see about
			opts.Log.WarnContext(ctx, "OpenTelemetry variable ignored", "err", err)
		}
	}))
	errs := []error{e.openTraces(ctx), e.openMetrics(ctx), e.openLogs(ctx)}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	errs = slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() }) // of one variable
	if err := errors.Join(errs...); err != nil {
		e.Close(ctx)
		return nil, err
	}
	if e.traces == nil && e.metrics == nil && e.logs == nil {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(e.failed))
	return e, nil
}

// ofResource reports whether an error is about OTEL_RESOURCE_ATTRIBUTES, which about logs once; the SDK
// reports it for each signal.
func ofResource(err error) bool {
	_, escape := errors.AsType[url.EscapeError](err)
	return escape || errors.Is(err, resource.ErrPartialResource)
}

// failed logs that something could not be sent, at most twice a minute.
func (e *Exporter) failed(err error) {
	if ofResource(err) { // see about
		return
	}
	const pause = 30 * time.Second
	now := time.Now() //nolint:forbidigo // of the process, not of the engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.complained) >= pause {
		e.complained = now
		e.opts.Log.Warn("telemetry not sent", "err", err)
	}
}

// The protocols of OTLP.
const (
	overHTTP = "http/protobuf"
	overGRPC = "grpc"
)

// protocol returns the protocol for a signal, named as in the variables; "" if it is not sent. A
// signal is sent if an exporter or an endpoint is configured.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
func (o Options) protocol(signal string) (string, error) {
	first := func(names ...string) (name, value string) {
		for _, name = range names {
			if value = o.Env(name); value != "" {
				return name, value
			}
		}
		return name, ""
	}
	if strings.EqualFold(o.Env("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	exporter := o.Env("OTEL_" + signal + "_EXPORTER")
	switch exporter {
	case "none":
		return "", nil
	case "otlp", "":
	default:
		return "", fmt.Errorf("OTEL_%s_EXPORTER is %q: want otlp or none", signal, exporter)
	}
	switch variable, endpoint := first("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"); {
	case endpoint != "":
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "unix" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return "", fmt.Errorf("%s is %q: want a URL such as http://localhost:4318", variable, endpoint)
		}
	case exporter == "":
		return "", nil
	}
	switch variable, protocol := first("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", overHTTP:
		return overHTTP, nil
	case overGRPC:
		return overGRPC, nil
	default:
		return "", fmt.Errorf("%s is %q: want %s or %s", variable, protocol, overHTTP, overGRPC)
	}
}

// about describes the process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
func (e *Exporter) about(ctx context.Context) *resource.Resource {
	if e.resource != nil {
		return e.resource
	}
	var err error
	e.resource, err = resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "flunq"),
			attribute.String("service.version", e.opts.Version),
			attribute.String("service.instance.id", e.opts.Process),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	_, escape := url.PathUnescape(e.opts.Env("OTEL_RESOURCE_ATTRIBUTES"))
	if err = errors.Join(err, escape); err != nil {
		e.opts.Log.WarnContext(ctx, "part of OTEL_RESOURCE_ATTRIBUTES is invalid: want name=value, separated by commas, and % as %25", "err", err, "used", e.resource.String())
	}
	return e.resource
}

func (e *Exporter) openTraces(ctx context.Context) error {
	protocol, err := e.opts.protocol("TRACES")
	if protocol == "" {
		return err
	}
	var exporter sdktrace.SpanExporter
	if protocol == overGRPC {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return fmt.Errorf("send traces: %w", err)
	}
	e.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "flunq_traces_dropped_total", Help: "Executions whose traces were not sent, because their histories could not be read, or not in time, or because the collector did not take them.",
	})
	// Only the goroutine that reads histories waits for a full queue.
	e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(e.about(ctx)), sdktrace.WithIDGenerator(ids{}), sdktrace.WithBatcher(counting{exporter, e.dropped}, sdktrace.WithBlocking()))
	e.ended = make(chan execution, maxQueued)
	e.closers = append(e.closers, e.traces.Shutdown)
	return nil
}

// counting counts the executions whose spans could not be exported.
type counting struct {
	sdktrace.SpanExporter

	dropped prometheus.Counter
}

// ExportSpans implements sdktrace.SpanExporter.
func (c counting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	for _, s := range spans {
		if err != nil && !s.Parent().IsValid() { // the span of an execution
			c.dropped.Inc()
		}
	}
	return err
}

func (e *Exporter) openMetrics(ctx context.Context) error {
	protocol, err := e.opts.protocol("METRICS")
	if protocol == "" {
		return err
	}
	if protocol == overGRPC {
		e.metrics, err = otlpmetricgrpc.New(ctx)
	} else {
		e.metrics, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return fmt.Errorf("send metrics: %w", err)
	}
	return nil
}

func (e *Exporter) openLogs(ctx context.Context) error {
	protocol, err := e.opts.protocol("LOGS")
	if protocol == "" {
		return err
	}
	var exporter sdklog.Exporter
	if protocol == overGRPC {
		exporter, err = otlploggrpc.New(ctx)
	} else {
		exporter, err = otlploghttp.New(ctx)
	}
	if err != nil {
		return fmt.Errorf("send logs: %w", err)
	}
	e.logs = sdklog.NewLoggerProvider(sdklog.WithResource(e.about(ctx)), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	e.closers = append(e.closers, e.logs.Shutdown)
	return nil
}

// Metrics sends the metrics of a registry, every OTEL_METRIC_EXPORT_INTERVAL, until Close.
func (e *Exporter) Metrics(ctx context.Context, registry *prometheus.Registry) {
	if e == nil {
		return
	}
	if e.dropped != nil {
		registry.MustRegister(e.dropped)
	}
	if e.metrics == nil {
		return
	}
	reader := sdkmetric.NewPeriodicReader(e.metrics, sdkmetric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(registry))))
	e.closers = append(e.closers, sdkmetric.NewMeterProvider(sdkmetric.WithResource(e.about(ctx)), sdkmetric.WithReader(reader)).Shutdown)
}

// grace is how long Close waits for the histories of ended executions, and then for the collector.
const grace = 2 * time.Second

// Close sends what is left, within a few seconds, and closes the exporter. Anything logged, observed
// or measured later is not sent.
func (e *Exporter) Close(ctx context.Context) {
	if e == nil {
		return
	}
	if e.stop != nil {
		e.stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var closing sync.WaitGroup
	for _, end := range e.closers {
		closing.Go(func() {
			if err := end(ctx); err != nil {
				e.failed(err)
			}
		})
	}
	closing.Wait()
}
