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
	config       string // path of its own configuration, which identifies it
	args         []string
	environment  []string // additional variables
	command      *exec.Cmd
	gone         chan struct{}
}

// Serve starts an empty Redis that only t uses, with additional settings such as "--appendonly",
// "yes"; never the one that the environment names. It skips the test without a redis-server.
func Serve(t testing.TB, settings ...string) *Server {
	t.Helper()
	return serve(t, find(t), nil, settings...)
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return s.addr }

// Client returns a client that sends no commands by itself. It is closed with t.
func (s *Server) Client(t testing.TB) wire.Redis {
	t.Helper()
	return connect(t, &redis.Options{Addr: s.addr})
}

// PID returns the id of the server's process.
func (s *Server) PID() int { return s.command.Process.Pid }

// Kill ends the server as a crash would, if it runs.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	<-s.gone
}

// Restart starts the server again, on the same port and with the data that it had written.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if !s.start(t) {
		t.Fatalf("redis-server at %s did not start again", s.addr)
	}
}

// start starts the server and reports whether it answers.
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
