package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"flunq.io/flunq/engine/store"
)

// ErrNoServer means that no redis-server is installed.
var ErrNoServer = errors.New("no redis-server in the PATH: install Redis or use --redis-url")

// Server is a redis-server started for the bench.
type Server struct {
	URL string

	folder  string
	config  string
	command *exec.Cmd
	gone    chan struct{}
}

// The number of ports to try, and how long a server may take to start.
const (
	portAttempts = 5
	startTime    = time.Minute
	startPause   = 20 * time.Millisecond
)

// Serve starts a redis-server on a free port of this machine, in a temporary folder. With fsync
// "everysec" or "always" it writes an append-only file.
func Serve(ctx context.Context, fsync string) (*Server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoServer
	}
	for range portAttempts {
		var s *Server
		if s, err = launch(ctx, binary, fsync); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, err
}

func launch(ctx context.Context, binary, fsync string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "flunq-bench-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for redis-server: %w", err)
	}
	config := filepath.Join(folder, "redis.conf") // identifies this server
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("create the settings of redis-server: %w", err)
	}
	args := []string{config, "--port", port, "--bind", "127.0.0.1", "--daemonize", "no", "--save", "", "--dir", folder}
	if fsync != "" {
		args = append(args, "--appendonly", "yes", "--appendfsync", fsync)
	}
	s := &Server{
		URL: "redis://127.0.0.1:" + port, folder: folder, config: config, gone: make(chan struct{}),
		// An interrupt must not end the server, since cleaning up needs it.
		command: exec.CommandContext(context.WithoutCancel(ctx), binary, args...),
	}
	detach(s.command)
	if err := s.command.Start(); err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	go func() {
		defer close(s.gone)
		_ = s.command.Wait() // Close kills it
	}()
	if err := s.answers(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// answers waits until the server responds.
func (s *Server) answers(ctx context.Context) error {
	for began := time.Now(); ; {
		err := s.own(ctx)
		if err == nil {
			return nil
		}
		if time.Since(began) > startTime {
			return fmt.Errorf("redis-server does not respond: %w", err)
		}
		select {
		case <-s.gone:
			return errors.New("redis-server exited immediately")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startPause):
		}
	}
}

// own checks that this server answers. Another program may have taken the port, and its
// data must not be changed.
func (s *Server) own(ctx context.Context) error {
	rdb, err := store.Dial(ctx, s.URL)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	info, err := rdb.Info(ctx, "server").Result()
	if err == nil && !strings.Contains(info, "config_file:"+s.config+"\r\n") {
		err = errors.New("another server uses its port")
	}
	return err
}

// Close stops the server and removes its data.
func (s *Server) Close() {
	_ = s.command.Process.Kill()
	<-s.gone
	_ = os.RemoveAll(s.folder)
}

func freePort(ctx context.Context) (string, error) {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
