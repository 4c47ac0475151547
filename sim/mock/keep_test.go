package mock_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A mock that keeps what it is sent answers as a service does that stores things.
func TestMocksKeep(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - {match: {url: "https://shop.example/items/*"}, keep: {n: 3, name: tea}}
  - {match: {url: "https://shop.example/none"}, keep: null}
  - {match: {url: "https://shop.example/bad"}, keep: 1, respond: [{status: 500}, {status: 201}]}
`)
	transport := m.Transport(nil, nil)
	for _, step := range []struct{ method, url, body, want string }{
		{"GET", "items/1?x=1", "", `200 {"n":3,"name":"tea"}`},
		{"PUT", "items/1", `{"n":4}`, `200 {"n":4}`},
		{"GET", "items/1", "", `200 {"n":4}`},
		{"GET", "items/2", "", `200 {"n":3,"name":"tea"}`},
		{"PATCH", "items/2", `{"n":5}`, `200 {"n":5,"name":"tea"}`},
		{"DELETE", "items/1", "", `200 `},
		{"GET", "items/1", "", `404 `},
		{"POST", "items/1", `text`, `200 text`},
		{"GET", "none", "", `404 `},
		{"PUT", "bad", `2`, `500 `},
		{"GET", "bad", "", `201 1`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), step.method, "https://shop.example/"+step.url, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if got := res.Status[:4] + string(body); err != nil || got != step.want {
			t.Errorf("%s %s: %q, %v, want %q", step.method, step.url, got, err, step.want)
		}
		_ = res.Body.Close()
	}
}
