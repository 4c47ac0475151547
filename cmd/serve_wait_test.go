package cmd_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
)

// serve waits while Redis is unavailable, logs that, and exits cleanly when it is stopped.
func TestServeWaitsForRedis(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nothing listens there
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	logs, log := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cmd.Execute(ctx, []string{"serve", "--redis-url", "redis://" + address, "--http", ""}, cli.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: log, Env: func(string) string { return "" },
		})
		log.Close()
	}()
	first := make([]byte, 4096)
	n, _ := logs.Read(first)
	if !strings.Contains(string(first[:n]), "waiting for Redis") {
		t.Errorf("it says %q", first[:n])
	}
	go io.Copy(io.Discard, logs)
	cancel()
	if got := <-code; got != 0 && got != 130 {
		t.Errorf("exit code %d", got)
	}
}
