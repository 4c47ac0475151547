package recording_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
)

// A request without a body has Content-Length: 0 and is not chunked, whatever transports
// it passes. The test reads from the socket, because net/http's server hides the
// difference.
func TestNoBodyIsNotChunked(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heads := make(chan string, 10)
	go answer(listener, heads)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		def, _, err := dsl.Parse("send.yaml", fmt.Appendf(nil, `document: {dsl: '1.0.3', namespace: demo, name: send, version: '0.1.0'}
do:
  - send: {call: http, with: {method: %s, endpoint: "http://%s/a"}}
`, method, listener.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		for name, run := range map[string]func(sim.Config) (*sim.Result, error){
			"recorded": func(cfg sim.Config) (*sim.Result, error) { return recording.Record(t.Context(), cfg, io.Discard) },
			"beside mocks": func(cfg sim.Config) (*sim.Result, error) {
				cfg.Mocks, cfg.Onward = &mock.Set{}, true
				return sim.Run(t.Context(), cfg)
			},
		} {
			result, err := run(sim.Config{Definition: def, Transport: httpcall.NewTransport(httpcall.AnyNetwork)})
			if err != nil || result.Error != nil {
				t.Fatalf("%s, %s: %v, %v", method, name, err, result)
			}
			head := <-heads
			if strings.Contains(head, "Transfer-Encoding") {
				t.Errorf("%s, %s, is chunked:\n%s", method, name, head)
			}
			if method != http.MethodDelete && !strings.Contains(head, "Content-Length: 0\r\n") {
				t.Errorf("%s, %s, has no Content-Length:\n%s", method, name, head)
			}
		}
	}
}

// answer accepts connections and sends the heads of their requests to heads.
func answer(listener net.Listener, heads chan<- string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		var head bytes.Buffer
		for in := bufio.NewReader(conn); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			head.WriteString(line)
		}
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		conn.Close()
		heads <- head.String()
	}
}
