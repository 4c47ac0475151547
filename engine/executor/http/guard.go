package http

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
)

// guarded sends a request if its host's breaker allows it.
func (c *Client) guarded(req *http.Request) (res *http.Response, err error) {
	host := hostOf(req.URL)
	attempt, err := c.caller.Breakers.Begin(breaker.Target{Tenant: c.run.Origin.Tenant, Host: host}, c.run.Origin.Now)
	switch {
	case err != nil:
		return nil, err
	case attempt == nil:
		return c.caller.Transport.RoundTrip(req)
	}
	defer func() {
		if res == nil { // after a panic, nothing else has reported an outcome
			attempt.Cancel()
		}
	}()
	v := &verdict{client: c, request: req, attempt: attempt, private: c.run.Redact(host) != host}
	if res, err = c.caller.Transport.RoundTrip(req); err != nil {
		v.broken(err)
		return nil, err
	}
	v.answered(res)
	return res, nil
}

// verdict determines the outcome of a call for its host.
type verdict struct {
	client  *Client
	request *http.Request
	attempt *breaker.Attempt
	private bool // the host's name contains a secret
}

// broken handles a missing or incomplete response. A request that was not sent, or was cancelled by
// its caller, says nothing about the host.
func (v *verdict) broken(err error) {
	if unsent(err) || errors.Is(v.request.Context().Err(), context.Canceled) {
		v.attempt.Cancel()
		return
	}
	v.fail(reason(err), 0)
}

func (v *verdict) fail(text string, after time.Duration) {
	const longest = 200
	v.attempt.Fail(breaker.Failure{
		Reason: excerpt.Of(call.Printable(v.client.run.Redact(text)), longest), RetryAfter: after, Private: v.private,
	})
}

// answered handles the start of a response: a status that reports an overload or a server
// error is a failure; any other is a success once the body is read.
func (v *verdict) answered(res *http.Response) {
	switch status := res.StatusCode; {
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		v.fail("answered "+statusLine(status), retryAfter(res, v.client.run.Origin.Now))
	case res.Body == nil:
		v.attempt.Succeed()
	default:
		broken := func(err error) error {
			v.broken(err)
			return err
		}
		res.Body = &observedBody{res.Body, broken, v.attempt.Succeed} // the caller read as much as it wanted
	}
}

// retryAfter returns how long a response asks callers to wait: a number of seconds, or a
// date relative to the response's own.
func retryAfter(res *http.Response, now time.Time) time.Duration {
	if res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	text := strings.TrimSpace(res.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0)
}
