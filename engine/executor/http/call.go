// Package http performs HTTP calls. It keeps a call within the limits on time, size and
// networks, and shows no secret.
package http

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/content"
	"flunq.io/flunq/engine/executor/endpoint"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Caller performs HTTP calls, and sends the requests of other kinds of calls that are built on
// HTTP.
type Caller struct {
	Transport http.RoundTripper // how requests go out; never nil
	Version   string            // of flunq, for the User-Agent
	Breakers  *breaker.Set      // nil: no request is refused

	// Trace, if set, returns the traceparent header of a request whose document sets none.
	Trace func(tenant, execution string, run event.Run) string
}

// Call performs call: http.
func (c *Caller) Call(ctx context.Context, task *dsl.CallTask, run *call.Run) (output any, made *event.Call, err error) {
	client := c.Client(run)
	output, err = client.call(ctx, task.HTTP)
	return output, client.Made(), err
}

func (c *Client) call(ctx context.Context, task *dsl.HTTPCall) (any, error) {
	r, err := c.compose(task)
	if err != nil {
		return nil, err
	}
	res, err := c.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	return res.Output(task.Output)
}

// compose builds the request that a document asks for.
func (c *Client) compose(task *dsl.HTTPCall) (*Request, error) {
	method, err := c.method(task.Method)
	if err != nil {
		return nil, err
	}
	r := NewRequest(method)
	r.Redirect = task.Redirect
	uri, err := endpoint.URI(c.run, "endpoint", task.Endpoint)
	if err != nil {
		return nil, err
	}
	query, err := c.run.Members("query", task.Query)
	if err != nil {
		return nil, err
	}
	if r.URI, err = endpoint.WithQuery(uri, query); err != nil {
		return nil, err
	}
	if err := c.setHeaders(r, task.Headers); err != nil {
		return nil, err
	}
	if err := c.setBody(r, task.Body); err != nil {
		return nil, err
	}
	r.Authorization, err = c.run.Authorization(task.Endpoint.Authentication)
	return r, err
}

func (c *Client) method(v *expr.Value) (string, error) {
	data, err := c.run.Eval("method", v)
	if err != nil {
		return "", err
	}
	name, ok := data.(string)
	if !ok {
		return "", call.Expression("method is %s, want a string", canonical.Kind(data))
	}
	if !isToken(name) {
		return "", call.Expression("method %q is not an HTTP method", name)
	}
	return name, nil
}

func (c *Client) setHeaders(r *Request, v *expr.Value) error {
	headers, err := c.run.Members("headers", v)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, ok := canonical.Scalar(headers[name])
		switch {
		case headers[name] == nil:
			continue
		case !ok:
			return call.Expression("headers: %s is %s, want a string, a number or a boolean", name, canonical.Kind(headers[name]))
		}
		if err := SetHeader(r.Header, name, value); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) setBody(r *Request, v *expr.Value) error {
	data, err := c.run.Eval("body", v)
	if err != nil || data == nil {
		return err
	}
	body, contentType, err := content.Encode(data, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	r.Body = body
	r.Header.Set("Content-Type", contentType)
	return nil
}

// Composed is a request that was not sent, with secrets redacted.
type Composed struct {
	Method  string            `json:"method"`
	URI     string            `json:"uri"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body,omitempty"`
}

// Compose returns the first request that a call would send, without sending it. A failure is an
// *event.Problem that shows no secret.
func (c *Caller) Compose(task *dsl.HTTPCall, run *call.Run) (*Composed, error) {
	client := c.Client(run)
	r, err := client.compose(task)
	if err == nil {
		err = client.finish(r)
	}
	if err != nil {
		return nil, run.RedactError(err)
	}
	out := &Composed{Method: r.Method, URI: client.shownURL(r.URI), Headers: make(map[string]string, len(r.Header)), Body: run.Redact(string(r.Body))}
	for name, values := range r.Header {
		out.Headers[name] = client.redactedHeader(name, values)
	}
	return out, nil
}
