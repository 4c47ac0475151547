package redistest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Server is a redis-server that a test may kill and start again.
type Server struct {
	binary, addr string
	config       string // its own: by this it is known
	args         []string
	environment  []string // further variables
	command      *exec.Cmd
	gone         chan struct{}
}

// Serve starts an empty Redis of t's own with further settings, such as
// "--appendonly", "yes"; never the one that the environment names. Without a
// redis-server the test is skipped.
func Serve(t testing.TB, settings ...string) *Server {
	t.Helper()
	return serve(t, find(t), nil, settings...)
}

// Addr is the host and port of the server.
func (s *Server) Addr() string { return s.addr }

// Client is one that does nothing on its own and is closed with t.
func (s *Server) Client(t testing.TB) wire.Redis {
	t.Helper()
	return connect(t, &redis.Options{Addr: s.addr})
}

// PID is the process that serves.
func (s *Server) PID() int { return s.command.Process.Pid }

// Kill ends the server as a crash would, if it runs.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	<-s.gone
}

// Restart starts the server again, on its port and with what it had written.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if !s.start(t) {
		t.Fatalf("redis-server at %s did not start again", s.addr)
	}
}

// start reports whether the server answers.
func (s *Server) start(t testing.TB) bool {
	t.Helper()
	command, gone := exec.Command(s.binary, s.args...), make(chan struct{})
	command.Env = append(os.Environ(), s.environment...)
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", s.binary, err)
	}
	go func() {
		defer close(gone)
		_ = command.Wait()
	}()
	s.command, s.gone = command, gone
	return s.answers(t)
}
