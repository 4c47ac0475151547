// Package mock replaces the services that workflows call and the sources of their events. A
// mocks file defines what they do; their latencies pass on the clock of the run.
package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// Set replaces the services that a workflow calls, and sends events to the workflow. It never
// changes once it is parsed, so any number of runs can share it.
type Set struct {
	HTTP   []HTTP
	Events []Event
}

// HTTP answers the requests that match it.
type HTTP struct {
	Match   Match
	Respond []Response // one for each request, the last one repeats; never empty
	Keep    any        // the initial value, if the mock keeps values
	Keeps   bool
	Shared  bool // all executions of a run share the kept values
}

// Match selects requests; an empty field matches all. In a string, "*" matches one or more
// characters.
type Match struct {
	Method  string // in upper case
	URL     string // of the request, with or without its query
	Task    string // reference of the calling task
	Query   map[string][]string
	Headers map[string]string
	Body    any // a part of the request's JSON
	HasBody bool
}

// Response is the response to a request, or an error instead of one.
type Response struct {
	Status  int
	Headers map[string]string
	Body    any // a string is sent unchanged, any other value as JSON
	HasBody bool
	Latency time.Duration
	Error   string
}

// Stateful reports whether responses depend on earlier requests.
func (s *Set) Stateful() bool {
	return s != nil && slices.ContainsFunc(s.HTTP, func(h HTTP) bool { return h.Keeps || len(h.Respond) > 1 })
}

// Keeps reports whether a mock keeps values.
func (s *Set) Keeps() bool {
	return s != nil && slices.ContainsFunc(s.HTTP, func(h HTTP) bool { return h.Keeps })
}

// Shared reports whether the executions of a run share the values of a mock.
func (s *Set) Shared() bool {
	return s != nil && slices.ContainsFunc(s.HTTP, func(h HTTP) bool { return h.Shared })
}

// Parse reads a mocks file in YAML or JSON. Its error lists all mistakes with their
// positions, each on a line that begins with name.
func Parse(name string, src []byte) (*Set, error) {
	r := yaml.NewReader(name, src)
	m := Read(r, r.Root())
	if err := r.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// Read reads mocks that are part of another file; r collects their mistakes. A nil node
// is an empty set.
func Read(r *yaml.Reader, n *yaml3.Node) *Set {
	m := &Set{}
	if n != nil && n.ShortTag() != "!!null" {
		r.Object(n, "mocks", yaml.Fields{
			"http":   r.Each("http", func(n *yaml3.Node) { m.HTTP = append(m.HTTP, readHTTP(r, n)) }),
			"events": r.Each("events", func(n *yaml3.Node) { m.Events = append(m.Events, readEvent(r, n)) }),
		}, nil)
	}
	return m
}

func readHTTP(r *yaml.Reader, n *yaml3.Node) HTTP {
	var mock HTTP
	r.Object(n, "http mock", yaml.Fields{
		"match": func(n *yaml3.Node) { mock.Match = readMatch(r, n) },
		"respond": func(n *yaml3.Node) {
			if n.Kind == yaml3.MappingNode {
				mock.Respond = append(mock.Respond, readResponse(r, n))
				return
			}
			r.Each("respond", func(n *yaml3.Node) { mock.Respond = append(mock.Respond, readResponse(r, n)) })(n)
		},
		"keep": func(n *yaml3.Node) { mock.Keep, mock.Shared = readKeep(r, n); mock.Keeps = true },
	}, nil)
	if len(mock.Respond) == 0 {
		mock.Respond = []Response{{Status: 200}}
	}
	return mock
}

func readMatch(r *yaml.Reader, n *yaml3.Node) Match {
	var m Match
	r.Object(n, "match", MatchFields(r, &m), nil)
	return m
}

// MatchFields returns readers for the members of a match, which set m. The caller may add other
// members.
func MatchFields(r *yaml.Reader, m *Match) yaml.Fields {
	return yaml.Fields{
		"method": func(n *yaml3.Node) { m.Method = strings.ToUpper(r.Text(n, "method")) },
		"url": func(n *yaml3.Node) {
			m.URL = r.Text(n, "url")
			if m.URL != "" && m.URL[0] != '*' && !strings.Contains(m.URL, "://") {
				r.Errorf(n, "url %q matches no request: want a whole URL such as https://host/path, or */path", m.URL)
			}
		},
		"task": func(n *yaml3.Node) {
			m.Task = r.Text(n, "task")
			if m.Task != "" && m.Task[0] != '/' && m.Task[0] != '*' {
				r.Errorf(n, "task %q is not a reference: want one such as /do/0/%s, or */%s", m.Task, m.Task, m.Task)
			}
		},
		"query": func(n *yaml3.Node) {
			m.Query = map[string][]string{}
			r.Object(n, "query", nil, func(key, value *yaml3.Node) { m.Query[key.Value] = r.Texts(value, key.Value) })
		},
		"headers": func(n *yaml3.Node) { m.Headers = r.TextMap(n, "headers") },
		"body":    func(n *yaml3.Node) { m.Body, m.HasBody = r.Data(n), true },
	}
}

func readResponse(r *yaml.Reader, n *yaml3.Node) Response {
	resp := Response{Status: 200}
	answers := false
	answer := func(read func(n *yaml3.Node)) func(n *yaml3.Node) {
		return func(n *yaml3.Node) { answers = true; read(n) }
	}
	r.Object(n, "respond", yaml.Fields{
		"status": answer(func(n *yaml3.Node) {
			status, ok := r.Data(n).(int)
			if !ok || status < 200 || status > 599 {
				r.Errorf(n, "status is %s, want a number from 200 to 599", yaml.Spelled(n))
				return
			}
			resp.Status = status
		}),
		"headers": answer(func(n *yaml3.Node) { resp.Headers = r.TextMap(n, "headers") }),
		"body":    answer(func(n *yaml3.Node) { resp.Body, resp.HasBody = r.Data(n), true }),
		"latency": func(n *yaml3.Node) { resp.Latency = Delay(r, n, "latency") },
		"error": func(n *yaml3.Node) {
			if resp.Error = r.Text(n, "error"); resp.Error == "" {
				r.Errorf(n, "error is empty: want a message such as connection refused")
			}
		},
	}, nil)
	if resp.Error != "" && answers {
		r.Errorf(n, "respond has both an error and a response: want error alone, or status, headers and body")
	}
	return resp
}

// String returns the match in one line, as messages show it.
func (m Match) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if m.Method != "" {
		add("%s", m.Method)
	}
	if m.URL != "" {
		add("%s", m.URL)
	}
	if m.Task != "" {
		add("task %s", m.Task)
	}
	if len(m.Query) > 0 {
		add("query %s", jsonText(m.Query))
	}
	if len(m.Headers) > 0 {
		add("headers %s", jsonText(m.Headers))
	}
	if m.HasBody {
		add("body %s", jsonText(m.Body))
	}
	if len(parts) == 0 {
		return "any request"
	}
	return strings.Join(parts, " ")
}

// jsonText returns v as JSON with sorted keys.
func jsonText(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("mock: %T in mocks: %v", v, err))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Delay reads a duration of fixed length; months and years have none.
func Delay(r *yaml.Reader, n *yaml3.Node, what string) time.Duration {
	d, err := dsl.ParseDuration(r.Data(n))
	switch {
	case err != nil:
		r.Errorf(n, "%s: %v", what, err)
	case d.Months != 0 || !d.Until.IsZero():
		r.Errorf(n, "%s: %v has no fixed length, want days or less", what, d)
	}
	begin := time.Unix(0, 0)
	return d.From(begin).Sub(begin)
}
