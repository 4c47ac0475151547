package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/event"
)

// exchange sends the message, follows redirects if allowed, and reads the answer. An
// unsuccessful status is a communication problem.
func (r *run) exchange(ctx context.Context, m *message) (*answer, error) {
	r.first = m.uri
	for hop := 0; ; hop++ {
		res, err := r.roundTrip(ctx, m)
		if err != nil {
			return nil, err
		}
		next, err := r.redirected(m, res)
		switch {
		case err != nil:
			discard(res)
			return nil, err
		case next == nil:
			return r.receive(ctx, m, res)
		case hop == r.limits.Redirects:
			discard(res)
			return nil, refused(res.StatusCode, "%s: more than %d redirects (limit: redirects)", place(m.uri), r.limits.Redirects)
		}
		discard(res)
		m = next
	}
}

func (r *run) roundTrip(ctx context.Context, m *message) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if m.body != nil {
		body = bytes.NewReader(m.body)
	}
	req, err := http.NewRequestWithContext(ctx, m.method, m.uri.String(), body)
	if err != nil {
		return nil, configuration("endpoint is not a URI that can be requested: %s", place(m.uri))
	}
	req.Header = m.header.Clone()
	r.origin.set(req)
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	res, err := r.guarded(req)
	if err != nil {
		if wentOut(err) {
			r.sent, r.sentStatus = m, 0
		}
		return nil, broken(ctx, m, err)
	}
	r.sent, r.sentStatus = m, res.StatusCode
	if res.Body == nil { // as http.Client does for foreign transports
		res.Body = http.NoBody
	}
	return res, nil
}

// wentOut reports whether a request without an answer may have been sent.
func wentOut(err error) bool {
	_, open := errors.AsType[*OpenError](err)
	_, closed := errors.AsType[*closedNetworkError](err)
	return !open && !closed
}

// broken returns the problem of a request without an answer. If the caller was cancelled,
// that is not the workflow's problem.
func broken(ctx context.Context, m *message, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s %s: %w", m.method, place(m.uri), context.Cause(ctx))
	}
	if closed, ok := errors.AsType[*closedNetworkError](err); ok {
		return configuration("%s %s: %v", m.method, place(m.uri), closed)
	}
	if open, ok := errors.AsType[*OpenError](err); ok {
		return refused(http.StatusServiceUnavailable, "%s %s: %v", m.method, place(m.uri), open)
	}
	return communication("%s %s: %s", m.method, place(m.uri), reason(err))
}

// reason describes a transport error.
func reason(err error) string {
	if inner, ok := errors.AsType[*url.Error](err); ok { // its text contains the whole URI
		err = inner.Err
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("timed out: %v", err)
	}
	return err.Error()
}

// redirected returns the message to send next, or nil if the answer is final.
func (r *run) redirected(m *message, res *http.Response) (*message, error) {
	location := res.Header.Get("Location")
	if !m.redirect || location == "" || !redirects(res.StatusCode) {
		return nil, nil
	}
	uri, err := m.uri.Parse(location)
	if err == nil {
		uri, err = checkTarget("redirect", uri)
	}
	if err != nil {
		return nil, refused(res.StatusCode, "%s redirects to what is not an http or https URI", place(m.uri))
	}
	uri.User = nil
	next := *m
	next.uri, next.header = uri, m.header.Clone()
	if becomesGet(m.method, res.StatusCode) {
		next.method, next.body = http.MethodGet, nil
		for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Idempotency-Key"} {
			next.header.Del(name)
		}
	}
	if !sameOrigin(m.uri, uri) {
		r.dropPrivate(next.header)
	}
	return &next, nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func becomesGet(method string, status int) bool {
	switch status {
	case http.StatusSeeOther:
		return method != http.MethodGet && method != http.MethodHead
	case http.StatusMovedPermanently, http.StatusFound:
		return method == http.MethodPost
	}
	return false
}

// sameOrigin reports whether credentials for one URI may be sent to the other: it is the
// same server, or the same host with https instead of http.
func sameOrigin(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return port(from) == port(to)
	}
	return to.Scheme == "https" && port(from) == "80" && port(to) == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// dropPrivate keeps only the headers that describe the request itself: any other may hold
// a credential for the first server.
func (r *run) dropPrivate(h http.Header) {
	for name, values := range h {
		if !describing(name) || r.redactedHeader(name, values) != strings.Join(values, ", ") {
			h.Del(name)
		}
	}
}

// describing reports whether a header only describes a request's content and what it
// accepts.
func describing(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control",
		"Content-Encoding", "Content-Language", "Content-Type", "Traceparent", "Tracestate", "User-Agent":
		return true
	}
	return false
}

// credential reports whether a header or parameter of that name is likely to hold a
// credential.
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

// refused returns the problem of an answer with an unsuccessful status.
func refused(status int, format string, args ...any) *event.Problem {
	problem := communication(format, args...)
	problem.Status = status
	problem.Title = http.StatusText(status)
	if problem.Title == "" {
		problem.Title = fmt.Sprintf("HTTP status %d", status)
	}
	return problem
}
