package executor_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

func TestTransportReachesOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello"))
	}))
	defer server.Close()
	byName := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for _, uri := range []string{server.URL, byName, "http://0.0.0.0:1/", "http://[::1]:1/", "http://[::ffff:127.0.0.1]:1/"} {
		_, err := perform(t, httpcall.NewTransport(httpcall.PublicNetwork), request{Endpoint: uri}, nil)
		wantProblem(t, err, event.Configuration, 400, "this machine itself: calls may reach it only if the services run with --allow-private")
	}
	for _, uri := range []string{
		"http://10.0.0.1/", "http://192.168.1.1/", "http://169.254.169.254/latest", "http://100.64.0.1/", "http://224.0.0.1/",
		"http://[fd00::1]/", "http://[fe80::1]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/",
	} {
		_, err := perform(t, httpcall.NewTransport(httpcall.PublicNetwork), request{Endpoint: uri}, nil)
		wantProblem(t, err, event.Configuration, 400, "not on the public internet: calls may reach it only if the services run with --allow-private")
	}
	got, err := perform(t, httpcall.NewTransport(httpcall.AnyNetwork), request{Endpoint: byName}, nil)
	if err != nil || got != "hello" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTransportKeepsLimits(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", 80<<10))
		case "/zipped":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 11<<20))
			_ = z.Close()
		case "/line", "/switch":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			if r.URL.Path == "/switch" {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				_, _ = conn.Read(make([]byte, 1)) // until the client hangs up
				return
			}
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: ")
			for err == nil {
				_, err = io.WriteString(conn, strings.Repeat("x", 4<<10))
			}
		case "/closed":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	c := &executor.Caller{HTTP: &httpcall.Caller{Transport: httpcall.NewTransport(httpcall.AnyNetwork)}}
	for path, part := range map[string]string{
		"/headers": "the headers of the response are too large (limit headers)",
		"/zipped":  "larger than 10 MiB",
		"/line":    "the headers of the response are too large (limit headers)",
		"/switch":  "status 101 Switching Protocols: a response in a protocol other than HTTP",
		"/closed":  "the server closed the connection without a response",
	} {
		_, err := output(t.Context(), c, request{Endpoint: server.URL + path}.task(t), scope(nil), call.Origin{})
		wantProblem(t, err, event.Communication, 500, part)
	}
	server.Close()
	_, err := output(t.Context(), c, request{Endpoint: server.URL}.task(t), scope(nil), call.Origin{})
	wantProblem(t, err, event.Communication, 500, "connection refused")
}

func TestTransportDistrustsCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	_, err := perform(t, httpcall.NewTransport(httpcall.AnyNetwork), request{Endpoint: server.URL}, nil)
	wantProblem(t, err, event.Communication, 500, "certificate")
}

// A refusal by the proxy is not shown as one by the server.
func TestTransportNamesProxy(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestTransportProxied$") // net/http reads the variable once
	child.Env = append(os.Environ(), "HTTPS_PROXY="+proxy.URL, "FLUNQ_TEST_PROXIED=1")
	out, err := child.CombinedOutput()
	if want := "GET https://example.test: the proxy of the services answered 403 Forbidden"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %q", err, out, want)
	}
}

// TestTransportProxied is the child process of TestTransportNamesProxy.
func TestTransportProxied(t *testing.T) {
	if os.Getenv("FLUNQ_TEST_PROXIED") == "" {
		t.Skip("not a child of another test")
	}
	_, err := perform(t, httpcall.NewTransport(httpcall.PublicNetwork), request{Endpoint: "https://example.test"}, nil)
	fmt.Println(err)
}
