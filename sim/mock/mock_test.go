package mock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mock"
)

func TestParse(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - match: {method: get, url: "https://petstore.example/pet/*", task: /do/0/getPet, query: {a: 1, b: [x, y]}}
    respond:
      - {status: 503, latency: PT0.2S}
      - {headers: {etag: '"1"'}, body: {id: 1, born: 2024-01-01}}
  - respond: {error: timeout}
events:
  - {after: P1DT12H, type: com.example.paid, source: /shop, data: {order: 7}, priority: 3}
`)
	want := &mock.Set{
		HTTP: []mock.HTTP{{
			Match: mock.Match{
				Method: "GET", URL: "https://petstore.example/pet/*", Task: "/do/0/getPet",
				Query: map[string][]string{"a": {"1"}, "b": {"x", "y"}},
			},
			Respond: []mock.Response{
				{Status: 503, Latency: 200 * time.Millisecond},
				{
					Status: 200, Headers: map[string]string{"etag": `"1"`},
					Body: map[string]any{"id": 1, "born": "2024-01-01"}, HasBody: true,
				},
			},
		}, {
			Respond: []mock.Response{{Status: 200, Error: "timeout"}},
		}},
		Events: []mock.Event{{
			After: 36 * time.Hour, Type: "com.example.paid", Source: "/shop",
			Data: map[string]any{"order": 7}, HasData: true, Ext: map[string]string{"priority": "3"},
		}},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("mocks differ (-want +got):\n%s", diff)
	}
}

func TestParseOfNothing(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "# later\n", "{}", "http: []\n", "\t{\n\t}\n"} {
		if m, err := mock.Parse("m.yaml", []byte(src)); err != nil || len(m.HTTP)+len(m.Events) != 0 {
			t.Errorf("Parse(%q) = %v, %v", src, m, err)
		}
	}
}

// All mistakes are reported together, each with its position.
func TestParseMistakes(t *testing.T) {
	t.Parallel()
	_, err := mock.Parse("m.yaml", []byte(`
http:
  - match: {methd: get, url: /pets, task: getPet}
    respond: {status: 99, error: no, body: x}
  - match: yes
    respons: 1
  - respond: {latency: 5, headers: {a: {}, a: b}}
events:
  - {after: P1M, typ: x}
  - {after: -5s, time: today, Upper: 1, type: y}
  - 7
event: []
`))
	if err == nil {
		t.Fatal("want an error")
	}
	want := `m.yaml:3:13: unknown key "methd" in match, did you mean "method"?
m.yaml:3:30: url "/pets" matches no request: want a whole URL such as https://host/path, or */path
m.yaml:3:43: task "getPet" is not a reference: want one such as /do/0/getPet, or */getPet
m.yaml:4:14: respond has both an error and a response: want error alone, or status, headers and body
m.yaml:4:23: status is "99", want a number from 200 to 599
m.yaml:5:12: match is "yes", want a map
m.yaml:6:5: unknown key "respons" in http mock, did you mean "respond"?
m.yaml:7:24: latency: 5 is not a duration: a unit is missing (for seconds, write: PT5S)
m.yaml:7:40: a is a map, want text
m.yaml:7:44: headers has "a" twice
m.yaml:9:13: after: P1M has no fixed length, want days or less
m.yaml:9:18: event has no attribute "typ", did you mean "type"?
m.yaml:10:13: after: "-5s" is negative (a duration cannot lead into the past)
m.yaml:10:24: time is "today", want one such as 2026-01-31T08:00:00Z
m.yaml:10:31: attribute "Upper": want a name of lower-case letters and digits
m.yaml:11:5: event is "7", want a map
m.yaml:12:1: unknown key "event" in mocks, did you mean "events"?`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors differ (-want +got):\n%s", diff)
	}
}

func TestParseSyntax(t *testing.T) {
	t.Parallel()
	var layers strings.Builder
	layers.WriteString("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for c := 'b'; c < 'k'; c++ {
		prev := string(c - 1)
		fmt.Fprintf(&layers, "%c: &%c [%s*%s]\n", c, c, strings.Repeat("*"+prev+", ", 9), prev)
	}
	bomb := "http:\n- respond:\n    body:\n      " + strings.ReplaceAll(layers.String(), "\n", "\n      ")
	for src, want := range map[string]string{
		"http: [\n":                      "m.yaml:1:7: this [ is never closed",
		"http: []\n---\nhttp: []\n":      "m.yaml:2:1: a second document begins here",
		"- 1\n":                          "m.yaml:1:1: mocks is a list, want a map",
		"http: {}\n":                     "m.yaml:1:7: http is a map, want a list",
		"http:\n- respond: {body: .nan}": "m.yaml:2:19: .nan is not a number in JSON",
		bomb:                             "too large: the file has more than 200000 values",
	} {
		_, err := mock.Parse("m.yaml", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.40q) = %v, want %s", src, err, want)
		}
	}
}

func TestEventOfMock(t *testing.T) {
	t.Parallel()
	m := parse(t, `
events:
  - {type: a, subject: s, data: {b: "<"}}
  - {type: b, id: "7", source: /x, time: 2026-01-31T08:00:00+01:00, priority: 3}
`)
	at := time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC)
	want := []event.Event{
		{
			ID: "mock-1", Source: "/mocks", Type: "a", Time: at, Data: []byte(`{"b":"<"}`),
			Ext: map[string]string{"subject": "s"},
		},
		{
			ID: "7", Source: "/x", Type: "b", Time: time.Date(2026, 1, 31, 7, 0, 0, 0, time.UTC),
			Ext: map[string]string{"priority": "3"},
		},
	}
	for i, e := range m.Events {
		if diff := cmp.Diff(want[i], e.Event(i, at)); diff != "" {
			t.Errorf("event %d differs (-want +got):\n%s", i, diff)
		}
	}
}

// The first mock that matches answers; each of its members must agree.
func TestTransportMatches(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - {match: {method: post, url: "https://a.example/x"}, respond: {body: post}}
  - {match: {url: "https://a.example/pet/*/toys"}, respond: {body: glob}}
  - {match: {url: "https://a.example/q?b=1"}, respond: {body: with query}}
  - {match: {query: {n: 2}}, respond: {body: query}}
  - {match: {headers: {authorization: "Bearer *"}}, respond: {body: header}}
  - {match: {task: "*/pay"}, respond: {body: task}}
  - {match: {body: {order: {id: 7, lines: [{sku: a}]}}}, respond: {body: body}}
  - {match: {body: plain}, respond: {body: text}}
`)
	for _, c := range []struct{ request, want string }{
		{"POST https://a.example/x", "post"},
		{"POST https://a.example/x?y=1", "post"},
		{"GET https://a.example/x", ""},
		{"GET https://a.example/pet/1/2/toys", "glob"},
		{"GET https://a.example/pet//toys", ""},
		{"GET https://a.example/q?b=1", "with query"},
		{"GET https://a.example/q?b=12", ""},
		{"GET https://b.example/?n=2&m=3", "query"},
		{"GET https://b.example/?n=2&n=3", ""},
		{"GET https://b.example/ Authorization:Bearer-x", ""},
		{"GET https://b.example/ Authorization:Bearer_x", "header"},
		{"GET https://b.example/ Flunq-Origin:exec_/do/1/pay", "task"},
		{`PUT https://b.example/ {"order":{"id":7.0,"lines":[{"sku":"a","n":1}]},"more":1}`, "body"},
		{`PUT https://b.example/ {"order":{"id":7,"lines":[{"sku":"a"},{"sku":"b"}]}}`, ""},
		{`PUT https://b.example/ {"order":{"id":"7","lines":[{"sku":"a"}]}}`, ""},
		{"PUT https://b.example/ plain", "text"},
		{`PUT https://b.example/ "plain"`, "text"},
	} {
		resp, err := m.Transport(noSleep, nil).RoundTrip(request(t, c.request))
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: answered with %s, want no mock", c.request, read(t, resp))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.request, err)
		} else if got := read(t, resp); got != c.want {
			t.Errorf("%s: answered with %s, want %s", c.request, got, c.want)
		}
	}
}

// Responses come in order and the last one repeats; another transport of the same mocks
// starts from the beginning.
func TestTransportRespondsInOrder(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - respond:
      - {status: 503, latency: 2s}
      - {error: connection refused, latency: 1s}
      - {status: 201, headers: {etag: "1"}, body: {id: 1}}
`)
	for range 2 {
		var slept time.Duration
		var seen []mock.Exchange
		transport := m.Transport(func(_ context.Context, d time.Duration) error { slept += d; return nil }, nil)
		transport.Observe = func(e mock.Exchange) { seen = append(seen, e) }
		for i, want := range []string{"503 ", "connection refused", `201 {"id":1}`, `201 {"id":1}`} {
			resp, err := transport.RoundTrip(request(t, "GET https://a.example/ Flunq-Origin:exec_/do/0/a"))
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = resp.Status[:4] + read(t, resp)
			}
			if got != want {
				t.Errorf("answer %d is %q, want %q", i, got, want)
			}
			if i == 3 && (resp.Header.Get("ETag") != "1" || resp.Header.Get("Content-Type") != "application/json") {
				t.Errorf("headers are %v", resp.Header)
			}
		}
		if slept != 3*time.Second {
			t.Errorf("slept %v, want 3s", slept)
		}
		if len(seen) != 4 || seen[1].Err == nil || seen[3].Method != http.MethodGet || seen[3].URL != "https://a.example/" ||
			seen[3].Task != "/do/0/a" || seen[3].Status != 201 {
			t.Errorf("observed %+v", seen)
		}
	}
}

func TestTransportWithoutMock(t *testing.T) {
	t.Parallel()
	m := parse(t, `http: [{match: {method: get, url: "https://a.example/*"}}, {match: {task: /do/0/b}}]`)
	_, err := m.Transport(noSleep, nil).RoundTrip(request(t, "POST https://a.example/x Flunq-Origin:exec_/do/0/a"))
	want := `no mock answers POST https://a.example/x (task /do/0/a); add to http in the mocks file: ` +
		`{match: {method: POST, url: "https://a.example/x"}, respond: {status: 200}}; ` +
		`the mocks match: GET https://a.example/*, task /do/0/b`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v\nwant     %s", err, want)
	}
	_, err = m.Transport(noSleep, nil).RoundTrip(request(t, "GET https://a.example/"))
	if want := "GET https://a.example/* (its * stands for at least one character)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want it to say %s", err, want)
	}
}

// A request that no mock answers reaches the next transport unchanged.
func TestTransportGoesOn(t *testing.T) {
	t.Parallel()
	m := parse(t, `http: [{match: {body: other}}]`)
	var got string
	next := roundTrip(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		got = string(body)
		return nil, errors.Join(err, errors.New("as far as it goes"))
	})
	_, err := m.Transport(noSleep, next).RoundTrip(request(t, "POST https://a.example/x plain"))
	if err == nil || err.Error() != "as far as it goes" || got != "plain" {
		t.Errorf("next got %q, error is %v", got, err)
	}
}

func TestTransportLatencyEndsWithContext(t *testing.T) {
	t.Parallel()
	m := parse(t, `http: [{respond: {latency: 1s}}]`)
	sleep := func(context.Context, time.Duration) error { return context.Canceled }
	if _, err := m.Transport(sleep, nil).RoundTrip(request(t, "GET https://a.example/")); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func noSleep(context.Context, time.Duration) error { return nil }

func parse(t *testing.T, src string) *mock.Set {
	t.Helper()
	m, err := mock.Parse("m.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// request parses "METHOD URL", "METHOD URL Header:value" (with _ for a space) or "METHOD
// URL body".
func request(t *testing.T, line string) *http.Request {
	t.Helper()
	parts := strings.SplitN(line, " ", 3)
	var body string
	name, value, isHeader := "", "", false
	if len(parts) == 3 {
		name, value, isHeader = strings.Cut(parts[2], ":")
		if isHeader = isHeader && name[0] != '{'; !isHeader {
			body = parts[2]
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), parts[0], parts[1], strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if isHeader {
		req.Header.Set(name, strings.ReplaceAll(value, "_", " "))
	}
	return req
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A recorded mock matches the requests that it was recorded from. A body with a number that YAML
// cannot hold is not matched.
func TestRecorderNumbers(t *testing.T) {
	t.Parallel()
	answers := parse(t, `http: [{match: {body: {n: 1}}, respond: {body: one}}, {respond: {body: many}}]`).Transport(noSleep, nil)
	recorder := mock.NewRecorder(answers, time.Now, func(text string) string { return text })
	bodies := map[string]string{`{"n":1}`: "one", `{"n":1e400,"of":"three"}`: "many"}
	for body := range bodies {
		ask(t, recorder, http.MethodPost, "https://a.example/", body)
	}
	file, left, err := recorder.File(nil)
	if err != nil || left != nil {
		t.Fatalf("%v, left %v", err, left)
	}
	again := parse(t, string(file)).Transport(noSleep, nil)
	for body, want := range bodies {
		if got := ask(t, again, http.MethodPost, "https://a.example/", body); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s; mocks:\n%s", body, got, want, file)
		}
	}
}
