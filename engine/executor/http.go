package executor

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
)

// message is a request to be sent.
type message struct {
	method   string // as it is sent
	spelling string // as the document spells it
	uri      *url.URL
	header   http.Header
	body     []byte // nil for none
	redirect bool   // a 3xx status is no error
	limit    int64  // bytes of the answer's body
}

// http performs call: http.
func (r *run) http(ctx context.Context, call *dsl.HTTPCall) (any, error) {
	m, err := r.compose(call)
	if err != nil {
		return nil, err
	}
	a, err := r.exchange(ctx, m)
	if err != nil {
		return nil, err
	}
	return a.output(call.Output)
}

// compose builds the message that a document asks for.
func (r *run) compose(call *dsl.HTTPCall) (*message, error) {
	m := &message{header: http.Header{}, redirect: call.Redirect, limit: r.limits.Body}
	if err := r.setMethod(m, call.Method); err != nil {
		return nil, err
	}
	uri, err := r.target("endpoint", call.Endpoint)
	if err != nil {
		return nil, err
	}
	query, err := r.members("query", call.Query)
	if err != nil {
		return nil, err
	}
	if m.uri, err = withQuery(uri, query); err != nil {
		return nil, err
	}
	if err := r.setHeaders(m, call.Headers); err != nil {
		return nil, err
	}
	if err := r.setBody(m, call.Body); err != nil {
		return nil, err
	}
	authorization, err := r.authorization(call.Endpoint.Authentication)
	if err != nil {
		return nil, err
	}
	return m, r.finish(m, authorization)
}

// finish sets the headers that flunq adds itself.
func (r *run) finish(m *message, authorization string) error {
	if user := m.uri.User; user != nil {
		password, _ := user.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		r.redactCredentials("Basic", pair)
		m.header.Set("Authorization", "Basic "+pair)
		m.uri.User = nil
	}
	if authorization != "" {
		if err := setHeader(m.header, "Authorization", authorization); err != nil {
			return err
		}
	}
	if m.header.Get("User-Agent") == "" {
		m.header.Set("User-Agent", strings.TrimSuffix("flunq/"+r.Version, "/"))
	}
	if r.origin.Execution != "" && !safe(m.method) && m.header.Get("Idempotency-Key") == "" {
		// Task names may hold any character, headers may not.
		m.header.Set("Idempotency-Key", escape(r.origin.Run.IdempotencyKey(r.origin.Tenant, r.origin.Execution, r.origin.Nonce), "!#$&'()*+,/:;=?@[]"))
	}
	return nil
}

// safe reports whether repeating a request of this method changes nothing.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (r *run) setMethod(m *message, v *expr.Value) error {
	data, err := r.eval("method", v)
	if err != nil {
		return err
	}
	name, ok := data.(string)
	if !ok {
		return expression("method is %s, want a string", expr.Kind(data))
	}
	if !isToken(name) {
		return expression("method %q is not an HTTP method", name)
	}
	m.spelling = name
	m.method = knownMethod(name)
	return nil
}

// knownMethod returns a standard method in upper case and any other name unchanged.
func knownMethod(name string) string {
	switch upper := strings.ToUpper(name); upper {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return upper
	}
	return name
}

// members evaluates a value that must be an object, or null for an empty one.
func (r *run) members(where string, v *expr.Value) (map[string]any, error) {
	data, err := r.eval(where, v)
	if err != nil || data == nil {
		return nil, err
	}
	members, ok := data.(map[string]any)
	if !ok {
		return nil, expression("%s is %s, want an object", where, expr.Kind(data))
	}
	return members, nil
}

func (r *run) setHeaders(m *message, v *expr.Value) error {
	headers, err := r.members("headers", v)
	if err != nil {
		return err
	}
	for _, name := range sortedNames(headers) {
		value, ok := expr.Scalar(headers[name])
		switch {
		case headers[name] == nil:
			continue
		case !ok:
			return expression("headers: %s is %s, want a string, a number or a boolean", name, expr.Kind(headers[name]))
		}
		if err := setHeader(m.header, name, value); err != nil {
			return err
		}
	}
	return nil
}

// setHeader rejects names and values that would break the request.
func setHeader(h http.Header, name, value string) error {
	if !isToken(name) {
		return expression("headers: %q is not a header's name", name)
	}
	for _, b := range []byte(value) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return expression("headers: the value of %s contains a line break or another control character", name)
		}
	}
	h.Set(name, strings.Trim(value, " \t"))
	return nil
}

// isToken reports whether text is a token of RFC 9110.
func isToken(text string) bool {
	for _, b := range []byte(text) {
		if !isAlphanumeric(b) && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return text != ""
}

func (r *run) setBody(m *message, v *expr.Value) error {
	data, err := r.eval("body", v)
	if err != nil || data == nil {
		return err
	}
	body, contentType, err := encodeBody(data, m.header.Get("Content-Type"))
	if err != nil {
		return err
	}
	m.body = body
	m.header.Set("Content-Type", contentType)
	return nil
}
