package mock_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/sim/mock"
)

// A mock that keeps values answers like a service that stores them.
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
		if got := ask(t, transport, step.method, "https://shop.example/"+step.url, step.body); got != step.want {
			t.Errorf("%s %s: %q, want %q", step.method, step.url, got, step.want)
		}
	}
}

// ask sends a request, and returns the status and the body of the answer.
func ask(t *testing.T, by http.RoundTripper, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := by.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.Status[:4] + string(answer)
}

// A state can be shared: another transport returns what one has stored.
func TestMocksShareWhatTheyKeep(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - {match: {url: "https://shop.example/stock"}, keep: {scope: shared, state: {n: 3}}}
  - {match: {url: "https://shop.example/own"}, keep: {scope: execution, state: 1}}
  - {match: {url: "https://shop.example/oauth"}, keep: {scope: openid, name: x}}
  - {match: {url: "https://shop.example/*"}, keep: {scope: shared}}
`)
	if !m.Shared() {
		t.Error("nothing is shared")
	}
	one, two := m.Transport(nil, nil), m.Transport(nil, nil)
	state := new(mock.State)
	one.Shared, two.Shared = state, state
	for _, step := range []struct {
		by                      *mock.Transport
		method, url, body, want string
	}{
		{one, "GET", "stock", "", `{"n":3}`},
		{one, "PUT", "stock", `{"n":2}`, `{"n":2}`},
		{two, "GET", "stock", "", `{"n":2}`},
		{one, "PUT", "own", `7`, `7`},
		{two, "GET", "own", "", `1`},
		{two, "GET", "oauth", "", `{"name":"x","scope":"openid"}`},
		{two, "GET", "new", "", ``},
		{one, "POST", "new", `{}`, `{}`},
		{two, "GET", "new", "", `{}`},
	} {
		if got := ask(t, step.by, step.method, "https://shop.example/"+step.url, step.body); got[4:] != step.want {
			t.Errorf("%s %s: %q, want %q", step.method, step.url, got, step.want)
		}
	}
	var text []string
	for _, kept := range one.Kept(true) {
		text = append(text, fmt.Sprint(kept.URL, " ", kept.Value, " ", kept.Changed()))
	}
	want := []string{"https://shop.example/new map[] true", "https://shop.example/stock map[n:2] true"}
	if !slices.Equal(text, want) {
		t.Errorf("shared: %q, want %q", text, want)
	}
	if own := two.Kept(false); len(own) != 2 || own[0].Changed() || own[1].Changed() {
		t.Errorf("own: %+v", own)
	}
}

// A misspelled scope, or one next to the members of a state, is a mistake.
func TestMocksRefuseScopes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{scope: shared, count: 5}`:      `keep has a scope and "count": want {scope: shared, state: {…}}`,
		`{scope: sharde, state: {n: 1}}`: `scope is "sharde", want execution or shared; did you mean shared?`,
	} {
		_, err := mock.Parse("mocks.yaml", []byte(`http: [{match: {url: "*"}, keep: `+text+`}]`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
