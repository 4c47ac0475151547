package http

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
)

// Request is a request to be sent.
type Request struct {
	Method        string // as sent
	URI           *url.URL
	Header        http.Header
	Body          []byte // nil for none
	Authorization string // the value of the header; empty for none
	Redirect      bool   // redirects are followed, and a 3xx status is not an error

	spelling string // of the method in the document
}

// NewRequest returns a request without a URI.
func NewRequest(method string) *Request {
	return &Request{Method: knownMethod(method), Header: http.Header{}, spelling: method}
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

// SetHeader rejects names and values that would break the request.
func SetHeader(h http.Header, name, value string) error {
	if !isToken(name) {
		return call.Expression("headers: %q is not a header's name", name)
	}
	for _, b := range []byte(value) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return call.Expression("headers: the value of %s contains a line break or another control character", name)
		}
	}
	h.Set(name, strings.Trim(value, " \t"))
	return nil
}

// isToken reports whether text is a token of RFC 9110.
func isToken(text string) bool {
	for _, b := range []byte(text) {
		alphanumeric := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return text != ""
}

// finish sets the headers that flunq adds itself.
func (c *Client) finish(r *Request) error {
	if user := r.URI.User; user != nil {
		password, _ := user.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		c.run.RedactCredentials("Basic", pair)
		r.Header.Set("Authorization", "Basic "+pair)
		r.URI.User = nil
	}
	if r.Authorization != "" {
		if err := SetHeader(r.Header, "Authorization", r.Authorization); err != nil {
			return err
		}
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", strings.TrimSuffix("flunq/"+c.caller.Version, "/"))
	}
	if c.caller.Trace != nil && r.Header.Get("Traceparent") == "" {
		r.Header.Set("Traceparent", c.caller.Trace(c.run.Origin.Tenant, c.run.Origin.Execution, c.run.Origin.Run))
	}
	if c.run.Origin.Execution != "" && !safe(r.Method) && r.Header.Get("Idempotency-Key") == "" {
		// Task names may contain any character, headers may not.
		r.Header.Set("Idempotency-Key", endpoint.Escape(c.run.Origin.Run.IdempotencyKey(c.run.Origin.Tenant, c.run.Origin.Execution, c.run.Origin.Nonce), "!#$&'()*+,/:;=?@[]"))
	}
	return nil
}

// safe reports whether repeating a request with this method changes nothing.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
