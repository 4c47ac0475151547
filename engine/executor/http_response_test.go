package executor_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

func TestHTTPContent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, contentType, body string
		want                    any
	}{
		{"json", "application/json; charset=utf-8", `{"id": 1, "n": null}`, map[string]any{"id": 1, "n": nil}},
		{"json suffix", "application/problem+JSON", `[1.5]`, []any{1.5}},
		{"json with a mark", "application/json", "\xef\xbb\xbf7", 7},
		{"yaml", "application/yaml", "a: 1\nd: 2024-01-01\n2: {x: [~, true, 012, 0x1f, 1e3]}\n", map[string]any{
			"a": 1, "d": "2024-01-01", "2": map[string]any{"x": []any{nil, true, 12, 31, 1000.0}},
		}},
		{"yaml anchors", "text/yaml", "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", map[string]any{
			"a": map[string]any{"x": 1, "y": 2}, "b": map[string]any{"x": 1, "y": 3},
		}},
		{"text", "text/plain", "grüß", "grüß"},
		{"latin1", "text/plain; charset=ISO-8859-1", "gr\xfc\xdf", "grüß"},
		{"text that is none", "text/plain", "\xff\xfe", "//4="},
		{"xml", "application/atom+xml", "<a/>", "<a/>"},
		{"binary", "image/png", "\x89PNG", "iVBORw=="},
		{"no type, json", "", `{"a":1}`, map[string]any{"a": 1}},
		{"no type, text", "", "hello", "hello"},
		{"no type, binary", "", "\xff\x00", "/wA="},
		{"empty", "application/json", "", nil},
		{"blank json", "application/json", "\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environment, _ := recorder(200, tt.contentType, tt.body)
			got, err := perform(t, environment, request{Endpoint: "https://a.test/"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

// A foreign transport may omit empty members.
func TestHTTPBareResponse(t *testing.T) {
	t.Parallel()
	environment := answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent}, nil
	})
	for _, form := range []string{"content", "raw"} {
		got, err := perform(t, environment, request{Endpoint: "https://a.test/", Output: form}, nil)
		if got != nil || err != nil {
			t.Errorf("%s is %v, %v, want nothing", form, got, err)
		}
	}
}

func TestHTTPOutputs(t *testing.T) {
	t.Parallel()
	environment := answers(func(*http.Request) (*http.Response, error) {
		res := respond(201, "application/json", `{"id":1}`)
		res.Header["X-Many"] = []string{"a", "b"}
		return res, nil
	})
	r := request{Method: "post", Endpoint: "https://a.test/pet?x=1", Headers: map[string]any{"Authorization": "Bearer literal"}, Output: "response"}
	got, err := perform(t, environment, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"request": map[string]any{
			"method": "post", "uri": "https://a.test/pet?x=1",
			"headers": map[string]any{
				"Authorization": "***", "User-Agent": "flunq/1.2.3", "Idempotency-Key": "exec-1/do/0/call/0",
			},
		},
		"statusCode": 201,
		"headers":    map[string]any{"Content-Type": "application/json", "X-Many": "a, b"},
		"content":    map[string]any{"id": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}

	r.Output = "raw"
	got, err = perform(t, environment, r, nil)
	if err != nil || got != "eyJpZCI6MX0=" {
		t.Errorf("raw is %v, %v", got, err)
	}
}

func TestHTTPStatuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status      int
		body        string
		title, part string
	}{
		{404, "no such pet\n\x1b[2Jhere", "Not Found", "no such pet [2Jhere"},
		{503, "", "Service Unavailable", "GET https://a.test/ answered 503 Service Unavailable"},
		{499, "", "HTTP status 499", "answered 499"},
		{500, strings.Repeat("ä", 5000), "Internal Server Error", "…"},
	}
	for _, tt := range tests {
		environment, _ := recorder(tt.status, "text/plain", tt.body)
		_, err := perform(t, environment, request{Endpoint: "https://a.test/"}, nil)
		wantProblem(t, err, event.Communication, tt.status, tt.part)
		if p, _ := errors.AsType[*event.Problem](err); p.Title != tt.title || len(p.Detail) > 512 {
			t.Errorf("title %q and %d bytes of detail, want %q and at most 512", p.Title, len(p.Detail), tt.title)
		}
	}
}

func TestHTTPBadResponses(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(make([]byte, 11<<20))
	_ = z.Close()
	tests := []struct {
		name string
		res  func() *http.Response
		part string
	}{
		{"not JSON", func() *http.Response { return respond(200, "application/json", "{") }, "is not valid JSON"},
		{"not YAML", func() *http.Response { return respond(200, "application/yaml", "a: [") }, "is not valid YAML"},
		{"keys twice", func() *http.Response { return respond(200, "application/yaml", "a: 1\na: 2") }, "is repeated"},
		{"too large", func() *http.Response { return respond(200, "text/plain", strings.Repeat("x", 10<<20+1)) }, "larger than 10 MiB (limit response body)"},
		{"too large unzipped", func() *http.Response {
			res := respond(200, "text/plain", zipped.String())
			res.Header.Set("Content-Encoding", "gzip")
			return res
		}, "larger than 10 MiB"},
		{"unknown compression", func() *http.Response {
			res := respond(200, "application/json", "x")
			res.Header.Set("Content-Encoding", "br")
			return res
		}, `compressed with "br"`},
		{"broken off", func() *http.Response {
			res := respond(200, "text/plain", "")
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), broken{}))
			return res
		}, "reading the response: unexpected EOF"},
		{"alias bomb", func() *http.Response {
			var bomb strings.Builder
			bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
			for c := 'b'; c < 'k'; c++ {
				fmt.Fprintf(&bomb, "%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
			}
			return respond(200, "application/yaml", bomb.String())
		}, "limit json-memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &executor.Caller{HTTP: &httpcall.Caller{
				Transport: answers(func(*http.Request) (*http.Response, error) { return tt.res(), nil }),
			}}
			_, err := output(t.Context(), c, request{Endpoint: "https://a.test/"}.task(t), scope(nil), call.Origin{})
			wantProblem(t, err, event.Communication, 500, tt.part)
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
