package executor

import (
	"context"
	"errors"
	"net/http"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// openAPI performs call: openapi. It fetches the document for every call, so that a call
// does the same in whatever order calls come.
func (r *run) openAPI(ctx context.Context, call *dsl.OpenAPICall) (any, error) {
	id, err := r.eval("operationId", call.OperationID)
	if err != nil {
		return nil, err
	}
	name, ok := id.(string)
	if !ok {
		return nil, expression("operationId is %s, want a string", expr.Kind(id))
	}
	parameters, err := r.members("parameters", call.Parameters)
	if err != nil {
		return nil, err
	}
	doc, err := r.fetch(ctx, call.Document)
	if err != nil {
		return nil, err
	}
	op, err := doc.operation(name)
	if err != nil {
		return nil, err
	}
	m, err := r.address(op, parameters)
	if err != nil {
		return nil, err
	}
	m.redirect = call.Redirect
	authorization, err := r.authorization(call.Authentication)
	if err != nil {
		return nil, err
	}
	if err := r.finish(m, authorization); err != nil {
		return nil, err
	}
	a, err := r.exchange(ctx, m)
	if err != nil {
		return nil, err
	}
	return a.output(call.Output)
}

// fetch requests and parses the document.
func (r *run) fetch(ctx context.Context, from dsl.Endpoint) (*document, error) {
	uri, err := r.target("document", from)
	if err != nil {
		return nil, err
	}
	m := &message{
		method: http.MethodGet, uri: appendQuery(uri, ""), redirect: true, limit: r.limits.Document,
		header: http.Header{"Accept": {"application/json, application/yaml, */*;q=0.5"}},
	}
	authorization, err := r.authorization(from.Authentication)
	if err != nil {
		return nil, err
	}
	if err := r.finish(m, authorization); err != nil {
		return nil, err
	}
	a, err := r.exchange(ctx, m)
	if err != nil {
		if problem, ok := errors.AsType[*event.Problem](err); ok {
			problem.Detail = "OpenAPI document: " + problem.Detail
		}
		return nil, err
	}
	if a.status >= http.StatusMultipleChoices {
		return nil, refused(a.status, "OpenAPI document: %s leads nowhere", a.place)
	}
	return readDocument(a.body, a.final.uri)
}

// address builds the message of an operation with its parameters filled in.
func (r *run) address(op *operation, given map[string]any) (*message, error) {
	b := &binding{op: op, given: given, used: map[string]bool{}, header: http.Header{}}
	if err := b.bind(); err != nil {
		return nil, err
	}
	uri, err := b.uri()
	if err != nil {
		return nil, err
	}
	if op.accept != "" && b.header.Get("Accept") == "" {
		b.header.Set("Accept", op.accept)
	}
	return &message{
		method: knownMethod(op.method), spelling: op.method, uri: uri,
		header: b.header, body: b.body, limit: r.limits.Body,
	}, nil
}
