// Package openapi makes HTTP calls of operations described by OpenAPI and Swagger documents.
package openapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/expr/canonical"
)

// Caller performs calls of operations described by OpenAPI and Swagger documents.
type Caller struct{ HTTP *httpcall.Caller }

// Call performs call: openapi.
func (c *Caller) Call(ctx context.Context, task *dsl.CallTask, run *call.Run) (output any, made *event.Call, err error) {
	s := &session{run: run, client: c.HTTP.Client(run)}
	output, err = s.call(ctx, task.OpenAPI)
	return output, s.client.Made(), err
}

// session is one run of a call task.
type session struct {
	run    *call.Run
	client *httpcall.Client
}

// call fetches the document for every call, so the outcome does not depend on the order of
// calls.
func (s *session) call(ctx context.Context, task *dsl.OpenAPICall) (any, error) {
	id, err := s.run.Eval("operationId", task.OperationID)
	if err != nil {
		return nil, err
	}
	name, ok := id.(string)
	if !ok {
		return nil, call.Expression("operationId is %s, want a string", canonical.Kind(id))
	}
	parameters, err := s.run.Members("parameters", task.Parameters)
	if err != nil {
		return nil, err
	}
	doc, err := s.fetch(ctx, task.Document)
	if err != nil {
		return nil, err
	}
	op, err := doc.operation(name)
	if err != nil {
		return nil, err
	}
	r, err := s.request(op, parameters)
	if err != nil {
		return nil, err
	}
	r.Redirect = task.Redirect
	if r.Authorization, err = s.run.Authorization(task.Authentication); err != nil {
		return nil, err
	}
	res, err := s.client.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	return res.Output(task.Output)
}

// fetch requests and parses the document.
func (s *session) fetch(ctx context.Context, from dsl.Endpoint) (*document, error) {
	uri, err := endpoint.URI(s.run, "document", from)
	if err != nil {
		return nil, err
	}
	r := httpcall.NewRequest(http.MethodGet)
	r.URI, r.Redirect = endpoint.AppendQuery(uri, ""), true
	r.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	if r.Authorization, err = s.run.Authorization(from.Authentication); err != nil {
		return nil, err
	}
	res, err := s.client.Send(ctx, r)
	if err != nil {
		if problem, ok := errors.AsType[*event.Problem](err); ok {
			// The detail of a refused request is the body of the response alone.
			if at := endpoint.Show(r.URI); !strings.Contains(problem.Detail, at) {
				problem.Detail = at + ": " + problem.Detail
			}
			problem.Detail = "OpenAPI document: " + problem.Detail
		}
		return nil, err
	}
	if res.Status >= http.StatusMultipleChoices {
		return nil, httpcall.StatusProblem(res.Status, "OpenAPI document: %s leads nowhere", res.Place)
	}
	return readDocument(res.Body, res.URI)
}

// request builds the request for an operation, with its parameters filled in.
func (s *session) request(op *operation, given map[string]any) (*httpcall.Request, error) {
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
	r := httpcall.NewRequest(op.method)
	r.URI, r.Header, r.Body = uri, b.header, b.body
	return r, nil
}
