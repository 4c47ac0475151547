//go:build unix

package torture_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/delivery"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

var (
	full = flag.Bool("torture", false, "run at full size, one test after the other")
	seed = flag.Uint64("seed", 0, "seed of the random choices; 0: a new one each time")
)

// roleVariable makes this binary a process of the engine instead of a test.
const roleVariable = "FLUNQ_TORTURE_ROLE"

func TestMain(m *testing.M) {
	if text := os.Getenv(roleVariable); text != "" {
		os.Exit(runRole(text))
	}
	os.Exit(m.Run())
}

// role configures a process of the engine.
type role struct {
	Redis     string        `json:"redis"`
	Process   string        `json:"process"`
	Workers   int           `json:"workers"`
	Executors int           `json:"executors"`
	Timers    int           `json:"timers"`
	Lease     time.Duration `json:"lease"`
	Block     time.Duration `json:"block"`
	Remote    bool          `json:"remote"`
	Discover  bool          `json:"discover"` // serve tenants that are not named

	Scheduling *scheduling `json:"scheduling"` // a process of the scheduler instead
	Bridging   *bridging   `json:"bridging"`   // it is a bridge, too, or the broker instead
}

// options returns the options of a process with the role.
func (r role) options() engine.Options {
	opts := engine.Defaults()
	opts.Process = r.Process
	opts.Workers, opts.Executors, opts.Timers = r.Workers, r.Executors, r.Timers
	opts.Lease, opts.Remote, opts.Discover = r.Lease, r.Remote, r.Discover
	opts.Block(r.Block)
	opts.Sweep, opts.Activity = r.Lease, unneeded
	opts.RedisPercent = 0 // a full Redis is tested by what it refuses itself
	outward := httpcall.NewTransport(httpcall.AnyNetwork)
	opts.Transport = httpcall.Outward(branded{r.Process, outward})
	return opts
}

// runRole runs a process until SIGTERM, or until its parent ends.
func runRole(text string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	wire.Silence()
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		log.Error("role", "err", err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		// It may have been started while its Redis was down.
		if err := r.run(ctx, log); err != nil {
			log.Error("run", "err", err)
			time.Sleep(20 * time.Millisecond)
		}
	}
	return 0
}

func (r role) run(ctx context.Context, log *slog.Logger) error {
	rdb, err := store.Dial(ctx, r.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	if r.Bridging != nil && r.Bridging.Dir != "" {
		return r.Bridging.serve(ctx)
	}
	if r.Scheduling != nil {
		return r.Scheduling.run(ctx, r.Process, store.New(rdb, store.Options{}), log)
	}
	opts := r.options()
	if r.Bridging != nil {
		opts.BridgeGroup = r.Bridging.group()
		if opts.Bridge, err = r.Bridging.options(); err != nil {
			return err
		}
	}
	e, err := engine.New(rdb, opts)
	if err != nil {
		return err
	}
	return e.Run(ctx, log)
}

// unneeded ends a process whose sweep restores something, since these tests lose nothing.
func unneeded(a delivery.Activity) {
	if a.What == delivery.Restored {
		fmt.Fprintf(os.Stderr, "level=ERROR msg=\"restored %d of execution %s\"\n", a.Count, a.Message.Event.Execution)
		os.Exit(sweptCode)
	}
}

const sweptCode = 7

const (
	processHeader = "Flunq-Process" // of each call: the process that sends it
	poisonPath    = "/poison"       // calls below it crash their process
)

// branded is a transport that adds the name of the process to its calls, and crashes the process once a
// call below poisonPath has been answered.
type branded struct {
	process string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b branded) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(processHeader, b.process)
	res, err := b.next.RoundTrip(req)
	if err == nil && strings.HasPrefix(req.URL.Path, poisonPath) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return res, err
}

// String returns the role as the environment variable carries it.
func (r role) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("role: %v", err))
	}
	return string(text)
}
