package bench_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"flunq.io/flunq/cmd/bench"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

// Close stops the server of the bench and removes its folder.
func TestServer(t *testing.T) {
	t.Parallel()
	server := own(t)
	rdb, err := store.Dial(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	if n, err := rdb.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("a new server has %d keys, %v", n, err)
	}
	folder := rdb.ConfigGet(t.Context(), "dir").Val()["dir"]
	server.Close()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder %s is still there: %v", folder, err)
	}
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("the server still answers")
	}
}

// The report of an interrupted run contains the results so far, and no data is left in a
// Redis that others use.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := own(t)
	opts := bench.Options{
		URL: server.URL, Only: []string{"memory", "latency"}, Quick: true, Timers: 100,
		Duration: 50 * time.Millisecond, Engine: engine.Defaults(), Log: slog.New(slog.DiscardHandler),
	}
	ctx, stop := context.WithCancel(t.Context())
	opts.Progress = func(p bench.Progress) {
		if p.Scenario == "memory" { // the second one: scenarios keep their order
			stop()
		}
	}
	report, err := bench.Run(ctx, opts)
	if err == nil || ctx.Err() == nil {
		t.Fatalf("Run = %v, want it interrupted", err)
	}
	if len(report.Results) != 3 || report.Results[0].Scenario != "latency" {
		t.Errorf("results = %+v, want the three of latency", report.Results)
	}
	rdb, err := store.Dial(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// The keys of the scheduler have no tenant, so a shared Redis is left alone.
func TestSchedulerOfOthers(t *testing.T) {
	t.Parallel()
	server := own(t)
	opts := bench.Options{
		URL: server.URL, Only: []string{"scheduler"}, Quick: true, Timers: 100,
		Duration: 50 * time.Millisecond, Engine: engine.Defaults(), Log: slog.New(slog.DiscardHandler),
	}
	report, err := bench.Run(t.Context(), opts)
	if err != nil || len(report.Results) != 1 || report.Results[0].Figure() != 0 {
		t.Errorf("Run = %+v, %v, want one result without a figure", report, err)
	}
}

func own(t *testing.T) *bench.Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in the PATH")
	}
	server, err := bench.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}
