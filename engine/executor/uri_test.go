package executor_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// Whatever the data, a template's request goes to the template's host, below its path and
// with no other query, or nowhere at all.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"1", "", "..", ".", "%2e%2e", "a/b", "?x=y", "#", "@evil.test", "\r\nHost: evil", "ä€😀", "{x}", `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var seen *url.URL
		environment := answers(func(req *http.Request) (*http.Response, error) {
			seen = req.URL
			return respond(200, "", ""), nil
		})
		c := &executor.Caller{HTTP: &httpcall.Caller{Transport: environment}}
		task := request{Endpoint: "https://a.test/pre/{x}/post?q={x}"}.task(t)
		_, err := output(t.Context(), c, task, scope(map[string]any{"x": value}), call.Origin{})
		if err != nil {
			if _, ok := errors.AsType[*event.Problem](err); !ok {
				t.Errorf("%q: %v, want a problem", value, err)
			}
			return
		}
		if seen.Host != "a.test" || seen.User != nil || seen.Query().Get("q") != value || len(seen.Query()) != 1 {
			t.Errorf("%q: requested %v", value, seen)
		}
		if parts := strings.Split(seen.EscapedPath(), "/"); len(parts) != 4 || parts[1] != "pre" || parts[3] != "post" || parts[2] == ".." {
			t.Errorf("%q: path %s", value, seen.EscapedPath())
		}
	})
}
