package http

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A server that never finishes its response takes no longer than the timeout.
func TestTransportTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = w.Write([]byte("begun"))
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	transport, ok := NewTransport(AnyNetwork).(*bounded)
	if !ok {
		t.Fatal("the transport is not bounded")
	}
	transport.timeout = 50 * time.Millisecond
	for _, path := range []string{"/", "/body"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if want := "timed out: no complete response within 50ms (limit timeout)"; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
