package executor_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// The call that a task reports matches what the server received, without secrets: those the task
// reads, those that came through data, and parameters named like credentials.
func TestCallMade(t *testing.T) {
	t.Parallel()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/pets/7", http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}))
	defer server.Close()
	c := &executor.Caller{HTTP: &httpcall.Caller{Transport: httpcall.NewTransport(httpcall.AnyNetwork)}}
	input := map[string]any{"id": "a b/c", "leaked": "s3cr3t/value"}
	for _, one := range []struct {
		request

		want event.Call
		seen string // "": nothing
	}{
		{request{Endpoint: server.URL + "/pets/{id}?x=1"}, event.Call{Method: "GET", URL: server.URL + "/pets/a%20b%2Fc?x=1", Status: 201}, "GET /pets/a%20b%2Fc?x=1"},
		{
			request{Method: "POST", Endpoint: strings.Replace(server.URL, "//", "//ada:lovelace@", 1) + "/gone"},
			event.Call{Method: "POST", URL: server.URL + "/gone", Status: 410},
			"POST /gone",
		},
		{
			request{Endpoint: server.URL + "/", Query: map[string]any{"k": "${ $secrets.key }", "page": 2}},
			event.Call{Method: "GET", URL: server.URL + "/?k=***&page=2", Status: 201},
			"GET /?k=s3cr3t%2Fvalue&page=2",
		},
		{
			request{Endpoint: server.URL + "/x/{leaked}?access_token=abc&n=1"},
			event.Call{Method: "GET", URL: server.URL + "/x/***?access_token=***&n=1", Status: 201},
			"GET /x/s3cr3t%2Fvalue?access_token=abc&n=1",
		},
		{
			request{Endpoint: server.URL + "/moved", Redirect: true},
			event.Call{Method: "GET", First: server.URL + "/moved", URL: server.URL + "/pets/7", Status: 201},
			"GET /moved GET /pets/7",
		},
		{request{Endpoint: "http://127.0.0.1:1/"}, event.Call{Method: "GET", URL: "http://127.0.0.1:1/"}, ""},
		{request{Endpoint: server.URL + "/{nothing"}, event.Call{}, ""},
	} {
		seen = nil
		_, made, _ := c.Call(t.Context(), one.task(t), scope(input), call.Origin{}, c.Memory.Reserve(""))
		if made == nil {
			made = &event.Call{}
		}
		if diff := cmp.Diff(one.want, *made); diff != "" {
			t.Errorf("%s: %s", one.Endpoint, diff)
		}
		if got := strings.Join(seen, " "); got != one.seen {
			t.Errorf("%s: the server saw %q, want %q", one.Endpoint, got, one.seen)
		}
	}
	c.HTTP.Transport = httpcall.NewTransport(httpcall.PublicNetwork)
	if _, made, _ := c.Call(t.Context(), request{Endpoint: server.URL}.task(t), scope(input), call.Origin{}, c.Memory.Reserve("")); made != nil {
		t.Errorf("a call that the transport forbids: %+v, want none", made)
	}
}
