package http

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
)

// Client sends the requests of one call task, and remembers the last one.
type Client struct {
	caller *Caller
	run    *call.Run
	sent   *Request // the last request that was sent; nil for none
	first  *url.URL // the URL requested before any redirect
	status int      // status of the response, 0 for none
}

// Client returns the client of one call task.
func (c *Caller) Client(run *call.Run) *Client {
	return &Client{caller: c, run: run}
}

// Made describes the last request that was sent, with secrets redacted; nil if none was sent.
func (c *Client) Made() *event.Call {
	if c.sent == nil {
		return nil
	}
	made := &event.Call{Method: c.sent.Method, URL: c.shownURL(c.sent.URI), Status: c.status}
	if c.first != c.sent.URI {
		made.First = c.shownURL(c.first)
	}
	return made
}

// Send sends a request, follows redirects if allowed, and reads the response. An
// unsuccessful status is a communication problem.
func (c *Client) Send(ctx context.Context, r *Request) (*Response, error) {
	if err := c.finish(r); err != nil {
		return nil, err
	}
	c.first = r.URI
	for hop := 0; ; hop++ {
		res, err := c.roundTrip(ctx, r)
		if err != nil {
			return nil, err
		}
		next, err := c.redirected(r, res)
		switch {
		case err != nil:
			discard(res)
			return nil, err
		case next == nil:
			return c.receive(ctx, r, res)
		case hop == maxRedirects:
			discard(res)
			return nil, StatusProblem(res.StatusCode, "%s: more than %d redirects (limit redirects)", endpoint.Show(r.URI), maxRedirects)
		}
		discard(res)
		r = next
	}
}

func (c *Client) roundTrip(ctx context.Context, r *Request) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URI.String(), body)
	if err != nil {
		return nil, call.Configuration("endpoint is not a URI that can be requested: %s", endpoint.Show(r.URI))
	}
	req.Header = r.Header.Clone()
	req.Header.Set(originHeader, c.run.Origin.Execution+" "+c.run.Origin.Run.String())
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	res, err := c.guarded(req)
	if err != nil {
		if !unsent(err) {
			c.sent, c.status = r, 0
		}
		return nil, broken(ctx, r, err)
	}
	c.sent, c.status = r, res.StatusCode
	if res.Body == nil { // a transport may omit it; http.Client allows that, too
		res.Body = http.NoBody
	}
	return res, nil
}

// unsent reports whether a request was certainly not sent. After other errors, that is unknown.
func unsent(err error) bool {
	_, open := errors.AsType[*breaker.OpenError](err)
	_, forbidden := errors.AsType[*closedNetworkError](err)
	return open || forbidden || errors.Is(err, errNoSlot)
}

// broken returns the problem of a request without a response, or another error if the call was
// cancelled, since that is not the workflow's problem.
func broken(ctx context.Context, r *Request, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s %s: %w", r.Method, endpoint.Show(r.URI), context.Cause(ctx))
	}
	if closed, ok := errors.AsType[*closedNetworkError](err); ok {
		return call.Configuration("%s %s: %v", r.Method, endpoint.Show(r.URI), closed)
	}
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		return StatusProblem(http.StatusServiceUnavailable, "%s %s: %v", r.Method, endpoint.Show(r.URI), open)
	}
	return call.Communication("%s %s: %s", r.Method, endpoint.Show(r.URI), reason(err))
}

// reason describes a transport error.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("timed out: %v", err)
	case errors.Is(err, io.EOF):
		return "the server closed the connection without a response"
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "response header list larger"): // of HTTP/1 and HTTP/2
		return "the headers of the response are too large (limit headers)"
	default:
		return err.Error()
	}
}

// redirected returns the request to send next, or nil if the response is final.
func (c *Client) redirected(r *Request, res *http.Response) (*Request, error) {
	location := res.Header.Get("Location")
	if !r.Redirect || location == "" || !redirects(res.StatusCode) {
		return nil, nil
	}
	uri, err := r.URI.Parse(location)
	if err == nil {
		uri, err = endpoint.Check("redirect", uri)
	}
	if err != nil {
		return nil, StatusProblem(res.StatusCode, "%s redirects to something that is not an http or https URI", endpoint.Show(r.URI))
	}
	uri.User = nil
	next := *r
	next.URI, next.Header = uri, r.Header.Clone()
	if becomesGet(r.Method, res.StatusCode) {
		next.Method, next.Body = http.MethodGet, nil
		for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Idempotency-Key"} {
			next.Header.Del(name)
		}
	}
	if !sameOrigin(r.URI, uri) {
		c.dropPrivate(next.Header)
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

// sameOrigin reports whether credentials for one URI may be sent to the other: to the same server,
// or to the same host with https instead of http.
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

// StatusProblem returns the problem of a response with an unsuccessful status.
func StatusProblem(status int, format string, args ...any) *event.Problem {
	problem := call.Communication(format, args...)
	problem.Status = status
	problem.Title = cmp.Or(http.StatusText(status), fmt.Sprintf("HTTP status %d", status))
	return problem
}
