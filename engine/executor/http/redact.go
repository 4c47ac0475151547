package http

import (
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/executor/call"
)

// shownURL returns a URL for display: without its user, with all secrets redacted, even
// those that arrived through data, and without the values of parameters named like
// credentials.
func (c *Client) shownURL(u *url.URL) string {
	c.run.RedactSecrets()
	shown := *u
	shown.User = nil
	if shown.RawQuery != "" {
		parameters := strings.Split(shown.RawQuery, "&")
		for i, parameter := range parameters {
			name, value, _ := strings.Cut(parameter, "=")
			if plain, err := url.QueryUnescape(name); err == nil && value != "" && credential(plain) {
				parameters[i] = name + "=***"
			}
		}
		shown.RawQuery = strings.Join(parameters, "&")
	}
	return excerpt.Of(call.Printable(c.run.Redact(shown.String())), longestURL)
}

// longestURL is the number of bytes of a URL that a history keeps; 1,000 with the … that follows.
const longestURL = 997

// shownRequest returns the request as data, with secrets redacted.
func (c *Client) shownRequest(r *Request) map[string]any {
	headers := make(map[string]any, len(r.Header))
	for name, values := range r.Header {
		headers[name] = c.redactedHeader(name, values)
	}
	method := r.Method
	if strings.EqualFold(r.spelling, method) {
		method = r.spelling
	}
	return map[string]any{"method": method, "uri": c.run.Redact(r.URI.String()), "headers": headers}
}

// redactedHeader returns a header's value for display.
func (c *Client) redactedHeader(name string, values []string) string {
	if credential(name) {
		return "***"
	}
	return c.run.Redact(strings.Join(values, ", "))
}

// dropPrivate keeps only headers that describe the request itself: any other may hold a credential
// for the first server.
func (c *Client) dropPrivate(h http.Header) {
	for name, values := range h {
		if !describing(name) || c.redactedHeader(name, values) != strings.Join(values, ", ") {
			h.Del(name)
		}
	}
}

// describing reports whether a header only describes a request's content and what it accepts.
func describing(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control",
		"Content-Encoding", "Content-Language", "Content-Type", "Traceparent", "Tracestate", "User-Agent":
		return true
	}
	return false
}

// credential reports whether a header or parameter with this name is likely to hold a credential.
func credential(name string) bool {
	lower := strings.ToLower(name)
	for _, mark := range []string{
		"authoriz", "authentic", "x-auth", "cookie", "api-key", "apikey", "access-key", "private-key", "token",
		"secret", "session", "credential", "password", "signature",
	} {
		if strings.Contains(lower, mark) {
			return true
		}
	}
	return false
}
