package executor_test

import (
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

func TestHTTPRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		request request
		input   any
		want    sent
		header  map[string]string // "" means absent
	}{
		{
			name:    "template members of the input are percent-encoded",
			request: request{Endpoint: "https://a.test/pet/{petId}/{name}?s={s}"},
			input:   map[string]any{"petId": 1, "name": "a b/c?", "s": true},
			want:    sent{Method: "GET", URL: "https://a.test/pet/1/a%20b%2Fc%3F?s=true"},
			header:  map[string]string{"User-Agent": "flunq/1.2.3", "Idempotency-Key": "", "Content-Type": ""},
		},
		{
			name:    "dotted names are verbatim, and a missing value is empty",
			request: request{Endpoint: "https://a.test/{a.b}/{y}/{none}x?q={y}&r={null}&s={none}"},
			input:   map[string]any{"y": "", "null": nil, "a.b": big.NewInt(7), "a": map[string]any{"b": 1}},
			want:    sent{Method: "GET", URL: "https://a.test/7//x?q=&r=&s="},
		},
		{
			name:    "a scalar input needs no lookup",
			request: request{Endpoint: "https://a.test/"},
			input:   1,
			want:    sent{Method: "GET", URL: "https://a.test/"},
		},
		{
			name:    "an endpoint from an expression is no template",
			request: request{Endpoint: `${ "https://a.test/%7Bid%7D?q=a b#part" }`},
			input:   map[string]any{"id": 1},
			want:    sent{Method: "GET", URL: "https://a.test/%7Bid%7D?q=a%20b"},
		},
		{
			name: "query is appended, lists repeat, null is left out",
			request: request{Endpoint: "https://a.test/?z=1", Query: map[string]any{
				"b": []any{"x y", 2, nil}, "a": "${ .v }", "n": nil, "f": 1.5,
			}},
			input: map[string]any{"v": "&="},
			want:  sent{Method: "GET", URL: "https://a.test/?z=1&a=%26%3D&b=x%20y&b=2&f=1.5"},
		},
		{
			name:    "an object is JSON, with the idempotency key",
			request: request{Method: "POST", Endpoint: "https://a.test/", Body: map[string]any{"b": "${ .v }", "a": []any{1, nil}}},
			input:   map[string]any{"v": 2},
			want:    sent{Method: "POST", URL: "https://a.test/", Body: `{"a":[1,null],"b":2}`},
			header:  map[string]string{"Content-Type": "application/json", "Idempotency-Key": "exec-1/do/0/call/0"},
		},
		{
			name: "the document's own headers win",
			request: request{
				Method: "put", Endpoint: "https://a.test/", Body: []any{1},
				Headers: map[string]any{
					"content-type": "application/vnd.x+json", "idempotency-key": "mine",
					"user-agent": "me", "X-N": 5, "X-Null": nil, "X-B": false,
				},
			},
			want: sent{Method: "PUT", URL: "https://a.test/", Body: `[1]`},
			header: map[string]string{
				"Content-Type": "application/vnd.x+json", "Idempotency-Key": "mine",
				"User-Agent": "me", "X-N": "5", "X-Null": "", "X-B": "false",
			},
		},
		{
			name:    "headers and body may be one expression",
			request: request{Method: "patch", Endpoint: "https://a.test/", Headers: "${ {\"X-A\": .a} }", Body: "${ . }"},
			input:   map[string]any{"a": "1"},
			want:    sent{Method: "PATCH", URL: "https://a.test/", Body: `{"a":"1"}`},
			header:  map[string]string{"X-A": "1"},
		},
		{
			name:    "a string is sent as it is",
			request: request{Method: "post", Endpoint: "https://a.test/", Body: "plain {text}"},
			want:    sent{Method: "POST", URL: "https://a.test/", Body: "plain {text}"},
			header:  map[string]string{"Content-Type": "text/plain; charset=utf-8"},
		},
		{
			name:    "scalars are JSON, an expression's null is no body",
			request: request{Method: "delete", Endpoint: "https://a.test/", Body: "${ null }"},
			want:    sent{Method: "DELETE", URL: "https://a.test/"},
			header:  map[string]string{"Content-Type": ""},
		},
		{
			name: "a form",
			request: request{
				Method: "post", Endpoint: "https://a.test/",
				Headers: map[string]any{"Content-Type": "application/x-www-form-urlencoded"},
				Body:    map[string]any{"b": []any{1, 2}, "a": "ä &"},
			},
			want:   sent{Method: "POST", URL: "https://a.test/", Body: "a=%C3%A4%20%26&b=1&b=2"},
			header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
		},
		{
			name:    "unknown methods are sent as they are",
			request: request{Method: "Purge", Endpoint: "https://a.test/"},
			want:    sent{Method: "Purge", URL: "https://a.test/"},
		},
		{
			name:    "a user in the URI is basic authentication",
			request: request{Endpoint: "https://ada:love@a.test/"},
			want:    sent{Method: "GET", URL: "https://a.test/"},
			header:  map[string]string{"Authorization": "Basic YWRhOmxvdmU="},
		},
		{
			name:    "authentication wins over a header",
			request: request{Endpoint: "https://a.test/", Headers: map[string]any{"authorization": "x"}, Auth: &dsl.Authentication{Scheme: "basic", Secret: "login"}},
			want:    sent{Method: "GET", URL: "https://a.test/"},
			header:  map[string]string{"Authorization": "Basic YWRhOmxvdmVsYWNl"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environment, got := recorder(200, "", "")
			if _, err := perform(t, environment, tt.request, tt.input); err != nil {
				t.Fatal(err)
			}
			seen := (*got)[0]
			header := seen.Header
			seen.Header = nil
			if diff := cmp.Diff(tt.want, seen); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			for name, want := range tt.header {
				if header.Get(name) != want {
					t.Errorf("header %s is %q, want %q", name, header.Get(name), want)
				}
			}
		})
	}
}

func TestHTTPRefusesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	const anywhere = "https://a.test/"
	tests := []struct {
		name    string
		request request
		input   any
		problem string
		status  int
		part    string
	}{
		{"scheme", request{Endpoint: "ftp://a.test/"}, nil, event.Configuration, 400, `scheme "ftp", want http or https`},
		{"relative", request{Endpoint: "/pets"}, nil, event.Configuration, 400, "relative"},
		{"no host", request{Endpoint: "https:///x"}, nil, event.Configuration, 400, "names no host"},
		{"no URI", request{Endpoint: "https://a.test:port/"}, nil, event.Configuration, 400, "not a URI"},
		{"endpoint is data", request{Endpoint: "${ 5 }"}, nil, event.Expression, 400, "endpoint is a number"},
		{"unclosed", request{Endpoint: "https://a.test/{x"}, nil, event.Configuration, 400, "no }"},
		{"list in template", request{Endpoint: "https://a.test/{x}"}, map[string]any{"x": []any{}}, event.Expression, 400, "{x} is a list"},
		{"host missing", request{Endpoint: "https://{x}/"}, 1, event.Configuration, 400, "names no host"},
		{"path traversal", request{Endpoint: "https://a.test/a/{x}/b"}, map[string]any{"x": ".."}, event.Expression, 400, "another path"},
		{"host from data", request{Endpoint: "https://{x}/"}, map[string]any{"x": "b.test/?"}, event.Configuration, 400, "not a URI"},
		{"method", request{Method: "GET /x HTTP/1.1\r\nA: b", Endpoint: anywhere}, nil, event.Expression, 400, "not an HTTP method"},
		{"header injection", request{Endpoint: anywhere, Headers: map[string]any{"X": "a\r\nY: b"}}, nil, event.Expression, 400, "value of X"},
		{"header name", request{Endpoint: anywhere, Headers: map[string]any{"X Y": "a"}}, nil, event.Expression, 400, "not a header's name"},
		{"header list", request{Endpoint: anywhere, Headers: map[string]any{"X": []any{}}}, nil, event.Expression, 400, "X is a list"},
		{"headers no object", request{Endpoint: anywhere, Headers: "${ 1 }"}, nil, event.Expression, 400, "headers is a number"},
		{"query object", request{Endpoint: anywhere, Query: map[string]any{"q": map[string]any{}}}, nil, event.Expression, 400, "q is an object"},
		{"expression", request{Endpoint: anywhere, Body: "${ .a.b }"}, "text", event.Expression, 400, "body: "},
		{"multipart", request{Endpoint: anywhere, Headers: map[string]any{"Content-Type": "multipart/form-data"}, Body: map[string]any{}}, nil, event.Configuration, 400, "multipart/form-data"},
		{"form of a list", request{Endpoint: anywhere, Headers: map[string]any{"Content-Type": "application/x-www-form-urlencoded"}, Body: []any{}}, nil, event.Expression, 400, "as a form"},
		{"oauth2", request{Endpoint: anywhere, Auth: &dsl.Authentication{Scheme: "oauth2"}}, nil, event.Configuration, 400, "oauth2 cannot be used yet"},
		{"secret", request{Endpoint: anywhere, Auth: &dsl.Authentication{Scheme: "bearer", Secret: "none"}}, nil, event.Authorization, 403, `"none"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environment := answers(func(req *http.Request) (*http.Response, error) {
				t.Errorf("requested %s", req.URL)
				return nil, errors.New("unwanted")
			})
			_, err := perform(t, environment, tt.request, tt.input)
			wantProblem(t, err, tt.problem, tt.status, tt.part)
		})
	}
}

func TestHTTPConnectionFails(t *testing.T) {
	t.Parallel()
	environment := answers(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection \x1b[31mrefused") })
	_, err := perform(t, environment, request{Endpoint: "https://a.test/x?token=abc"}, nil)
	wantProblem(t, err, event.Communication, 500, "GET https://a.test/x: connection [31mrefused")
	if strings.Contains(err.Error(), "abc") {
		t.Errorf("%v shows the query", err)
	}
}

// hops is a transport of redirects: its keys are URLs, its values a status and a
// location.
func hops(t *testing.T, table map[string]string, got *[]sent) answers {
	t.Helper()
	return func(req *http.Request) (*http.Response, error) {
		*got = append(*got, sent{req.Method, req.URL.String(), readAll(req), req.Header})
		status, location, ok := strings.Cut(table[req.URL.String()], " ")
		if !ok {
			return respond(200, "text/plain", "there"), nil
		}
		code := map[string]int{"301": 301, "303": 303, "304": 304, "307": 307}[status]
		res := respond(code, "", "")
		res.Header.Set("Location", location)
		return res, nil
	}
}

func TestHTTPRedirects(t *testing.T) {
	t.Parallel()
	private := map[string]any{
		"X-Api-Key": "k", "X-Access-Key": "k", "Private-Key": "k", "Cookie": "c=1", "Proxy-Authorization": "p", "X-Plain": "a", "X-Hidden": "${ $secrets.key }",
		"Authorization": "Bearer x", "Content-Type": "application/json",
	}
	tests := []struct {
		name   string
		table  map[string]string
		want   []string // method, URL, body
		absent []string
		kept   []string
	}{
		{
			name:   "a POST becomes a GET, and another host learns nothing",
			table:  map[string]string{"https://a.test/": "301 https://b.test/x"},
			want:   []string{"POST https://a.test/ {}", "GET https://b.test/x "},
			absent: []string{"X-Api-Key", "X-Access-Key", "Private-Key", "X-Plain", "Cookie", "Proxy-Authorization", "X-Hidden", "Authorization", "Content-Type", "Idempotency-Key", "Referer"},
			kept:   []string{"User-Agent"},
		},
		{
			name:   "307 sends the body again",
			table:  map[string]string{"https://a.test/": "307 //b.test/y"},
			want:   []string{"POST https://a.test/ {}", "POST https://b.test/y {}"},
			absent: []string{"X-Api-Key", "Idempotency-Key"},
			kept:   []string{"Content-Type", "User-Agent"},
		},
		{
			name:  "the same host learns all",
			table: map[string]string{"https://a.test/": "307 /z#f", "https://a.test/z": "303 ../w"},
			want:  []string{"POST https://a.test/ {}", "POST https://a.test/z {}", "GET https://a.test/w "},
			kept:  []string{"X-Api-Key", "X-Access-Key", "X-Plain", "Authorization"},
		},
		{
			name:   "a step down to http is another host",
			table:  map[string]string{"https://a.test/": "307 http://a.test/"},
			want:   []string{"POST https://a.test/ {}", "POST http://a.test/ {}"},
			absent: []string{"Authorization"},
		},
		{
			name:  "304 is final",
			table: map[string]string{"https://a.test/": "304 https://b.test/"},
			want:  []string{"POST https://a.test/ {}"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []sent
			r := request{Method: "post", Endpoint: "https://a.test/", Headers: private, Body: map[string]any{}, Redirect: true}
			if _, err := perform(t, hops(t, tt.table, &got), r, nil); err != nil {
				t.Fatal(err)
			}
			var seen []string
			for _, s := range got {
				seen = append(seen, s.Method+" "+s.URL+" "+s.Body)
			}
			if diff := cmp.Diff(tt.want, seen); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			last := got[len(got)-1].Header
			for _, name := range tt.absent {
				if last.Get(name) != "" {
					t.Errorf("%s: %s went along", name, last.Get(name))
				}
			}
			for _, name := range tt.kept {
				if last.Get(name) == "" {
					t.Errorf("%s was lost", name)
				}
			}
		})
	}
}

func TestHTTPRedirectsEnd(t *testing.T) {
	t.Parallel()
	var got []sent
	circle := map[string]string{"https://a.test/": "301 https://a.test/"}
	_, err := perform(t, hops(t, circle, &got), request{Endpoint: "https://a.test/", Redirect: true}, nil)
	wantProblem(t, err, event.Communication, 301, "more than 10 redirects")
	if len(got) != 11 {
		t.Errorf("%d requests, want 11", len(got))
	}

	_, err = perform(t, hops(t, circle, &got), request{Endpoint: "https://a.test/"}, nil)
	wantProblem(t, err, event.Communication, 301, "redirect: true")

	away := map[string]string{"https://a.test/": "301 file:///etc/passwd"}
	_, err = perform(t, hops(t, away, &got), request{Endpoint: "https://a.test/", Redirect: true}, nil)
	wantProblem(t, err, event.Communication, 301, "not an http or https URI")
}
