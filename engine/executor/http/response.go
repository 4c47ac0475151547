package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/content"
	"flunq.io/flunq/engine/executor/endpoint"
)

// Response is a response that was read.
type Response struct {
	Place  string   // where it came from, for messages
	URI    *url.URL // of the last request of a chain of redirects
	Status int
	Header http.Header
	Body   []byte

	request map[string]any // the last request, as shown by output: response
}

// Number of bytes of an error's body to read, and to show after redaction.
const (
	excerptRead  = 4 << 10
	excerptShown = 509 // 512 with the … that follows
)

// receive reads a final response.
func (c *Client) receive(ctx context.Context, r *Request, res *http.Response) (*Response, error) {
	defer discard(res)
	success := res.StatusCode >= 200 && res.StatusCode < 300 ||
		r.Redirect && res.StatusCode >= 300 && res.StatusCode < 400
	if !success {
		return nil, c.unsuccessful(ctx, r, res)
	}
	body, err := c.read(ctx, res, maxBody)
	switch {
	case errors.Is(err, call.ErrMemory):
		return nil, call.Communication("%s %s: %v", r.Method, endpoint.Show(r.URI), call.ErrMemory)
	case errors.Is(err, errTooLarge):
		return nil, call.Communication("%s %s: the response is larger than %d MiB (limit response body)",
			r.Method, endpoint.Show(r.URI), maxBody>>20)
	case err != nil:
		return nil, broken(ctx, r, fmt.Errorf("reading the response: %w", err))
	}
	if err := c.run.Memory.Decode(ctx, len(body)); err != nil {
		return nil, call.Communication("%s %s: %v", r.Method, endpoint.Show(r.URI), call.ErrMemory)
	}
	return &Response{
		Place: r.Method + " " + endpoint.Show(r.URI), URI: r.URI, Status: res.StatusCode, Header: res.Header, Body: body,
		request: c.shownRequest(r),
	}, nil
}

// unsuccessful returns the problem for a status, with the beginning of the body or, if that is
// empty, the status line.
func (c *Client) unsuccessful(ctx context.Context, r *Request, res *http.Response) error {
	if location := res.Header.Get("Location"); redirects(res.StatusCode) && location != "" {
		to := "elsewhere"
		if uri, err := r.URI.Parse(location); err == nil {
			to = endpoint.Show(uri)
		}
		return StatusProblem(res.StatusCode, "%s redirects to %s, which needs redirect: true to be followed", endpoint.Show(r.URI), to)
	}
	start, _ := c.read(ctx, res, excerptRead) // an incomplete body is shown, too
	text := excerpt.Of(call.Printable(c.run.Redact(strings.ToValidUTF8(string(start), ""))), excerptShown)
	if text == "" {
		text = fmt.Sprintf("%s %s answered %s", r.Method, endpoint.Show(r.URI), statusLine(res.StatusCode))
	}
	return StatusProblem(res.StatusCode, "%s", text)
}

func statusLine(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

var errTooLarge = errors.New("too large")

// read reads at most limit bytes of a body, decompressed. Along with an error it returns what it
// could read.
func (c *Client) read(ctx context.Context, res *http.Response, limit int64) ([]byte, error) {
	var body io.Reader = res.Body
	size := res.ContentLength
	// The transport decompresses what it requested compressed; this is for documents that ask for
	// gzip themselves.
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") {
		unzipped, err := gzip.NewReader(body)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		body, size = unzipped, -1
	}
	body = io.LimitReader(body, limit+1)
	start, err := io.ReadAll(io.LimitReader(body, call.Uncounted))
	if err != nil || len(start) < call.Uncounted {
		return upTo(start, limit, err)
	}
	// Reserve memory for a larger body in one step: a reader that waits in the middle would hold on
	// to memory that others wait for.
	known := size >= 0 && size <= limit
	if !known {
		size = limit
	}
	if err := c.run.Memory.Read(ctx, int(size)); err != nil {
		return start, err
	}
	data := bytes.NewBuffer(start)
	if known {
		data.Grow(int(size) + bytes.MinRead)
	}
	err = c.run.Memory.Fill(data, body)
	return upTo(data.Bytes(), limit, err)
}

// upTo truncates data at a limit.
func upTo(data []byte, limit int64, err error) ([]byte, error) {
	if int64(len(data)) > limit {
		return data[:limit], errTooLarge
	}
	return data, err
}

// discard closes a response. It reads a short rest so that the connection can be reused.
func discard(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
}

// Output returns the body in the form that the document asks for.
func (r *Response) Output(form string) (any, error) {
	if form == "raw" {
		if len(r.Body) == 0 {
			return nil, nil
		}
		return base64.StdEncoding.EncodeToString(r.Body), nil
	}
	if coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding != "" && coding != "gzip" && coding != "identity" {
		return nil, call.Communication("%s: the response is compressed with %q, which only output: raw can give", r.Place, coding)
	}
	decoded, err := content.Decode(r.Header.Get("Content-Type"), r.Body)
	if err != nil {
		return nil, call.Communication("%s: the response %s", r.Place, excerpt.Of(err.Error(), excerptShown))
	}
	if form != "response" {
		return decoded, nil
	}
	return map[string]any{
		"request":    r.request,
		"statusCode": r.Status,
		"headers":    joined(r.Header),
		"content":    decoded,
	}, nil
}

// joined returns headers as data; several values of one name are joined to one string.
func joined(h http.Header) map[string]any {
	out := make(map[string]any, len(h))
	for name, values := range h {
		out[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
	}
	return out
}
