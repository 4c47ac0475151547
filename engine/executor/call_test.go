package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// answers is a transport made of a function.
type answers func(req *http.Request) (*http.Response, error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

// respond returns a response.
func respond(status int, contentType, body string) *http.Response {
	res := &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
	}
	if contentType != "" {
		res.Header.Set("Content-Type", contentType)
	}
	return res
}

// sent is a request as the transport saw it.
type sent struct {
	Method, URL, Body string
	Header            http.Header
}

// recorder answers every request the same way and records them.
func recorder(status int, contentType, body string) (http.RoundTripper, *[]sent) {
	var got []sent
	return answers(func(req *http.Request) (*http.Response, error) {
		data := readAll(req)
		got = append(got, sent{req.Method, req.URL.String(), data, req.Header})
		return respond(status, contentType, body), nil
	}), &got
}

func readAll(req *http.Request) string {
	if req.Body == nil {
		return ""
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// val returns a Value as the parser would: "${ … }" is an expression.
func val(t *testing.T, v any) *expr.Value {
	t.Helper()
	switch v := v.(type) {
	case string:
		src, ok := strings.CutPrefix(v, "${")
		if !ok {
			return expr.Literal(v)
		}
		p, err := expr.Compile(strings.TrimSuffix(src, "}"), func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return expr.Computed(p)
	case map[string]any:
		var fields []expr.Field
		for k, member := range v {
			fields = append(fields, expr.Field{Key: k, Value: val(t, member)})
		}
		return expr.Object(fields)
	case []any:
		var items []*expr.Value
		for _, item := range v {
			items = append(items, val(t, item))
		}
		return expr.List(items)
	default:
		return expr.Literal(v)
	}
}

// scope returns a scope with an input and secrets of every shape.
func scope(input any) *expr.Scope {
	return &expr.Scope{Dot: input, Var: func(name string) (any, error) {
		switch name {
		case "input":
			return input, nil
		case "secrets":
			return map[string]any{
				"key":   "s3cr3t/value",
				"login": map[string]any{"username": "ada", "password": "lovelace"},
				"token": map[string]any{"token": "tok-123456"},
			}, nil
		}
		return nil, fmt.Errorf("no variable $%s", name)
	}}
}

// request is a call: http in short form.
type request struct {
	Method, Endpoint     string
	Headers, Query, Body any
	Auth                 *dsl.Authentication
	Output               string
	Redirect             bool
}

func (r request) task(t *testing.T) *dsl.Task {
	t.Helper()
	if r.Method == "" {
		r.Method = "get"
	}
	c := &dsl.HTTPCall{
		Method:   val(t, r.Method),
		Endpoint: dsl.Endpoint{URI: val(t, r.Endpoint), Authentication: r.Auth},
		Output:   r.Output, Redirect: r.Redirect,
	}
	if r.Headers != nil {
		c.Headers = val(t, r.Headers)
	}
	if r.Query != nil {
		c.Query = val(t, r.Query)
	}
	if r.Body != nil {
		c.Body = val(t, r.Body)
	}
	return &dsl.Task{Name: "call", Kind: dsl.Call, Ref: "/do/0/call", Call: &dsl.CallTask{Protocol: "http", HTTP: c}}
}

func perform(t *testing.T, environment http.RoundTripper, r request, input any) (any, error) {
	t.Helper()
	c := &executor.Caller{HTTP: &httpcall.Caller{Transport: environment, Version: "1.2.3"}}
	return output(t.Context(), c, r.task(t), scope(input), call.Origin{Execution: "exec-1", Run: event.Run{Ref: "/do/0/call"}})
}

// output performs a call and returns its output.
func output(ctx context.Context, c *executor.Caller, task *dsl.Task, scope *expr.Scope, from call.Origin) (any, error) {
	out, _, err := c.Call(ctx, task, scope, from, c.Memory.Reserve(from.Tenant))
	return out, err
}

// wantProblem checks an error's type, status and part of its detail.
func wantProblem(t *testing.T, err error, short string, status int, part string) {
	t.Helper()
	var p *event.Problem
	if !errors.As(err, &p) {
		t.Fatalf("error %v, want a problem", err)
	}
	if p.Type != short || p.Status != status || !strings.Contains(p.Detail, part) {
		t.Errorf("problem %s/%d %q, want %s/%d with %q", p.Type, p.Status, p.Detail, short, status, part)
	}
	if p.Instance != "" {
		t.Errorf("instance %q, want none", p.Instance)
	}
}

func TestCallThatCannotBePerformed(t *testing.T) {
	t.Parallel()
	c := &executor.Caller{}
	task := &dsl.Task{Call: &dsl.CallTask{Protocol: "grpc"}}
	_, err := output(t.Context(), c, task, scope(nil), call.Origin{})
	wantProblem(t, err, event.Configuration, 400, "call: grpc cannot be performed yet")
}

// Cancellation is the engine's error, a deadline the workflow's.
func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	environment := answers(func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() })
	c := &executor.Caller{HTTP: &httpcall.Caller{Transport: environment}}
	task := request{Endpoint: "http://a.test/"}.task(t)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := output(stopped, c, task, scope(nil), call.Origin{})
	if problem := (*event.Problem)(nil); errors.As(err, &problem) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled and no problem", err)
	}

	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	_, err = output(late, c, task, scope(nil), call.Origin{})
	wantProblem(t, err, event.Communication, 500, "timed out")
}

func TestCallShowsNoSecret(t *testing.T) {
	t.Parallel()
	echo := answers(func(req *http.Request) (*http.Response, error) {
		return respond(500, "text/plain", "you sent "+req.URL.String()+" "+req.Header.Get("X-Key")+" "+req.Header.Get("Authorization")), nil
	})
	r := request{
		Endpoint: "https://a.test/x",
		Query:    map[string]any{"k": "${ $secrets.key }"},
		Headers:  map[string]any{"X-Key": "${ $secrets.key | @base64 }"},
		Auth:     &dsl.Authentication{Scheme: "bearer", Secret: "token"},
	}
	_, err := perform(t, echo, r, nil)
	wantProblem(t, err, event.Communication, 500, "you sent https://a.test/x?k=*** *** Bearer ***")

	_, err = perform(t, echo, request{Endpoint: "https://a.test/", Body: "${ $secrets.key | tonumber }"}, nil)
	wantProblem(t, err, event.Expression, 400, "body: cannot evaluate the expression, which reads a secret")

	environment, got := recorder(200, "application/json", `{}`)
	r.Output = "response"
	out, err := perform(t, environment, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key := (*got)[0].URL; key != "https://a.test/x?k=s3cr3t%2Fvalue" {
		t.Errorf("requested %s", key)
	}
	shown := string(canonical.Encode(out))
	for _, secret := range []string{"s3cr3t", "tok-123456", "czNjcjN0"} {
		if strings.Contains(shown, secret) {
			t.Errorf("output shows %q: %s", secret, shown)
		}
	}
}
