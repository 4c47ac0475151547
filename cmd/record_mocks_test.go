package cmd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Mocks that were recorded from real calls give the same result without the services. They
// contain no secret.
func TestRecordMocks(t *testing.T) {
	t.Parallel()
	var calls, looks atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "sid=cookie-value")
		w.Header().Set("X-Api-Key", "api-key-value")
		w.Header().Set("Etag", `"7"`)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"look": %d, "price": 1.50, "big": 12345678901234567890, "text": "yes", "none": null, "by": %q}`,
			looks.Add(1), r.URL.Query().Get("key"))
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var order struct {
			N int `json:"n"`
		}
		_ = json.Unmarshal(body, &order)
		if order.N == 2 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"got": %d}`, order.N)
	})
	mux.HandleFunc("GET /old", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/new", http.StatusFound) })
	mux.HandleFunc("GET /new", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "{\"text\": \r\n1}\t\u00e9: # not YAML")
	})
	mux.HandleFunc("GET /word", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Millisecond) // a latency to record
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `"a word"`)
	})
	mux.HandleFunc("DELETE /orders/1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if text != "" {
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "SERVER", server.URL)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	doc := file("shop.yaml", `document: {dsl: '1.0.3', namespace: demo, name: shop, version: '0.1.0'}
use: {secrets: [key]}
do:
  - look1: {call: http, with: {method: get, endpoint: "SERVER/jobs", query: {key: '${ $secrets.key }'}, headers: {Authorization: '${ "Bearer " + $secrets.key }'}}, export: {as: '${ {one: .} }'}}
  - look2: {call: http, with: {method: get, endpoint: "SERVER/jobs", query: {key: '${ $secrets.key }'}, output: response}, export: {as: '${ $context + {two: .content.look, etag: .headers.etag} }'}}
  - orders:
      for: {each: n, in: '${ [1, 2, 3] }'}
      do:
        - order:
            try: [{post: {call: http, with: {method: post, endpoint: "SERVER/orders", body: {n: '${ $n }', key: '${ $secrets.key }'}}, export: {as: '${ $context + {got: (($context.got // []) + [.got])} }'}}}]
            catch: {errors: {with: {status: 409}}, do: [{note: {set: {n: 1}, export: {as: '${ $context + {got: (($context.got // []) + ["refused"])} }'}}}]}
  - undo: {call: http, with: {method: delete, endpoint: "SERVER/orders/1"}, export: {as: '${ $context + {undone: .} }'}}
  - old: {call: http, with: {method: get, endpoint: "SERVER/old", redirect: true}, export: {as: '${ $context + {old: .} }'}}
  - word: {call: http, with: {method: get, endpoint: "SERVER/word?access_token=of-the-url&x=1"}, export: {as: '${ $context + {word: .} }'}}
  - mocked: {call: http, with: {method: get, endpoint: "https://mocked.invalid/x"}, export: {as: '${ $context + {mocked: .} }'}}
  - event: {listen: {to: {one: {with: {type: t}}}}, export: {as: '${ $context + {event: .[0]} }'}}
  - dead:
      try: [{call: {call: http, with: {method: get, endpoint: "http://127.0.0.1:1/"}}}]
      catch: {as: error, do: [{note: {set: {n: 1}, export: {as: '${ $context + {dead: $error.type} }'}}}]}
  - all: {set: '${ $context }'}
`)
	secrets := file("secrets.yaml", "key: swordfish\n")
	file("shop.mocks.yaml", "# by hand\nhttp: [{match: {url: 'https://mocked.invalid/x'}, respond: {body: {by: hand}}}]\nevents: [{after: PT1H, type: t, data: 5}]\n")
	mocks := file("recorded.yaml", "")
	want, stderr, code := flunq(t, nil, "run", doc, "--secrets", secrets, "--record-mocks", mocks, "-o", "json")
	if code != 0 || !strings.Contains(stderr, "10 calls written to "+mocks) {
		t.Fatalf("code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(mocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	for _, secret := range []string{"swordfish", "cookie-value", "api-key-value", "Bearer", "of-the-url"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in the mocks", secret)
		}
	}
	for _, part := range []string{
		"# by hand\n", server.URL + "/jobs?key=*", server.URL + "/word?access_token=*&x=1", "body: {n: 2}}", "{status: 409", "latency: PT",
		"location: /new}", "etag: '\"7\"'",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the mocks have no %s", part)
		}
	}
	made := calls.Load()
	server.Close()
	got, stderr, code := flunq(t, nil, "run", doc, "--secrets", secrets, "--mocks", mocks, "-o", "json")
	if want = strings.ReplaceAll(want, "swordfish", "***"); got != want || code != 0 {
		t.Errorf("with the mocks: code %d: %s\ngot  %s\nwant %s", code, stderr, got, want)
	}
	if calls.Load() != made {
		t.Error("the second run made real calls")
	}
	if _, stderr, code = flunq(t, nil, "run", doc, "--record-mocks", mocks, "--redis-url", "redis://127.0.0.1:1", "--secrets", secrets); code != 2 ||
		!strings.Contains(stderr, "--record-mocks requires the virtual clock") {
		t.Errorf("with Redis: code %d: %s", code, stderr)
	}
}

// A call that outlasts the timeout of its task does so with recorded mocks, too, and a binary
// answer is an error that names the call.
func TestRecordMocksThatCannotAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/binary" {
			_, _ = w.Write([]byte{0xff, 0xfe})
			return
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	doc := written(t, "slow.yaml", `document: {dsl: '1.0.3', namespace: demo, name: slow, version: '0.1.0'}
do:
  - slow: {call: http, with: {method: get, endpoint: "`+server.URL+`"}, timeout: {after: PT0.1S}}
`)
	mocks := filepath.Join(t.TempDir(), "m.yaml")
	for _, with := range [][]string{{"--record-mocks", mocks}, {"--mocks", mocks}} {
		_, stderr, code := flunq(t, nil, append([]string{"run", doc}, with...)...)
		if code != 3 || !strings.Contains(stderr, "type      https://serverlessworkflow.io/spec/1.0.0/errors/timeout") {
			t.Errorf("%s: code %d: %s", with, code, stderr)
		}
	}
	doc = written(t, "binary.yaml", `document: {dsl: '1.0.3', namespace: demo, name: binary, version: '0.1.0'}
do:
  - get: {call: http, with: {method: get, endpoint: "`+server.URL+`/binary"}}
`)
	stdout, stderr, code := flunq(t, nil, "run", doc, "--record-mocks", mocks)
	if code != 1 || stdout == "" || !strings.Contains(stderr, "bodies are left out: GET "+server.URL+"/binary") {
		t.Errorf("binary: code %d: %q %s", code, stdout, stderr)
	}
}
