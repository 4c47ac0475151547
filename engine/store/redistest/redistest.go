// Package redistest starts a real redis-server for a test.
package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/store/wire"
)

// Environment variables that name a server to use instead, whose database is emptied, and that make
// a missing redis-server a failure.
const (
	serverVariable  = "FLUNQ_TEST_REDIS"
	requireVariable = "FLUNQ_REQUIRE_REDIS"
)

const (
	portAttempts = 5
	startTime    = time.Minute // for a server to answer
	startPause   = 25 * time.Millisecond
	patience     = time.Minute // for a reply
)

// Start returns a client of an empty Redis that only t uses. It skips the test without a
// redis-server.
func Start(t testing.TB) wire.Redis {
	t.Helper()
	return connect(t, Options(t))
}

// Addr starts a Redis as Start does and returns its host and port.
func Addr(t testing.TB) string {
	t.Helper()
	return Options(t).Addr
}

// Options starts a Redis as Start does and returns what a client needs to know.
func Options(t testing.TB) *redis.Options {
	t.Helper()
	if url := os.Getenv(serverVariable); url != "" {
		return external(t, url)
	}
	return &redis.Options{Addr: serve(t, find(t), nil, "--appendonly", "no").addr}
}

// find returns the path of redis-server. It skips the test without one.
func find(t testing.TB) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err == nil {
		return binary
	}
	const missing = "REAL REDIS NOT TESTED: no redis-server in the PATH (apt-get install redis-server, or set " +
		serverVariable + "): what this test says about a real Redis is unchecked"
	if os.Getenv(requireVariable) == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// serve starts a redis-server on a free port, with additional environment variables.
func serve(t testing.TB, binary string, environment []string, settings ...string) *Server {
	t.Helper()
	for range portAttempts {
		if server := launch(t, binary, environment, settings); server != nil {
			return server
		}
	}
	t.Fatalf("redis-server did not respond on %d ports", portAttempts)
	return nil
}

// external empties the database that the environment names.
func external(t testing.TB, url string) *redis.Options {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("%s: %v", serverVariable, err)
	}
	if err := connect(t, opts).FlushDB(t.Context()).Err(); err != nil {
		t.Fatalf("empty %s: %v", url, err)
	}
	return opts
}

// launch starts a redis-server on a free port. It returns nil if the server does not respond because
// another program has taken the port first.
func launch(t testing.TB, binary string, environment, settings []string) *Server {
	t.Helper()
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("split %s: %v", addr, err)
	}
	folder := t.TempDir()
	server := &Server{binary: binary, environment: environment, addr: addr, config: filepath.Join(folder, "redis.conf")}
	if err := os.WriteFile(server.config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server.args = append([]string{
		server.config, "--port", port, "--bind", "127.0.0.1", "--daemonize", "no", "--save", "", "--dir", folder,
	}, settings...)
	if !server.start(t) {
		server.Kill()
		return nil
	}
	t.Cleanup(server.Kill)
	return server
}

// answers waits until the server replies or has exited.
func (s *Server) answers(t testing.TB) bool {
	t.Helper()
	client := s.Client(t)
	for began := time.Now(); time.Since(began) < startTime; {
		// Connect first: go-redis logs each failed attempt.
		if conn, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
			_ = conn.Close()
			if s.own(t, client) && client.Ping(t.Context()).Err() == nil {
				return true
			}
		}
		select {
		case <-s.gone:
			return false
		case <-time.After(startPause):
		}
	}
	return false
}

// own reports whether the server that replies is this one, and not that of another test that has
// taken the port first.
func (s *Server) own(t testing.TB, client wire.Redis) bool {
	t.Helper()
	info, err := client.Info(t.Context(), "server").Result()
	return err == nil && strings.Contains(info, "config_file:"+s.config+"\r\n")
}

// FreeAddr returns an address of this machine on which nothing listens. The system does not choose its
// port for others meanwhile, as it would a port from 32768 on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	const first, ports = 10_000, 10_000 // the port that a cluster's nodes use among themselves is 10,000 higher
	var err error
	for range portAttempts {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+rand.IntN(ports))); err == nil {
			_ = listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatalf("find a free port: %v", err)
	return ""
}

// Connect returns a client of the Redis at a host and port, which is closed with t.
func Connect(t testing.TB, addr string) wire.Redis {
	t.Helper()
	return connect(t, &redis.Options{Addr: addr})
}

// connect returns a patient client that sends no commands by itself. It is closed with t.
func connect(t testing.TB, opts *redis.Options) wire.Redis {
	t.Helper()
	own := *opts
	own.DisableIdentity = true
	own.MaxRetries = -1
	own.DialTimeout, own.ReadTimeout, own.WriteTimeout = patience, patience, patience
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&own)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// AddrOf returns the host and port that a client of one Redis is connected to.
func AddrOf(t testing.TB, rdb wire.Redis) string {
	t.Helper()
	to, ok := wire.EndpointOf(rdb)
	if !ok {
		t.Fatalf("%T has no address", rdb)
	}
	return to.Address
}
