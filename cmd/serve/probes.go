package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"flunq.io/flunq/cmd/cli"
)

// probes answers health checks from the start of the process, even while it waits for Redis.
type probes struct {
	address string // "" if it does not listen
	server  *http.Server
	handler atomic.Pointer[http.Handler]
}

// listen answers that the process is alive but not ready, until handle is called. If the
// default address is in use, it takes a free port. It does not listen on an empty address.
func listen(ctx context.Context, log *slog.Logger, address string, given bool) (*probes, error) {
	p := &probes{}
	if address == "" {
		return p, nil
	}
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", address)
	if err != nil && !given {
		l, err = listening.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, cli.Fail(cli.ExitMisuse, fmt.Errorf("--http %s: %w", address, err))
	}
	p.handle(http.HandlerFunc(starting))
	p.address = l.Addr().String()
	log.InfoContext(ctx, "answering health checks", "http", p.address)
	p.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "health checks are no longer answered", "err", err)
		}
	}()
	return p, nil
}

// starting answers before the services run.
func starting(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, `{"status":"alive"}`)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, `{"reason":"the services have not started: is Redis reachable?","status":"not ready"}`)
}

// handle answers with the handler from now on.
func (p *probes) handle(handler http.Handler) { p.handler.Store(&handler) }

func (p *probes) close() {
	if p.server != nil {
		_ = p.server.Close()
	}
}
