package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// A request and its response in a recording. A body that is not text is base64-encoded.
type (
	recordedRequest struct {
		Method string `json:"method"`
		URL    string `json:"url"`
		Body   string `json:"body,omitempty"`
		Base64 []byte `json:"base64,omitempty"`
	}
	recordedResponse struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers,omitempty"`
		Text    string            `json:"text,omitempty"`
		Base64  []byte            `json:"base64,omitempty"`
	}
)

// callRecorder records the calls that pass through a transport.
type callRecorder struct {
	next http.RoundTripper
	rec  *recording
	now  func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (c *callRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	from := httpcall.OriginOf(req)
	line := CallLine{
		Record: "http", At: c.now(), Execution: from.Execution,
		Task: from.Run.Ref, Iteration: from.Run.Iteration, Attempt: from.Run.Attempt,
		Request: recordedRequest{Method: req.Method, URL: req.URL.String()},
	}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, fmt.Errorf("read the body of %s %s: %w", req.Method, req.URL.Redacted(), err)
		}
		if utf8.Valid(body) {
			line.Request.Body = string(body)
		} else {
			line.Request.Base64 = body
		}
		req = req.Clone(req.Context())
		req.Body = mock.NewBody(body)
	}
	resp, err := c.next.RoundTrip(req)
	line.TookMS = float64(c.now().Sub(line.At)) / float64(time.Millisecond)
	if err == nil {
		line.Response, err = recordedOf(resp)
	}
	switch {
	case errors.Is(err, sim.ErrStopped):
		line.Open, line.TookMS = true, 0
	case err != nil:
		line.Error = c.rec.redactor.Redact(err.Error())
	}
	c.rec.line(line)
	if err != nil { // even if part of a response was read
		return nil, err
	}
	return resp, nil
}

// recordedOf reads a response and makes its body readable again.
func recordedOf(resp *http.Response) (*recordedResponse, error) {
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // the whole body was read, or its error says more
	resp.Body = io.NopCloser(bytes.NewReader(body))
	out := &recordedResponse{Status: resp.StatusCode, Headers: map[string]string{}}
	for name, values := range resp.Header {
		out.Headers[name] = strings.Join(values, ", ")
	}
	if utf8.Valid(body) {
		out.Text = string(body)
	} else {
		out.Base64 = body
	}
	return out, err
}
