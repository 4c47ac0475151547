package otlp

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// maxQueued is the maximum number of executions waiting for their traces to be sent.
const maxQueued = 10_000

// execution names an execution.
type execution struct{ tenant, id string }

// The ids of traces and spans are derived from the names of the execution and of the task run so that
// a call can carry them although the spans are sent later, by another process.

func (x execution) trace() (id trace.TraceID) {
	sum := sha256.Sum256([]byte(x.tenant + "\x00" + x.id))
	copy(id[:], sum[:])
	return id
}

// span returns the id of the span of a task run, given in text form; "" stands for the execution
// itself.
func (x execution) span(run string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(x.tenant + "\x00" + x.id + "\x00" + run))
	copy(id[:], sum[:])
	return id
}

// ids generates the ids of the span that the context names.
type ids struct{}

// spanned is the context key of a spanName.
type spanned struct{}

type spanName struct {
	execution

	run string
}

// named returns a context whose next span gets the ids of a run.
func named(ctx context.Context, x execution, run string) context.Context {
	return context.WithValue(ctx, spanned{}, spanName{x, run})
}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	name, _ := ctx.Value(spanned{}).(spanName) // no other span is begun here
	return name.trace(), name.span(name.run)
}

// NewSpanID implements sdktrace.IDGenerator.
func (g ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := g.NewIDs(ctx)
	return id
}

// Traced reports whether traces are sent.
func (e *Exporter) Traced() bool { return e != nil && e.traces != nil }

// Parent returns the value of the traceparent header for a call by a task run; see
// https://www.w3.org/TR/trace-context/.
func (e *Exporter) Parent(tenant, id string, run event.Run) string {
	x := execution{tenant, id}
	// The span is not sent, since it never ends; starting it asks the sampler.
	ctx, _ := e.traces.Tracer(name).Start(named(context.Background(), x, run.String()), "") //nolint:forbidigo // it waits for nothing
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header["traceparent"]
}

// Observe receives the events that workers commit, and remembers the executions that have ended.
func (e *Exporter) Observe(_ int64, entries []event.Event) {
	for i := range entries {
		switch entries[i].Type { //nolint:exhaustive // only these end an execution
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			select {
			case e.ended <- execution{entries[i].Tenant, entries[i].Execution}:
			default:
				e.dropped.Inc()
			}
		}
	}
}

// Trace starts sending the traces of executions that end. It reads their histories.
func (e *Exporter) Trace(ctx context.Context, st *store.Store) {
	if !e.Traced() {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stopped := make(chan struct{}), make(chan struct{})
	e.stop = func() {
		defer cancel()
		close(stopping)
		patience, done := context.WithTimeout(ctx, grace)
		defer done()
		select {
		case <-stopped:
		case <-patience.Done():
		}
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case x := <-e.ended:
				e.sendOrDrop(ctx, st, x)
			case <-stopping:
				for len(e.ended) > 0 {
					e.sendOrDrop(ctx, st, <-e.ended)
				}
				return
			}
		}
	}()
}

func (e *Exporter) sendOrDrop(ctx context.Context, st *store.Store, x execution) {
	if err := e.send(ctx, st, x); err != nil {
		e.dropped.Inc()
		e.opts.Log.WarnContext(ctx, "trace not sent", "tenant_id", x.tenant, "execution_id", x.id, "err", err)
	}
}

// send sends the trace of an execution.
func (e *Exporter) send(ctx context.Context, st *store.Store, of execution) error {
	x, err := st.Execution(ctx, of.tenant, of.id)
	if err != nil {
		return err
	}
	t := tracing{of: of, runs: history.NewExecution(), calls: map[*history.TaskRun]*event.Call{}}
	if err := st.EachPage(ctx, x, 0, t.read); err != nil {
		return err
	}
	t.spans(ctx, e.traces.Tracer(name, trace.WithInstrumentationVersion(e.opts.Version)))
	return nil
}

// tracing turns a history into spans.
type tracing struct {
	of    execution
	began *history.Data // of the entry that began the execution
	runs  *history.Execution
	calls map[*history.TaskRun]*event.Call

	senders []trace.Link // to the spans that sent the start and the received events
}

func (t *tracing) read(events []event.Event) error {
	for _, e := range events {
		entry := history.Read(t.runs.Version+1, e)
		run, _ := t.runs.Add(entry)
		if link := senderOf(e); link.SpanContext.IsValid() {
			t.senders = append(t.senders, link)
		}
		if entry.Data == nil {
			continue
		}
		if e.Type == event.ExecutionStarted {
			t.began = entry.Data
		}
		if entry.Data.Call != nil {
			t.calls[run] = entry.Data.Call
		}
	}
	return nil
}

// spans starts and ends a span for each run. Parents come before the runs that they contain.
func (t *tracing) spans(ctx context.Context, tracer trace.Tracer) {
	contexts := make([]context.Context, len(t.runs.Runs))
	top := t.runs.Runs[0]
	for i, r := range t.runs.Runs {
		around := ctx
		if r.Parent != nil {
			around = contexts[r.Parent.Index]
		}
		id, kind := r.String(), trace.SpanKindInternal
		if r.Parent == nil {
			id = ""
		}
		if t.calls[r] != nil {
			kind = trace.SpanKindClient
		}
		var span trace.Span
		contexts[i], span = tracer.Start(named(around, t.of, id), t.title(r), trace.WithTimestamp(r.Began.At), //nolint:fatcontext // contexts are as deep as tasks
			trace.WithSpanKind(kind), trace.WithAttributes(t.attributes(r)...), trace.WithLinks(t.links(r)...))
		for _, w := range r.Waits {
			span.AddEvent(string(w.State), trace.WithTimestamp(w.From.At))
			if !w.To.IsZero() {
				span.AddEvent(string(w.State)+" ended", trace.WithTimestamp(w.To.At))
			}
		}
		switch r.State { //nolint:exhaustive // the others do not set a status
		case history.Faulted:
			span.SetStatus(codes.Error, r.Text)
		case history.Completed:
			span.SetStatus(codes.Ok, "")
		}
		ended := r.Ended
		if ended.IsZero() {
			ended = top.Ended
		}
		span.End(trace.WithTimestamp(ended.At))
	}
}

// title returns the name of a run's span.
func (t *tracing) title(r *history.TaskRun) string {
	switch {
	case r.Parent != nil && r.Name != "":
		return r.Name
	case r.Parent != nil:
		return r.Ref
	case t.began != nil:
		return t.began.Namespace + "." + t.began.Name
	default:
		return t.of.id
	}
}

func (t *tracing) attributes(r *history.TaskRun) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("flunq.state", string(r.State))}
	add := func(key, value string) {
		if value != "" {
			out = append(out, attribute.String(key, value))
		}
	}
	if r.Parent == nil {
		add("flunq.tenant.id", t.of.tenant)
		add("flunq.execution.id", t.of.id)
		if t.began != nil {
			add("flunq.workflow.namespace", t.began.Namespace)
			add("flunq.workflow.name", t.began.Name)
			add("flunq.workflow.version", t.began.Version)
		}
		return out
	}
	add("flunq.task.reference", r.Ref)
	add("flunq.task.type", r.Kind)
	add("flunq.task.iteration", r.Iteration)
	add("flunq.task.attempt", r.Attempt)
	if c := t.calls[r]; c != nil {
		add("http.request.method", c.Method)
		add("url.full", c.URL)
		if c.Status != 0 {
			out = append(out, attribute.Int("http.response.status_code", c.Status))
		}
	}
	return out
}

// senderOf returns the link to the span that sent an external event or started an execution; the zero
// link if the event names none.
func senderOf(e event.Event) trace.Link {
	attributes := e.Ext
	if e.Type == event.EventReceived { // whose data is the external event
		var data map[string]json.RawMessage
		_ = json.Unmarshal(e.Data, &data) // unreadable data names no span
		attributes = map[string]string{}
		for _, name := range event.TraceAttributes() {
			var value string
			_ = json.Unmarshal(data[name], &value) // likewise
			attributes[name] = value
		}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(attributes)) //nolint:forbidigo // it waits for nothing
	return trace.Link{SpanContext: trace.SpanContextFromContext(ctx), Attributes: []attribute.KeyValue{attribute.String("cloudevents.event_id", e.ID)}}
}

// links returns the links from an execution to the senders of events, and from a child to the task
// that started it.
func (t *tracing) links(r *history.TaskRun) []trace.Link {
	switch {
	case r.Parent != nil:
		return nil
	case t.began == nil || t.began.Parent == "":
		return t.senders
	}
	parent := execution{t.of.tenant, t.began.Parent}
	return append(t.senders, trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: parent.trace(), SpanID: parent.span(t.began.ParentTask), TraceFlags: trace.FlagsSampled, Remote: true,
		}),
		Attributes: []attribute.KeyValue{attribute.String("flunq.execution.id", t.began.Parent)},
	})
}
