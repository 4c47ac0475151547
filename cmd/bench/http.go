package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// http measures workflows with a single call, to a server in this process.
func (wf workflows) http(ctx context.Context) error {
	url, stop, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer stop()
	bare, err := wf.calls(ctx, url)
	if err != nil {
		return err
	}
	w := workflow{name: "one call", tasks: 1, text: document("call", "  - get: {call: http, with: {method: get, endpoint: '"+url+"'}}\n")}
	got, err := wf.work(ctx, w, wf.opts.size(200, 10))
	if got.n == 0 {
		return err
	}
	wf.add(Result{Name: w.name, Unit: "workflows/s", Rate: got.rate(), Count: got.n, Cost: got.cost}.
		beside(bare, fmt.Sprintf("GET by %d clients, without workflows", wf.opts.Engine.Executors)))
	return err
}

// startServer starts a server with a fixed response on a free port of this machine.
func startServer(ctx context.Context) (url string, stop func(), err error) {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen on this machine: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id": 1, "name": "Milou"}`)
		}),
	}
	go func() { _ = server.Serve(l) }() // until it is closed
	return "http://" + l.Addr().String() + "/pet", func() { _ = server.Close() }, nil
}

// calls sends requests to a server, with as many clients as there are executors, and returns the rate.
func (wf workflows) calls(ctx context.Context, url string) (float64, error) {
	wf.report("the limit: calls", 0)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("call %s: %w", url, err)
	}
	clients := max(wf.opts.Engine.Executors, 1)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	began := time.Now()
	var n atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := 0; i == 0 || time.Since(began) < wf.opts.Duration/2; i++ {
				res, err := client.Do(req.Clone(ctx))
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				if err != nil {
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if n.Load() == 0 {
		return 0, fmt.Errorf("call %s: no response", url)
	}
	return perSecond(int(n.Load()), time.Since(began)), nil
}
