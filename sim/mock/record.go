package mock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// Recorder is a transport that records the calls that go through it and turns them into mocks.
// It is safe for concurrent use.
type Recorder struct {
	next   http.RoundTripper
	now    func() time.Time
	redact func(string) string

	mu    sync.Mutex
	calls []*recorded // in the order in which they began
}

// redacted replaces a secret.
const redacted = "***"

// NewRecorder returns a Recorder that forwards to next. redact replaces the secrets in a string
// with ***.
func NewRecorder(next http.RoundTripper, now func() time.Time, redact func(string) string) *Recorder {
	return &Recorder{next: next, now: now, redact: redact}
}

// recorded is a call without its secrets.
type recorded struct {
	method, url string
	sent        any  // the parts of the request's body that mocks can match
	matchable   bool // there are any
	began       time.Time
	ended       bool
	response    recordedResponse
	binary      bool // the response's body cannot be written into a mocks file
}

// recordedResponse is a response in the form of a mocks file.
type recordedResponse struct {
	Status  int               `yaml:"status,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	Body    *yaml3.Node       `yaml:"body,omitempty"`
	Latency string            `yaml:"latency,omitempty"`
	Error   string            `yaml:"error,omitempty"`
}

// maxRecorded is the largest response that is read, in bytes. Callers accept less.
const maxRecorded = 64 << 20

// RoundTrip implements http.RoundTripper. It returns when the whole response has been read.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sent, err := Body(req)
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", req.Method, req.URL.Redacted(), err)
	}
	onward := req.Clone(req.Context())
	if req.Body != nil {
		onward.Body = NewBody(sent)
	}
	call := &recorded{method: req.Method, url: r.pattern(req), began: r.now()}
	call.sent, call.matchable = r.withoutSecrets(sent)
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	resp, err := r.next.RoundTrip(onward)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxRecorded))
		err = errors.Join(err, resp.Body.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.now().Sub(call.began)
	if req.Context().Err() != nil {
		took = unanswered
	}
	r.end(call, took, err)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	r.read(call, resp, body)
	return resp, nil
}

// unanswered is the latency of a call whose caller gave up: longer than the timeout that
// ended it.
const unanswered = time.Hour

// end records the latency of a call in milliseconds, and its error if there was no response.
func (r *Recorder) end(call *recorded, took time.Duration, err error) {
	call.ended = true
	if took = took.Round(time.Millisecond); took > 0 {
		call.response.Latency = dsl.Duration{Clock: took}.String()
	}
	if err != nil {
		call.response.Error = cmp.Or(r.redact(err.Error()), "no response")
	}
}

// pattern returns the URL of a request with a * for each secret in it, and for the values of
// parameters that are likely to be credentials.
func (r *Recorder) pattern(req *http.Request) string {
	url := *req.URL
	url.User, url.Fragment, url.RawFragment = nil, "", ""
	parameters := strings.Split(url.RawQuery, "&")
	for i, p := range parameters {
		if name, value, _ := strings.Cut(p, "="); value != "" && credential(name) {
			parameters[i] = name + "=*"
		}
	}
	url.RawQuery = strings.Join(parameters, "&")
	text := strings.ReplaceAll(r.redact(url.String()), redacted, "*")
	if req.URL.User != nil {
		text = strings.Replace(text, "://", "://*@", 1)
	}
	return text
}

// withoutSecrets returns the body of a request for a match: without the members that
// contain secrets.
func (r *Recorder) withoutSecrets(body []byte) (any, bool) {
	if len(body) == 0 {
		return nil, false
	}
	if v, err := jsonValue(body); err == nil {
		kept, ok := r.pruned(v)
		_, isText := kept.(string)
		return kept, ok && (isText || dataNode(jsonText(kept)) != nil)
	}
	text := string(body)
	return text, utf8.ValidString(text) && r.redact(text) == text
}

// pruned removes the members of objects that contain secrets. A list with a secret goes as a
// whole, since a match compares all items of a list.
func (r *Recorder) pruned(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if kept, ok := r.pruned(member); ok {
				out[name] = kept
			}
		}
		return out, len(out) > 0 || len(v) == 0
	default:
		text := jsonText(v)
		return v, r.redact(text) == text
	}
}

// read records a response.
func (r *Recorder) read(call *recorded, resp *http.Response, body []byte) {
	call.response.Status = resp.StatusCode
	media := resp.Header.Get("Content-Type")
	kind := media
	if len(body) > 0 {
		call.response.Body, kind = bodyNode(r.redact(string(body)), media)
		call.binary = call.response.Body == nil
	}
	headers := map[string]string{}
	for name, values := range resp.Header {
		value := strings.Join(values, ", ")
		if keptHeader(name) && r.redact(value) == value {
			headers[strings.ToLower(name)] = value
		}
	}
	if kind != media {
		headers["content-type"] = media
	}
	call.response.Headers = headers
}

// keptHeader reports whether a mock should repeat a header of a response. Some headers are valid
// only for one connection or one moment, and some may contain credentials.
func keptHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "content-type", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer", "upgrade",
		"date", "age", "expires", "server", "via", "alt-svc", "strict-transport-security":
		return false
	}
	return !credential(name)
}

// credential reports whether a header or parameter with this name is likely to hold a credential.
func credential(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return slices.ContainsFunc([]string{"cookie", "auth", "token", "secret", "session", "signature", "password", "api-key", "apikey"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// bodyNode returns a response's body as a node of a mocks file, and the content type that a mock
// gives it. The node is data if that sends an equivalent body, else a string; nil for binary.
func bodyNode(body, media string) (node *yaml3.Node, kind string) {
	if strings.Contains(media, "json") {
		if node = dataNode(body); node != nil {
			return node, "application/json"
		}
	}
	if !utf8.ValidString(body) {
		return nil, media
	}
	return &yaml3.Node{Kind: yaml3.ScalarNode, Tag: "!!str", Value: body, Style: yaml3.DoubleQuotedStyle}, "text/plain; charset=utf-8"
}

// dataNode returns JSON as a node, or nil if a mock with this node would send something else.
func dataNode(text string) *yaml3.Node {
	v, err := jsonValue([]byte(text))
	if _, isText := v.(string); isText || err != nil {
		return nil
	}
	reader := yaml.NewReader("body", []byte(jsonText(v)))
	node := reader.Root()
	again, err := jsonValue([]byte(jsonText(reader.Data(node))))
	if errors.Join(reader.Err(), err) != nil || !partOf(again, v) || !partOf(v, again) {
		return nil
	}
	plain(node)
	return node
}

// plain removes the quotes that a node does not need.
func plain(n *yaml3.Node) {
	if n.Kind == yaml3.ScalarNode {
		n.Style = 0
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// Len returns the number of calls.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// File returns a mocks file that answers as the calls were answered. It begins with the
// mocks in begin. left names the calls whose body could not be written.
func (r *Recorder) File(begin []byte) (text []byte, left []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		if !call.ended {
			r.end(call, unanswered, errors.New("no response"))
		}
	}
	var doc yaml3.Node
	if err := yaml3.Unmarshal(begin, &doc); err != nil {
		return nil, nil, fmt.Errorf("read the mocks: %w", err)
	}
	if doc.Kind == 0 || doc.Content[0].Kind != yaml3.MappingNode {
		doc = yaml3.Node{Kind: yaml3.DocumentNode, Content: []*yaml3.Node{{Kind: yaml3.MappingNode}}}
	}
	list := httpList(doc.Content[0])
	for _, one := range r.mocks() {
		item, err := one.node()
		if err != nil {
			return nil, nil, err
		}
		list.Content = append(list.Content, item)
	}
	for _, call := range r.calls {
		if call.binary {
			left = append(left, call.method+" "+call.url)
		}
	}
	var out bytes.Buffer
	enc := yaml3.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, nil, fmt.Errorf("write the mocks: %w", err)
	}
	return out.Bytes(), left, nil
}

// httpList returns the list http of a mocks file; it is added if it is missing.
func httpList(top *yaml3.Node) *yaml3.Node {
	top.Style = 0
	for i := 0; i+1 < len(top.Content); i += 2 {
		if list := top.Content[i+1]; top.Content[i].Value == "http" && list.Kind == yaml3.SequenceNode {
			list.Style = 0
			return list
		}
	}
	list := &yaml3.Node{Kind: yaml3.SequenceNode}
	top.Content = append([]*yaml3.Node{{Kind: yaml3.ScalarNode, Value: "http"}, list}, top.Content...)
	return list
}

// recordedMock is a mock that answers the calls of one method, URL and perhaps body.
type recordedMock struct {
	method, url string
	body        any
	matchBody   bool
	responses   []recordedResponse
}

// mocks groups the calls by method and URL, and by body if bodies differ. In such a group
// bodies with more members come first, because a match on a part of a body would select them,
// too; the last mock of the group matches any body.
func (r *Recorder) mocks() []*recordedMock {
	var order []string
	groups := map[string][]*recordedMock{}
	for _, call := range r.calls {
		key := call.method + " " + call.url
		if groups[key] == nil {
			order = append(order, key)
		}
		at := slices.IndexFunc(groups[key], func(m *recordedMock) bool {
			return m.matchBody == call.matchable && jsonText(m.body) == jsonText(call.sent)
		})
		if at < 0 {
			at = len(groups[key])
			groups[key] = append(groups[key], &recordedMock{method: call.method, url: call.url, body: call.sent, matchBody: call.matchable})
		}
		groups[key][at].responses = append(groups[key][at].responses, call.response)
	}
	var out []*recordedMock
	for _, key := range order {
		group := groups[key]
		slices.SortStableFunc(group, func(a, b *recordedMock) int {
			switch {
			case a.matchBody == b.matchBody:
				return cmp.Compare(len(jsonText(b.body)), len(jsonText(a.body)))
			case a.matchBody:
				return -1
			default:
				return 1
			}
		})
		group[len(group)-1].matchBody = false
		out = append(out, group...)
	}
	return out
}

// node returns the mock as a node of a mocks file.
func (m *recordedMock) node() (*yaml3.Node, error) {
	match := struct {
		Method string      `yaml:"method"`
		URL    string      `yaml:"url"`
		Body   *yaml3.Node `yaml:"body,omitempty"`
	}{Method: m.method, URL: m.url}
	if m.matchBody {
		match.Body = dataNode(jsonText(m.body))
		if text, ok := m.body.(string); ok {
			match.Body = &yaml3.Node{Kind: yaml3.ScalarNode, Tag: "!!str", Value: text, Style: yaml3.DoubleQuotedStyle}
		}
	}
	item := struct {
		Match   any                `yaml:"match"`
		Respond []recordedResponse `yaml:"respond"`
	}{match, m.responses}
	var n yaml3.Node
	if err := n.Encode(item); err != nil {
		return nil, fmt.Errorf("write a mock: %w", err)
	}
	flow(&n)
	return &n, nil
}

// flowWidth is the maximum length of a part of a mock that is written on one line.
const flowWidth = 100

// flow writes each short part on one line.
func flow(n *yaml3.Node) {
	for i := 1; i < len(n.Content); i += 2 { // match and respond
		n.Content[i].Style = 0
		parts := []*yaml3.Node{n.Content[i]}
		if n.Content[i].Kind == yaml3.SequenceNode {
			parts = n.Content[i].Content
		}
		for _, part := range parts {
			if long(part) {
				block(part)
			} else {
				part.Style = yaml3.FlowStyle
			}
		}
	}
}

func long(n *yaml3.Node) bool {
	text, err := yaml3.Marshal(n)
	return err != nil || len(text) > flowWidth
}

// block writes a node on several lines, and each short part of it on one line.
func block(n *yaml3.Node) {
	if n.Kind == yaml3.ScalarNode {
		return
	}
	n.Style = 0
	for _, child := range n.Content {
		if long(child) {
			block(child)
		} else if child.Kind != yaml3.ScalarNode {
			child.Style = yaml3.FlowStyle
		}
	}
}
