package otlp_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/telemetry"
	"flunq.io/flunq/engine/telemetry/otlp"
)

const tenant = "default"

// collector keeps what is sent to it.
type collector struct {
	mu      sync.Mutex
	spans   []*spans.Span
	service string // of the spans
	metrics []string
	logs    []string
}

func (c *collector) takeTraces(request *traces.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range request.GetResourceSpans() {
		for _, a := range r.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.service = a.GetValue().GetStringValue()
			}
		}
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
}

// ServeHTTP takes OTLP over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/x-protobuf")
	switch r.URL.Path {
	case "/v1/traces":
		request := new(traces.ExportTraceServiceRequest)
		if proto.Unmarshal(body, request) == nil {
			c.takeTraces(request)
		}
	case "/v1/metrics":
		request := new(metrics.ExportMetricsServiceRequest)
		if proto.Unmarshal(body, request) == nil {
			c.mu.Lock()
			for _, m := range request.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
				c.metrics = append(c.metrics, m.GetName())
			}
			c.mu.Unlock()
		}
	case "/v1/logs":
		request := new(logs.ExportLogsServiceRequest)
		if proto.Unmarshal(body, request) == nil {
			c.mu.Lock()
			for _, l := range request.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
				c.logs = append(c.logs, l.GetBody().GetStringValue())
			}
			c.mu.Unlock()
		}
	}
}

// overGRPC takes traces over gRPC.
type overGRPC struct {
	traces.UnimplementedTraceServiceServer

	*collector
}

func (c overGRPC) Export(_ context.Context, request *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	c.takeTraces(request)
	return &traces.ExportTraceServiceResponse{}, nil
}

// span returns the span of a name.
func (c *collector) span(t *testing.T, name string) *spans.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.spans, func(s *spans.Span) bool { return s.GetName() == name })
	if at < 0 {
		t.Fatalf("no span is named %q", name)
	}
	return c.spans[at]
}

// attributes returns the attributes of a span, as text.
func attributes(s *spans.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.GetAttributes() {
		if out[a.GetKey()] = a.GetValue().GetStringValue(); out[a.GetKey()] == "" {
			out[a.GetKey()] = json.Number(a.GetValue().String()).String()
		}
	}
	return out
}

// open sets the variables and opens an exporter.
func open(t *testing.T, variables map[string]string) *otlp.Exporter {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value) // the SDK reads them
	}
	out, err := otlp.Open(t.Context(), options(variables))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func options(variables map[string]string) otlp.Options {
	return otlp.Options{
		Env: func(name string) string { return variables[name] }, Version: "1.2.3", Process: "p", Log: slog.New(slog.DiscardHandler),
	}
}

const document = `document: {dsl: '1.0.3', namespace: test, name: order, version: '1.0.0'}
do:
- hear: {listen: {to: {one: {with: {type: heard}}}}, output: {as: '${ $input }'}}
- pay:
    try:
    - charge: {call: http, with: {method: post, endpoint: "${ .url }"}}
    catch:
      retry: {delay: PT0.01S, limit: {attempt: {count: 3}}}
- ship: {run: {workflow: {namespace: test, name: parcel, version: '1.0.0'}}}
- rest: {wait: PT0.05S}
- fail: {raise: {error: {type: https://example.com/broken, status: 418, title: Broken}}}
`

const child = `document: {dsl: '1.0.3', namespace: test, name: parcel, version: '1.0.0'}
do:
- wrap: {set: {wrapped: true}}
`

// execute runs a workflow whose first call is rejected, and returns the traceparent header of each call.
func execute(t *testing.T, out *otlp.Exporter) (parents []string) {
	t.Helper()
	return executeWith(t, out, prometheus.NewRegistry())
}

func executeWith(t *testing.T, out *otlp.Exporter, registry *prometheus.Registry) (parents []string) {
	t.Helper()
	var mu sync.Mutex
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if parents = append(parents, r.Header.Get("Traceparent")); len(parents) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(shop.Close)
	opts := engine.Defaults()
	opts.Process, opts.Transport = "p", http.DefaultTransport
	opts.Block(10 * time.Millisecond)
	if out.Traced() {
		opts.Observe, opts.Trace = out.Observe, out.Parent
	}
	log := out.Log(slog.New(slog.NewJSONHandler(new(bytes.Buffer), nil)))
	opts.Activity = telemetry.New(log, registry).Observe
	e, err := engine.New(redistest.Start(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.Trace(t.Context(), e.Store)
	out.Metrics(t.Context(), registry)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = e.Run(ctx, slog.New(slog.DiscardHandler))
	}()
	var order *dsl.Definition
	for _, text := range []string{child, document} {
		def, _, err := dsl.Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
			t.Fatal(err)
		}
		order = def
	}
	log.InfoContext(t.Context(), "starting")
	if err := e.Start(t.Context(), order, engine.StartRequest{
		Tenant: tenant, ID: "o-1", Input: json.RawMessage(`{"url":"` + shop.URL + `/charge"}`), Trace: map[string]string{"traceparent": starter},
	}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, e.Store, "waiting")
	if err := e.Store.Publish(t.Context(), event.Event{
		ID: "h-1", Source: "/test", Type: "heard", Tenant: tenant, Time: time.Now(), Data: json.RawMessage(`{}`),
		Ext: map[string]string{"traceparent": sender},
	}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, e.Store, "faulted")
	stop()
	<-stopped
	out.Close(t.Context())
	mu.Lock()
	defer mu.Unlock()
	return parents
}

// The trace contexts of the programs that start the execution and send it an event.
const (
	starter = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	sender  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func waitFor(t *testing.T, st *store.Store, status string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if x, err := st.Execution(t.Context(), tenant, "o-1"); err == nil && x.Status == status {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the execution is not %s", status)
		}
	}
}

// A span for each task is sent when an execution ends, and calls carry the ids of their spans.
func TestExecutionIsTraced(t *testing.T) {
	c := new(collector)
	server := httptest.NewServer(c)
	defer server.Close()
	parents := execute(t, open(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
	}))

	order, parcel := c.span(t, "test.order"), c.span(t, "test.parcel")
	if c.service != "flunq" || len(parents) != 2 {
		t.Errorf("service %q, %d calls", c.service, len(parents))
	}
	if got := attributes(order); got["flunq.execution.id"] != "o-1" || got["flunq.workflow.name"] != "order" || got["flunq.state"] != "faulted" {
		t.Errorf("attributes of the execution: %v", got)
	}
	if order.GetStatus().GetCode() != spans.Status_STATUS_CODE_ERROR || !strings.Contains(order.GetStatus().GetMessage(), "Broken") || len(order.GetParentSpanId()) != 0 {
		t.Errorf("status of the execution: %v", order.GetStatus())
	}
	for name, parent := range map[string]string{"pay": "test.order", "charge": "pay", "ship": "test.order", "rest": "test.order", "fail": "test.order", "wrap": "test.parcel"} {
		s, above := c.span(t, name), c.span(t, parent)
		if string(s.GetParentSpanId()) != string(above.GetSpanId()) || string(s.GetTraceId()) != string(above.GetTraceId()) {
			t.Errorf("%s is not within %s", name, parent)
		}
		if s.GetStartTimeUnixNano() < above.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > above.GetEndTimeUnixNano() {
			t.Errorf("%s is not in the time of %s", name, parent)
		}
	}
	if links := parcel.GetLinks(); len(links) != 1 || string(links[0].GetSpanId()) != string(c.span(t, "ship").GetSpanId()) || string(links[0].GetTraceId()) != string(order.GetTraceId()) {
		t.Errorf("links of the child: %v", links)
	}
	var senders []string
	for _, link := range order.GetLinks() {
		senders = append(senders, hex.EncodeToString(link.GetTraceId())+"-"+hex.EncodeToString(link.GetSpanId()))
	}
	if want := []string{starter[3:52], sender[3:52]}; !slices.Equal(senders, want) {
		t.Errorf("links of the execution: %v, want %v", senders, want)
	}
	var calls []*spans.Span
	for _, s := range c.spans {
		if s.GetName() == "charge" {
			calls = append(calls, s)
		}
	}
	for i, s := range calls {
		want := "00-" + hex.EncodeToString(s.GetTraceId()) + "-" + hex.EncodeToString(s.GetSpanId()) + "-01"
		if len(calls) != len(parents) || parents[i] != want {
			t.Errorf("call %d carried %v, want %s", i, parents, want)
		}
		if got := attributes(s); got["http.request.method"] != "POST" || !strings.HasSuffix(got["url.full"], "/charge") || s.GetKind() != spans.Span_SPAN_KIND_CLIENT {
			t.Errorf("call %d: %v", i, got)
		}
	}
	if events := c.span(t, "rest").GetEvents(); len(events) == 0 || events[0].GetName() != "waiting" {
		t.Errorf("events of a wait: %v", events)
	}
	for _, name := range []string{"executor_tasks_processed_total", "flunq_traces_dropped_total"} {
		if !slices.Contains(c.metrics, name) {
			t.Errorf("no metric %s among %v", name, c.metrics)
		}
	}
	if !slices.Contains(c.logs, "starting") {
		t.Errorf("logs: %v", c.logs)
	}
}

func TestTracesOverGRPC(t *testing.T) {
	c := new(collector)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	traces.RegisterTraceServiceServer(server, overGRPC{collector: c})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	execute(t, open(t, map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + listener.Addr().String(),
	}))
	c.span(t, "test.order")
}

// A sampler decides for all spans of an execution, and calls carry its decision.
func TestUnsampled(t *testing.T) {
	c := new(collector)
	server := httptest.NewServer(c)
	defer server.Close()
	parents := execute(t, open(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL + "/v1/traces", "OTEL_TRACES_SAMPLER": "always_off"}))
	if len(c.spans) != 0 || len(parents) == 0 || !strings.HasSuffix(parents[0], "-00") {
		t.Errorf("%d spans, traceparent %v", len(c.spans), parents)
	}
}

// Nothing is sent, and nothing is added to calls, unless the variables say so.
func TestOff(t *testing.T) {
	for _, variables := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
	} {
		if out := open(t, variables); out != nil {
			t.Errorf("%v: it sends something", variables)
		}
	}
	if parents := execute(t, nil); parents[0] != "" {
		t.Errorf("a call carried %q", parents[0])
	}
}

func TestWrongVariables(t *testing.T) {
	t.Parallel()
	for want, variables := range map[string]map[string]string{
		`OTEL_TRACES_EXPORTER is "zipkin": want otlp or none`: {"OTEL_TRACES_EXPORTER": "zipkin"},
		`OTEL_EXPORTER_OTLP_PROTOCOL is "http/json": want http/protobuf or grpc`: {
			"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
		},
		`OTEL_EXPORTER_OTLP_ENDPOINT is "ftp://localhost": want a URL such as http://localhost:4318`:        {"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://localhost"},
		`OTEL_EXPORTER_OTLP_ENDPOINT is "localhost:4318": want a URL such as http://localhost:4318`:         {"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"},
		`OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is "127.0.0.1:4318/v1": want a URL such as http://localhost:4318`: {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "127.0.0.1:4318/v1"},
	} {
		if _, err := otlp.Open(t.Context(), options(variables)); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", variables, err, want)
		}
	}
}

// Variables that the SDK ignores are reported in the log.
func TestIgnoredVariables(t *testing.T) {
	var log bytes.Buffer
	t.Setenv("OTEL_TRACES_SAMPLER", "most")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "5s")
	const attributes = "team,zone=b,share=7%zz"
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", attributes)
	opts := options(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_LOGS_EXPORTER": "none", "OTEL_RESOURCE_ATTRIBUTES": attributes,
	})
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	out, err := otlp.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close(t.Context())
	out.Metrics(t.Context(), prometheus.NewRegistry())
	for _, want := range []string{`err="unsupported sampler: most"`, `"environment variable"=OTEL_METRIC_EXPORT_INTERVAL`, "missing value: [team]", "zone=b", `invalid URL escape \"%zz\"`} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log does not have %s once:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "telemetry not sent") {
		t.Errorf("a variable keeps telemetry from being sent:\n%s", log.String())
	}
}

// Traces that the collector does not take are counted, one for each execution.
func TestDroppedTraces(t *testing.T) {
	out := open(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
	})
	registry := prometheus.NewRegistry()
	executeWith(t, out, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "flunq_traces_dropped_total" && f.GetMetric()[0].GetCounter().GetValue() != 2 { // one is a child
			t.Errorf("counted %v", f.GetMetric())
		}
	}
}

// A collector that is away delays neither executions nor the shutdown.
func TestCollectorAway(t *testing.T) {
	out := open(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
	began := time.Now()
	out.Close(t.Context())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// A Redis that hangs takes none of the time in which the collector gets what is left.
func TestRedisHangs(t *testing.T) {
	c := new(collector)
	server := httptest.NewServer(c)
	defer server.Close()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	out := open(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	registry := prometheus.NewRegistry()
	out.Metrics(t.Context(), registry)
	rdb := redis.NewClient(&redis.Options{Addr: hanging.Addr().String()})
	defer rdb.Close()
	out.Trace(t.Context(), store.New(rdb, store.Options{}))
	out.Observe(0, []event.Event{{Type: event.WorkflowCompleted, Tenant: tenant, Execution: "o-1"}})
	out.Close(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.metrics, "flunq_traces_dropped_total") {
		t.Errorf("the collector has the metrics %v", c.metrics)
	}
}
