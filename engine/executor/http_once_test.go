package executor_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// A server that hung up may have carried out the request: the workflow decides whether to
// repeat it, not net/http.
func TestTransportSendsOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "DELETE"} {
		var calls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") == "" {
				t.Errorf("%s without an idempotency key", method)
			}
			if calls.Add(1) == 1 {
				return // so that there is a connection to reuse
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).Close()
		}))
		defer server.Close()
		c := &executor.Caller{HTTP: &httpcall.Caller{Transport: httpcall.NewTransport(httpcall.AnyNetwork)}}
		r := request{Method: method, Endpoint: server.URL}
		if method == "POST" {
			r.Body = map[string]any{"amount": 1}
		}
		from := call.Origin{Execution: "exec-1", Run: event.Run{Ref: "/do/0/call"}}
		if _, err := output(t.Context(), c, r.task(t), scope(nil), from); err != nil {
			t.Fatal(err)
		}
		_, err := output(t.Context(), c, r.task(t), scope(nil), from)
		wantProblem(t, err, event.Communication, 500, "closed the connection without a response")
		if got := calls.Load(); got != 2 {
			t.Errorf("%s: the server got %d requests, want 2", method, got)
		}
	}
}
