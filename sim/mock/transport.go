package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	httpcall "flunq.io/flunq/engine/executor/http"
)

// Transport answers the requests of one run of a workflow. It is safe for concurrent use.
type Transport struct {
	// Observe, if set before the first request, is called after every exchange.
	Observe func(Exchange)
	// Shared, if set before the first request, holds the values that several Transports
	// share.
	Shared *State
	// Idempotent, if set before the first request, makes a request that is sent again for the
	// same task run get the first response again and count once, as in a service that supports
	// idempotency keys.
	Idempotent bool

	mocks []HTTP
	sleep func(ctx context.Context, d time.Duration) error
	next  http.RoundTripper

	mu       sync.Mutex
	count    []int               // number of requests that each mock has answered
	turns    map[string]int      // the count at which each request was first answered, by identity
	repeated map[string]Response // the responses of mocks that keep values, by identity
	own      State
}

// Exchange is a request and its result.
type Exchange struct {
	Method, URL, Task string
	Status            int   // 0 if Err is set
	Mock              int   // index of the mock that answered, -1 for none
	Err               error // returned instead of a response

	sent *sent
}

// sent is a request with its body.
type sent struct {
	request *http.Request
	body    []byte
}

// Transport returns a Transport that answers each request with the first mock that
// matches it, after sleeping for its latency. Requests that no mock matches go to next;
// without next they fail with an error that says which mock is missing. Each Transport
// has its own counters.
func (s *Set) Transport(sleep func(ctx context.Context, d time.Duration) error, next http.RoundTripper) *Transport {
	return &Transport{mocks: s.HTTP, sleep: sleep, next: next, count: make([]int, len(s.HTTP))}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	exchange := Exchange{Method: req.Method, URL: req.URL.Redacted(), Task: httpcall.OriginOf(req).Run.Ref, Mock: -1}
	resp, err := t.answer(req, &exchange)
	if exchange.Err = err; err == nil {
		exchange.Status = resp.StatusCode
	}
	if t.Observe != nil {
		t.Observe(exchange)
	}
	return resp, err
}

func (t *Transport) answer(req *http.Request, exchange *Exchange) (*http.Response, error) {
	body, err := Body(req)
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", exchange.Method, exchange.URL, err)
	}
	exchange.sent = &sent{req, body}
	for i, mock := range t.mocks {
		if mock.Match.matches(req, body) {
			exchange.Mock = i
			r := mock.Respond[min(t.turn(i, req), len(mock.Respond)-1)]
			if r.Latency > 0 && t.sleep != nil {
				if err := t.sleep(req.Context(), r.Latency); err != nil {
					return nil, err
				}
			}
			if mock.Keeps && r.Error == "" && r.Status < http.StatusMultipleChoices {
				r = t.once(t.identity(i, req), func() Response { return t.keep(req, body, i, r) })
			}
			return r.response(req)
		}
	}
	if t.next == nil {
		return nil, t.missing(*exchange)
	}
	onward := req.Clone(req.Context())
	if req.Body != nil {
		onward.Body = NewBody(body)
	}
	return t.next.RoundTrip(onward)
}

// turn counts a request to a mock and returns the number of earlier ones.
func (t *Transport) turn(mock int, req *http.Request) int {
	id := t.identity(mock, req)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.turns[id]; ok && id != "" {
		return known
	}
	if t.turns == nil {
		t.turns = map[string]int{}
	}
	turn := t.count[mock]
	t.count[mock]++
	if id != "" {
		t.turns[id] = turn
	}
	return turn
}

// identity returns a string that is the same for all repetitions of a task run's request; "" if
// each request counts separately.
func (t *Transport) identity(mock int, req *http.Request) string {
	from := httpcall.OriginOf(req)
	if !t.Idempotent || from.Execution == "" {
		return ""
	}
	return fmt.Sprintf("%d %s %s %s %s %s", mock, from.Execution, from.Run, req.Method, req.URL, req.Header.Get("Idempotency-Key"))
}

// response returns the HTTP response, or the error to return instead.
func (r Response) response(req *http.Request) (*http.Response, error) {
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	content, kind := r.content()
	resp := NewResponse(req, r.Status, r.Headers, content)
	if _, given := resp.Header["Content-Type"]; kind != "" && !given {
		resp.Header.Set("Content-Type", kind)
	}
	return resp, nil
}

// NewResponse returns the response to a request.
func NewResponse(req *http.Request, status int, headers map[string]string, content []byte) *http.Response {
	resp := &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		Body:          io.NopCloser(bytes.NewReader(content)),
		ContentLength: int64(len(content)),
		Request:       req,
	}
	for name, value := range headers {
		resp.Header.Set(name, value)
	}
	return resp
}

// content returns the bytes of the body and their media type.
func (r Response) content() (content []byte, kind string) {
	if !r.HasBody {
		return nil, ""
	}
	if text, ok := r.Body.(string); ok {
		return []byte(text), "text/plain; charset=utf-8"
	}
	return []byte(jsonText(r.Body)), "application/json"
}

// maxListed is how many mocks a message lists.
const maxListed = 10

// missing returns an error that suggests a mock to add.
func (t *Transport) missing(e Exchange) error {
	var out strings.Builder
	fmt.Fprintf(&out, "no mock answers %s %s", e.Method, e.URL)
	if e.Task != "" {
		fmt.Fprintf(&out, " (task %s)", e.Task)
	}
	fmt.Fprintf(&out, "; add to http in the mocks file: {match: {method: %s, url: %q}, respond: {status: 200}}", e.Method, e.URL)
	for i, mock := range t.mocks {
		switch i {
		case maxListed:
			fmt.Fprintf(&out, ", and %d more", len(t.mocks)-maxListed)
			return errors.New(out.String())
		case 0:
			fmt.Fprintf(&out, "; the mocks match: %s", mock.Match)
		default:
			fmt.Fprintf(&out, ", %s", mock.Match)
		}
		if strings.Contains(mock.Match.URL, "*") && strings.ReplaceAll(mock.Match.URL, "*", "") == e.URL {
			out.WriteString(" (its * stands for at least one character)")
		}
	}
	if len(t.mocks) == 0 {
		out.WriteString("; there are no mocks yet")
	}
	return errors.New(out.String())
}

// NewBody returns a request body: http.NoBody if it is empty, since net/http would send any other
// empty reader chunked.
func NewBody(body []byte) io.ReadCloser {
	if len(body) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(body))
}

// Body reads and closes the body of a request; it returns nil if there is none.
func Body(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// Selects reports whether the match selects the request of an exchange.
func (m Match) Selects(x Exchange) bool {
	return x.sent != nil && m.matches(x.sent.request, x.sent.body)
}

func (m Match) matches(req *http.Request, body []byte) bool {
	return (m.Method == "" || m.Method == strings.ToUpper(req.Method)) &&
		(m.URL == "" || MatchURL(m.URL, req.URL)) &&
		(m.Task == "" || matchText(m.Task, httpcall.OriginOf(req).Run.Ref)) &&
		m.matchesQuery(req.URL.Query()) && m.matchesHeaders(req.Header) &&
		(!m.HasBody || matchBody(m.Body, body))
}

func (m Match) matchesQuery(query url.Values) bool {
	for name, want := range m.Query {
		if !slices.EqualFunc(want, query[name], matchText) {
			return false
		}
	}
	return true
}

func (m Match) matchesHeaders(header http.Header) bool {
	for name, want := range m.Headers {
		if values := header.Values(name); len(values) == 0 || !matchText(want, strings.Join(values, ", ")) {
			return false
		}
	}
	return true
}

// MatchURL reports whether a URL, with or without its query, matches a pattern in which "*"
// stands for one or more characters.
func MatchURL(want string, got *url.URL) bool {
	return matchText(want, got.String()) || matchText(want, withoutQuery(got))
}

// withoutQuery returns a URL without its query and fragment.
func withoutQuery(u *url.URL) string {
	bare := *u
	bare.RawQuery, bare.ForceQuery, bare.Fragment, bare.RawFragment = "", false, "", ""
	return bare.String()
}

// matchText compares text with a pattern in which "*" stands for one or more characters.
func matchText(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		// The first match leaves the most text for the other parts.
		at := -1
		if rest != "" {
			at = strings.Index(rest[1:], part)
		}
		if at < 0 {
			return false
		}
		rest = rest[1+at+len(part):]
	}
	return len(rest) > len(parts[last]) && strings.HasSuffix(rest, parts[last])
}

// matchBody reports whether want is a part of the JSON in body, or equals body as a string.
func matchBody(want any, body []byte) bool {
	if text, ok := want.(string); ok && text == string(body) {
		return true
	}
	got, err := jsonValue(body)
	if err != nil {
		return false
	}
	// Convert values from YAML to the types of decoded JSON.
	wanted, err := jsonValue([]byte(jsonText(want)))
	return err == nil && partOf(got, wanted)
}

func jsonValue(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// partOf reports whether want is a part of got: maps may have additional keys, lists must have
// the same length.
func partOf(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for key, part := range want {
			value, has := object[key]
			if !has || !partOf(value, part) {
				return false
			}
		}
		return ok
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(list, want, partOf)
	case json.Number:
		number, ok := got.(json.Number)
		return ok && sameNumber(number.String(), want.String())
	default:
		return got == want
	}
}

// sameNumber compares numbers by value: 1, 1.0 and 1e0 are equal.
func sameNumber(a, b string) bool {
	const precision = 256
	x, _, errX := big.ParseFloat(a, 10, precision, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, precision, big.ToNearestEven)
	return a == b || errX == nil && errY == nil && x.Cmp(y) == 0
}
