package executor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// answer is a response that was read.
type answer struct {
	place   string         // where it came from, for messages
	final   *message       // the last request of a chain of redirects
	request map[string]any // that request, as output: response shows it
	status  int
	header  http.Header
	body    []byte
}

// Bytes of an error's body that are read, and shown after redaction.
const (
	excerptRead  = 4 << 10
	excerptShown = 512
)

// receive reads a final response.
func (r *run) receive(ctx context.Context, m *message, res *http.Response) (*answer, error) {
	defer discard(res)
	success := res.StatusCode >= 200 && res.StatusCode < 300 ||
		m.redirect && res.StatusCode >= 300 && res.StatusCode < 400
	if !success {
		return nil, r.unsuccessful(ctx, m, res)
	}
	body, err := r.read(ctx, res, m.limit)
	switch {
	case errors.Is(err, errMemory):
		return nil, communication("%s %s: %v", m.method, place(m.uri), errMemory)
	case errors.Is(err, errTooLarge):
		return nil, communication("%s %s: the response is larger than %s (limit: response body)",
			m.method, place(m.uri), bytesInWords(m.limit))
	case err != nil:
		return nil, broken(ctx, m, fmt.Errorf("reading the response: %w", err))
	}
	if err := r.reserved.decode(ctx, len(body)); err != nil {
		return nil, communication("%s %s: %v", m.method, place(m.uri), errMemory)
	}
	return &answer{
		place: m.method + " " + place(m.uri), final: m, request: r.shownRequest(m),
		status: res.StatusCode, header: res.Header, body: body,
	}, nil
}

// unsuccessful returns the problem for a status, with the beginning of the body or, if
// that is empty, the status line.
func (r *run) unsuccessful(ctx context.Context, m *message, res *http.Response) error {
	if location := res.Header.Get("Location"); redirects(res.StatusCode) && location != "" {
		to := "elsewhere"
		if uri, err := m.uri.Parse(location); err == nil {
			to = place(uri)
		}
		return refused(res.StatusCode, "%s redirects to %s, which needs redirect: true to be followed", place(m.uri), to)
	}
	start, _ := r.read(ctx, res, excerptRead) // an incomplete body is shown too
	text := shortened(printable(r.redactValue(strings.ToValidUTF8(string(start), ""))), excerptShown)
	if text == "" {
		text = fmt.Sprintf("%s %s answered %s", m.method, place(m.uri), statusLine(res.StatusCode))
	}
	return refused(res.StatusCode, "%s", text)
}

func statusLine(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

var errTooLarge = errors.New("too large")

// read reads at most limit bytes of a body, decompressed. With an error it also returns
// what it could read.
func (r *run) read(ctx context.Context, res *http.Response, limit int64) ([]byte, error) {
	var body io.Reader = res.Body
	size := res.ContentLength
	// The transport decompresses what it asked for itself; this is for documents that ask
	// for gzip.
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
	start, err := io.ReadAll(io.LimitReader(body, small))
	if err != nil || len(start) < small {
		return upTo(start, limit, err)
	}
	// Memory for a larger body is reserved at once: a reader that waits in the middle
	// would hold on to memory that others wait for.
	known := size >= 0 && size <= limit
	if !known {
		size = limit
	}
	if err := r.reserved.read(ctx, int(size)); err != nil {
		return start, err
	}
	data := bytes.NewBuffer(start)
	if known {
		data.Grow(int(size) + bytes.MinRead)
	}
	err = r.reserved.fill(data, body)
	return upTo(data.Bytes(), limit, err)
}

// upTo cuts data at a limit.
func upTo(data []byte, limit int64, err error) ([]byte, error) {
	if int64(len(data)) > limit {
		return data[:limit], errTooLarge
	}
	return data, err
}

// discard closes a response. It reads a short rest, so that the connection can be reused.
func discard(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
}

// output returns the answer in the form that the document asks for.
func (a *answer) output(form string) (any, error) {
	if form == "raw" {
		if len(a.body) == 0 {
			return nil, nil
		}
		return base64.StdEncoding.EncodeToString(a.body), nil
	}
	if coding := strings.ToLower(a.header.Get("Content-Encoding")); coding != "" && coding != "gzip" && coding != "identity" {
		return nil, communication("%s: the response is compressed with %q, which only output: raw can give", a.place, coding)
	}
	content, err := decodeBody(a.header.Get("Content-Type"), a.body)
	if err != nil {
		return nil, communication("%s: the response %s", a.place, shortened(err.Error(), excerptShown))
	}
	if form != "response" {
		return content, nil
	}
	return map[string]any{
		"request":    a.request,
		"statusCode": a.status,
		"headers":    joined(a.header),
		"content":    content,
	}, nil
}

// shownRequest returns the request as data, with secrets redacted.
func (r *run) shownRequest(m *message) map[string]any {
	headers := make(map[string]any, len(m.header))
	for name, values := range m.header {
		headers[name] = r.redactedHeader(name, values)
	}
	method := m.method
	if strings.EqualFold(m.spelling, method) {
		method = m.spelling
	}
	return map[string]any{"method": method, "uri": r.redactValue(m.uri.String()), "headers": headers}
}

// redactedHeader returns a header's value for display.
func (r *run) redactedHeader(name string, values []string) string {
	if credential(name) {
		return "***"
	}
	return r.redactValue(strings.Join(values, ", "))
}

// joined returns headers as data; several values of one name become one text.
func joined(h http.Header) map[string]any {
	out := make(map[string]any, len(h))
	for name, values := range h {
		out[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
	}
	return out
}

func bytesInWords(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
